"""What all routes stand on: the models, the scheduler, the limits."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Sequence, Sized
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from fastapi import HTTPException, Request

from bytenet.model import LanguageModel, Translator
from bytenet.pipeline import Pipeline
from bytenet.serving.config import ServingConfig
from bytenet.serving.http import Metrics
from bytenet.serving.jobs import Job, LateError
from bytenet.serving.scheduler import BusyError, Scheduler

T = TypeVar("T")
GoOn = Callable[[], None]
"""Raises InVainError where work need not go on."""


class InVainError(Exception):
    """Nobody waits for this any more."""


class Service:
    """Made before the first request, closed after the last."""

    def __init__(self, translator: Pipeline | None, writer: Pipeline | None, config: ServingConfig) -> None:
        if translator is not None and not isinstance(translator.model, Translator):
            raise ValueError(f"{translator.name} is no ByteNet that translates, but a {translator.model.config.kind}")
        if translator is not None and translator.decoding.beam > config.most_beam:
            asked = translator.decoding.beam
            raise ValueError(f"{translator.name} asks for a beam of {asked}, and a service allows {config.most_beam}")
        if writer is not None and not isinstance(writer.model, LanguageModel):
            raise ValueError(f"{writer.name} is no language model, but a {writer.model.config.kind}")
        self.translator, self.writer, self.config = translator, writer, config
        self.metrics = Metrics()
        self.scheduler = Scheduler(
            translator, writer, most=config.most_requests, wrote=lambda count: self.metrics.symbols.inc(count)
        )
        self.metrics.on_the_way.set_function(lambda: self.scheduler.requests)
        self.metrics.rows.set_function(lambda: self.scheduler.rows)
        self.started = int(time.time())
        self._beside = ThreadPoolExecutor(1, "beside")  # what is not decoding
        self._beside_waiting = 0

    def close(self) -> None:
        """Finish what was accepted."""
        self.scheduler.close()
        self._beside.shutdown()

    def put(self, job: Job) -> None:
        """Hand a request to the scheduler; a full queue is the answer 429."""
        try:
            self.scheduler.put(job)
        except BusyError as error:
            raise busy(str(error)) from None

    async def unless_gone(self, request: Request, work: Awaitable[T]) -> T:
        """What becomes of some work, which is given up if the client goes away, or if it takes too long."""
        found = asyncio.ensure_future(work)
        gone = asyncio.create_task(disconnected(request))
        try:
            await asyncio.wait({found, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not found.done():
                raise HTTPException(499, "the client has gone")
            return found.result()
        except LateError as error:
            raise HTTPException(504, str(error)) from None
        finally:
            gone.cancel()
            found.cancel()

    async def beside(self, work: Callable[[GoOn], T]) -> T:
        """Work that is not decoding, one piece at a time, in a thread of its own.

        It calls what it is given now and then, and so ends when nobody waits for it any more. LateError if it takes,
        with its time in the queue, longer than a request may.
        """
        if self._beside_waiting >= self.config.most_requests:
            raise busy(f"{self._beside_waiting} requests are on their way")
        self._beside_waiting += 1
        in_vain = threading.Event()

        def go_on() -> None:
            if in_vain.is_set():
                raise InVainError

        try:
            running = asyncio.get_running_loop().run_in_executor(self._beside, work, go_on)
            return await asyncio.wait_for(running, self.config.seconds)
        except TimeoutError:
            raise LateError(f"not done after {self.config.seconds:g} s") from None
        finally:
            in_vain.set()
            self._beside_waiting -= 1

    def check(self, texts: Sequence[Sized]) -> None:
        """Refuse what would keep others waiting for too long."""
        if len(texts) > self.config.most_texts:
            raise HTTPException(400, f"a request may have at most {self.config.most_texts} texts")
        if sum(map(len, texts)) > self.config.most_characters:
            raise HTTPException(400, f"a request may have at most {self.config.most_characters:,} characters")


def busy(message: str) -> HTTPException:
    return HTTPException(429, f"busy: {message}; try again", headers={"Retry-After": "1"})


async def disconnected(request: Request) -> None:
    """Returns when the client has closed the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
