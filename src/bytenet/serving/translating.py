"""Translation, as LibreTranslate's clients ask for it."""

import asyncio
from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, HTTPException, Request
from pydantic import BaseModel, Field

from bytenet.decoding.beam_search import BeamConfig
from bytenet.decoding.splitting import Translation
from bytenet.pipeline import Pipeline
from bytenet.serving.reading import body_of, read
from bytenet.serving.service import Service

NAMES = {"de": "German", "en": "English", "es": "Spanish", "fr": "French", "it": "Italian", "pt": "Portuguese"}


class TranslateRequest(BaseModel):
    """A text, or several."""

    q: str | list[str] = Field(description="The text, or a list of texts.")
    source: str = Field("auto", description="The language of the text; auto is the model's.")
    target: str = Field("auto", description="The language to translate into; auto is the model's.")
    format: Literal["text"] = Field("text", description="Texts are plain.")
    alternatives: Annotated[int, Field(ge=0, description="How many further translations of each text.")] = 0
    beam: Annotated[int, Field(ge=1)] | None = Field(
        None, description="Hypotheses that are followed at once; null is the model's own choice."
    )
    api_key: str | None = Field(None, description="If the service asks for one.")


class DetectRequest(BaseModel):
    """A text."""

    q: str
    api_key: str | None = None


def routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["translation"])

    @router.get("/languages", summary="The languages of the model")
    async def languages() -> list[dict[str, Any]]:
        source, target = codes(needed(service))
        return [
            {"code": source, "name": NAMES.get(source, source), "targets": [target]},
            {"code": target, "name": NAMES.get(target, target), "targets": []},
        ]

    @router.get("/decoding", summary="How the model is used unless a request says otherwise")
    async def decoding() -> dict[str, Any]:
        """But for the model's list of names, which is long."""
        return {key: value for key, value in asdict(needed(service).decoding).items() if key != "names"}

    @router.post("/translate", summary="Translate", openapi_extra=body_of(TranslateRequest, form=True))
    async def translate(request: Request) -> dict[str, Any]:
        asked = await read(request, TranslateRequest)
        texts = [asked.q] if isinstance(asked.q, str) else asked.q
        config = checked(service, asked, texts)
        note(service, request, texts)
        jobs = [service.scheduler.translation(text, config, seconds=service.config.seconds) for text in texts]
        try:
            for job in jobs:
                service.put(job)
            together = asyncio.gather(*(asyncio.wrap_future(job.future) for job in jobs))
            found = await service.unless_gone(request, together)
        finally:
            for job in jobs:
                job.future.cancel()
        return answer(asked, found)

    @router.post("/detect", summary="Not offered", openapi_extra=body_of(DetectRequest, form=True))
    async def detect(request: Request) -> list[dict[str, Any]]:
        await read(request, DetectRequest)
        raise HTTPException(404, "this service translates from one language and cannot tell languages apart")

    return router


def needed(service: Service) -> Pipeline:
    if service.translator is None:
        raise HTTPException(404, "this service has no translator")
    return service.translator


def codes(pipeline: Pipeline) -> tuple[str, str]:
    """The languages of a model; one that does not say has some."""
    source, target = pipeline.decoding.languages or ("source", "target")
    return source, target


def checked(service: Service, asked: TranslateRequest, texts: list[str]) -> BeamConfig:
    """How to search for it; what cannot be done is refused."""
    decoding = needed(service).decoding
    for given, own in zip((asked.source, asked.target), codes(needed(service)), strict=True):
        if given not in ("auto", own):
            raise HTTPException(400, f"{given[:20]} is not supported; this service translates {own}")
    service.check(texts)
    whose, beam = ("the model's beam", decoding.beam) if asked.beam is None else ("the beam", asked.beam)
    if beam > service.config.most_beam:
        raise HTTPException(400, f"beam may be at most {service.config.most_beam}")
    if asked.alternatives >= beam:
        raise HTTPException(400, f"alternatives must be fewer than {whose} of {beam}")
    return decoding.beam_config(beam=beam, n_best=asked.alternatives + 1)


def note(service: Service, request: Request, texts: list[str]) -> None:
    """For the log."""
    request.state.about["characters"] = sum(map(len, texts))
    if service.config.log_texts:
        request.state.about["texts"] = texts


def answer(asked: TranslateRequest, found: list[list[Translation]]) -> dict[str, Any]:
    best = [translations[0].text for translations in found]
    others = [[one.text for one in translations[1:]] for translations in found]
    single = isinstance(asked.q, str)
    result: dict[str, Any] = {"translatedText": best[0] if single else best}
    if asked.alternatives:
        result["alternatives"] = others[0] if single else others
    return result
