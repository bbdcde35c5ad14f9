"""Continuations of texts, as OpenAI's clients ask for completions. A token is a symbol of the model: a byte or a
character.
"""

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

from bytenet.decoding.sampling import SamplingConfig
from bytenet.serving.choice import Choice
from bytenet.serving.jobs import CompletionJob, LateError, Written
from bytenet.serving.reading import body_of, read
from bytenet.serving.service import Service
from bytenet.vocabulary import NUM_CONTROLS

MOST_STOPS, MOST_ALTERNATIVES = 16, 20

Tokens = Annotated[list[int], Field(min_length=1)]


class StreamOptions(BaseModel):
    include_usage: bool = False


class CompletionRequest(BaseModel):
    """A prompt, or several; each a text or a list of the model's own symbol numbers."""

    model: str = Field("", description="As /v1/models has it.")
    prompt: str | Tokens | list[str] | list[Tokens] = Field("", description="What to continue.")
    max_tokens: Annotated[int, Field(ge=0, description="Of each continuation, at most.")] = 16
    temperature: Annotated[float, Field(ge=0, le=100, description="0 takes the most probable symbol.")] = 1.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    n: Annotated[int, Field(ge=1, description="How many continuations of each prompt.")] = 1
    stream: bool = False
    stream_options: StreamOptions | None = None
    logprobs: Annotated[int, Field(ge=0, le=MOST_ALTERNATIVES)] | None = None
    echo: bool = Field(False, description="Give the prompt back too.")
    stop: str | list[str] | None = Field(None, description="Texts that end a continuation, and are no part of it.")
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = None
    best_of: int | None = None
    suffix: str | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    user: str | None = None

    @property
    def prompts(self) -> list[str | list[int]]:
        if isinstance(self.prompt, str) or (self.prompt and isinstance(self.prompt[0], int)):
            return [self.prompt]
        return list(self.prompt)  # type: ignore[arg-type]

    @property
    def stops(self) -> list[str]:
        found = [self.stop] if isinstance(self.stop, str) else self.stop or []
        return [text for text in found if text]


def routes(service: Service) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["language model"])

    @router.get("/models", summary="The language model")
    async def models() -> dict[str, Any]:
        names = [service.writer.name] if service.writer else []
        data = [{"id": name, "object": "model", "created": service.started, "owned_by": "bytenet"} for name in names]
        return {"object": "list", "data": data}

    @router.post("/completions", summary="Continue a text", openapi_extra=body_of(CompletionRequest))
    async def completions(request: Request) -> Any:
        asked = await read(request, CompletionRequest)
        prompts = checked(service, asked)
        note(service, request, asked, prompts)
        completion = Completion(service, asked, prompts)
        completion.put()
        if asked.stream:
            return StreamingResponse(completion.events(), media_type="text/event-stream")
        return await completion.whole(request)

    return router


def checked(service: Service, asked: CompletionRequest) -> list[list[int]]:
    """The prompts' symbols; what cannot be done is refused."""
    limits, writer = service.config, service.writer
    if writer is None:
        raise HTTPException(404, "this service has no language model")
    if asked.model not in ("", writer.name):
        raise HTTPException(404, f"the model {asked.model[:50]!r} does not exist; there is {writer.name!r}")
    penalties = (asked.presence_penalty, asked.frequency_penalty)
    for name, is_asked in (
        ("suffix", asked.suffix), ("penalties", any(penalties)), ("logit_bias", asked.logit_bias),
        ("best_of", asked.best_of not in (None, asked.n)),
    ):  # fmt: skip
        if is_asked:
            raise HTTPException(400, f"{name}: not supported")
    if len(asked.prompts) * asked.n > limits.most_texts:
        raise HTTPException(400, f"a request may ask for at most {limits.most_texts} continuations")
    if asked.n > limits.most_samples:
        raise HTTPException(400, f"n may be at most {limits.most_samples}")
    if asked.max_tokens > limits.most_symbols:
        raise HTTPException(400, f"max_tokens may be at most {limits.most_symbols:,}")
    service.check(asked.prompts)
    if len(asked.stops) > MOST_STOPS:
        raise HTTPException(400, f"stop may have at most {MOST_STOPS} texts")
    return [symbols(service, prompt) for prompt in asked.prompts]


def symbols(service: Service, prompt: str | list[int]) -> list[int]:
    assert service.writer is not None
    vocabulary = service.writer.vocabularies[0]
    if isinstance(prompt, str):
        return vocabulary.encode_array(prompt).tolist()  # type: ignore[no-any-return]
    if any(not NUM_CONTROLS - 1 <= token < len(vocabulary) for token in prompt):
        raise HTTPException(400, f"prompt: tokens are from {NUM_CONTROLS - 1} to {len(vocabulary) - 1}")
    return prompt


