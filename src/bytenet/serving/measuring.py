"""How surprising texts are to the models, and what made a translation."""

from typing import Any

from fastapi import APIRouter, HTTPException, Request
from pydantic import BaseModel, Field

from bytenet.evaluation.explanation import By, Explanation
from bytenet.pipeline import Pipeline
from bytenet.serving.reading import body_of, read
from bytenet.serving.service import GoOn, Service


class ScoreRequest(BaseModel):
    """Texts, for the language model; or with sources, targets for the translator."""

    texts: list[str] = Field(description="Each by itself.")
    sources: list[str] | None = Field(None, description="What the texts are translations of.")


class ExplainRequest(BaseModel):
    """A source and its translation; or without a source, a text for the language model."""

    source: str | None = Field(None, description="What was translated.")
    target: str = Field(description="The translation, or the text.")
    by: By = Field("word", description="Words, or characters.")


def routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["measuring"])

    @router.post("/score", summary="Bits of texts", openapi_extra=body_of(ScoreRequest))
    async def score(request: Request) -> dict[str, Any]:
        asked = await read(request, ScoreRequest)
        model, given = checked(service, asked)
        request.state.about["characters"] = sum(map(len, asked.texts))
        scores = await service.unless_gone(request, service.beside(lambda go_on: list(model.score(given))))
        return {
            "scores": [
                {"bits": one.bits, "characters": one.characters, "bytes": one.bytes, "unknown": one.unknown}
                for one in scores
            ]
        }

    @router.post("/explain", summary="What each word depends on", openapi_extra=body_of(ExplainRequest))
    async def explain(request: Request) -> dict[str, Any]:
        """Shares of each output (columns) by inputs (rows), from gradients; each column has the sum 1 or 0."""
        asked = await read(request, ExplainRequest)
        model = chosen(service, translator=asked.source is not None)
        request.state.about["characters"] = len(asked.source or "") + len(asked.target)
        if max(len(asked.source or ""), len(asked.target)) > service.config.most_explained:
            raise HTTPException(400, f"at most {service.config.most_explained} characters can be explained")
        source, target = (asked.target, None) if asked.source is None else (asked.source, asked.target)

        def explained(go_on: GoOn) -> Explanation:
            return model.explain(source, target, asked.by, watch=lambda done, all_: go_on())

        try:
            found = await service.unless_gone(request, service.beside(explained))
        except ValueError as error:  # too long, or nothing in it
            raise HTTPException(400, str(error)) from None
        parts = {"target": found.from_target, "source": found.from_source}
        return {
            "outputs": found.from_target.outputs,
            **{name: part.inputs for name, part in parts.items() if part},
            **{f"by_{name}": part.shares.tolist() for name, part in parts.items() if part},
        }

    return router


def chosen(service: Service, *, translator: bool) -> Pipeline:
    model = service.translator if translator else service.writer
    if model is None:
        raise HTTPException(404, f"this service has no {'translator' if translator else 'language model'}")
    return model


def checked(service: Service, asked: ScoreRequest) -> tuple[Pipeline, list[Any]]:
    model = chosen(service, translator=asked.sources is not None)
    service.check(asked.texts)
    service.check(asked.sources or [])
    if asked.sources is None:
        return model, list(asked.texts)
    if len(asked.sources) != len(asked.texts):
        raise HTTPException(400, f"{len(asked.sources)} sources for {len(asked.texts)} texts")
    return model, list(zip(asked.sources, asked.texts, strict=True))
