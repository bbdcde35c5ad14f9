"""Requests as JSON or as forms, checked: what is wrong with one is told in a line."""

import json
from typing import Any, TypeVar
from urllib.parse import parse_qs

from fastapi import HTTPException, Request
from pydantic import BaseModel, ValidationError

B = TypeVar("B", bound=BaseModel)

FORM = "application/x-www-form-urlencoded"


async def read(request: Request, kind: type[B]) -> B:
    """The body of a request."""
    content, body = request.headers.get("content-type", ""), await request.body()
    try:
        if content.startswith(FORM):
            fields = parse_qs(body.decode("utf-8"), keep_blank_values=True)
            value: Any = {name: values[-1] for name, values in fields.items()}
        else:
            value = json.loads(body)
    except UnicodeDecodeError as error:
        raise HTTPException(400, f"not UTF-8 at byte {error.start}") from None
    except (ValueError, RecursionError):
        raise HTTPException(400, "the body is not JSON") from None
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        raise HTTPException(400, first_mistake(error)) from None


def first_mistake(error: ValidationError) -> str:
    mistake = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part) for part in mistake["loc"])
    return f"{place}: {mistake['msg']}" if place else mistake["msg"]


def body_of(kind: type[BaseModel], *, form: bool = False) -> dict[str, Any]:
    """What the OpenAPI document says about such a body."""
    schema = kind.model_json_schema()
    definitions = schema.pop("$defs", {})
    body = {"schema": _whole(schema, definitions)}
    content = {"application/json": body} | ({FORM: body} if form else {})
    return {"requestBody": {"required": True, "content": content}}


def _whole(schema: Any, definitions: dict[str, Any]) -> Any:
    """A schema with what it refers to in it, as it is not the document's only one."""
    if isinstance(schema, list):
        return [_whole(part, definitions) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _whole(definitions[schema["$ref"].rsplit("/", 1)[1]], definitions)
    return {name: _whole(part, definitions) for name, part in schema.items()}
