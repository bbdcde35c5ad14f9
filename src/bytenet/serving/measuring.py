"""How surprising texts are to the models."""

from typing import Any

from fastapi import APIRouter, HTTPException, Request
from pydantic import BaseModel, Field

from bytenet.pipeline import Pipeline
from bytenet.serving.reading import body_of, read
from bytenet.serving.service import Service


class ScoreRequest(BaseModel):
    """Texts, for the language model; or with sources, targets for the translator."""

    texts: list[str] = Field(description="Each by itself.")
    sources: list[str] | None = Field(None, description="What the texts are translations of.")


def routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["measuring"])

    @router.post("/score", summary="Bits of texts", openapi_extra=body_of(ScoreRequest))
    async def score(request: Request) -> dict[str, Any]:
        asked = await read(request, ScoreRequest)
        model, given = checked(service, asked)
        request.state.about["characters"] = sum(map(len, asked.texts))
        scores = await service.unless_gone(request, service.beside(lambda: list(model.score(given))))
        return {
            "scores": [
                {"bits": one.bits, "characters": one.characters, "bytes": one.bytes, "unknown": one.unknown}
                for one in scores
            ]
        }

    return router


def checked(service: Service, asked: ScoreRequest) -> tuple[Pipeline, list[Any]]:
    model = service.writer if asked.sources is None else service.translator
    if model is None:
        raise HTTPException(404, f"this service has no {'language model' if asked.sources is None else 'translator'}")
    if len(asked.texts) > service.config.most_texts:
        raise HTTPException(400, f"a request may have at most {service.config.most_texts} texts")
    for text in (*asked.texts, *(asked.sources or [])):
        service.check_text(text)
    if asked.sources is None:
        return model, list(asked.texts)
    if len(asked.sources) != len(asked.texts):
        raise HTTPException(400, f"{len(asked.sources)} sources for {len(asked.texts)} texts")
    return model, list(zip(asked.sources, asked.texts, strict=True))