def note(service: Service, request: Request, asked: CompletionRequest, prompts: list[list[int]]) -> None:
    """For the log."""
    request.state.about["characters"] = sum(map(len, prompts))
    if service.config.log_texts:
        request.state.about["texts"] = asked.prompts


class Completion:
    """All continuations of one request."""

    def __init__(self, service: Service, asked: CompletionRequest, prompts: list[list[int]]) -> None:
        assert service.writer is not None
        self.service, self.asked, self.prompts = service, asked, prompts
        self.loop = asyncio.get_running_loop()
        self.news: asyncio.Queue[tuple[int, Written | bool | Exception]] = asyncio.Queue()
        self.about = {
            "id": f"cmpl-{uuid.uuid4().hex}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": service.writer.name,
        }
        self.choices = [
            Choice(
                index=number * asked.n + i,
                pipeline=service.writer,
                stops=asked.stops,
                keep_likelihoods=asked.logprobs is not None,
                echoes=len(prompt) if asked.echo else 0,
            )
            for number, prompt in enumerate(prompts)
            for i in range(asked.n)
        ]
        self.jobs = [self._job(number, prompt) for number, prompt in enumerate(prompts)]

    def _job(self, number: int, prompt: list[int]) -> CompletionJob:
        asked, first = self.asked, number * self.asked.n
        return CompletionJob(
            size=len(prompt) + asked.max_tokens,
            seconds=self.service.config.seconds,
            prompt=prompt,
            number=asked.n,
            length=asked.max_tokens,
            config=SamplingConfig(temperature=asked.temperature, top_p=asked.top_p),
            seed=asked.seed,
            echo=asked.echo,
            alternatives=asked.logprobs or 0,
            emit=lambda i, written: self._tell(first + i, written),
            ended=lambda i, by_itself: self._tell(first + i, by_itself),
        )

    def _tell(self, index: int, news: "Written | bool | Exception") -> None:
        """From the thread that decodes."""
        self.loop.call_soon_threadsafe(self.news.put_nowait, (index, news))

    def put(self) -> None:
        """Hand all jobs to the scheduler, or none."""
        try:
            for number, job in enumerate(self.jobs):
                job.future.add_done_callback(partial(self._failed, number * self.asked.n))
                self.service.put(job)
        except HTTPException:
            self.cancel()
            raise

    def _failed(self, first: int, future: Any) -> None:
        if not future.cancelled() and (error := future.exception()):
            self._tell(first, error)

    def cancel(self) -> None:
        for job in self.jobs:
            job.future.cancel()

    async def follow(self) -> AsyncIterator[Choice]:
        """Each choice whenever there is something new about it, until all are finished."""
        open_choices = {choice.index for choice in self.choices}
        try:
            while open_choices:
                index, news = await self.news.get()
                if isinstance(news, Exception):
                    raise news
                if index not in open_choices:
                    continue
                choice = self.choices[index]
                if isinstance(news, Written):
                    if choice.put(news):
                        self.jobs[index // self.asked.n].stopped.add(index % self.asked.n)
                        open_choices.discard(index)
                else:
                    choice.end(news)
                    open_choices.discard(index)
                yield choice
        finally:
            self.cancel()

    async def whole(self, request: Request) -> dict[str, Any]:
        """The answer in one piece."""

        async def finish() -> None:
            async for _ in self.follow():
                pass

        await self.service.unless_gone(request, finish())
        return self.about | {"choices": [self._choice(choice) for choice in self.choices], "usage": self._usage()}

    async def events(self) -> AsyncIterator[str]:
        """The answer as server-sent events."""
        try:
            async for choice in self.follow():
                part = self._choice(choice)
                if part["text"] or part["finish_reason"] or (part["logprobs"] and part["logprobs"]["tokens"]):
                    yield event(self.about | {"choices": [part]})
            if self.asked.stream_options and self.asked.stream_options.include_usage:
                yield event(self.about | {"choices": [], "usage": self._usage()})
        except LateError as error:
            yield event({"error": {"message": str(error), "type": "timeout", "param": None, "code": None}})
        yield "data: [DONE]\n\n"

    def _choice(self, choice: Choice) -> dict[str, Any]:
        text, logprobs = choice.take()
        return {"text": text, "index": choice.index, "logprobs": logprobs, "finish_reason": choice.finish}

    def _usage(self) -> dict[str, int]:
        prompts = sum(map(len, self.prompts))
        written = sum(choice.symbols - choice.echoes for choice in self.choices)
        return {"prompt_tokens": prompts, "completion_tokens": written, "total_tokens": prompts + written}


def event(content: dict[str, Any]) -> str:
    return f"data: {json.dumps(content)}\n\n"
