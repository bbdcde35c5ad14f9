"""The thread that decodes: what arrives together is decoded together, and nobody waits for a longer request to end.

Requests of one kind and about one size share a lane, whose rows are one batch. The next lane to do a piece of work is
the one that has had the least time for its price: where all have work, one of short requests gets twice as much as the
next. Long requests, however many there are, then hardly slow a short one down, and go on all the same.
"""

import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from bytenet.decoding.beam_search import BeamConfig
from bytenet.pipeline import Pipeline
from bytenet.serving.jobs import CompletionJob, Job, TranslationJob
from bytenet.serving.lanes import CompletionLane, Lane, TranslationLane

SIZES = (128, 512, 4096)  # where requests of one size end and those of the next begin; most sentences are of the first


class BusyError(Exception):
    """No more requests are taken, for now or at all."""


@dataclass(eq=False)
class Share:
    """A lane, and the seconds of work that it has had, by its price."""

    lane: Lane
    had: float
    price: int
    """What a second is counted as: more for long requests, which can wait better."""


class Scheduler:
    """Takes requests from any thread, and works on them in its own."""

    def __init__(
        self,
        translator: Pipeline | None,
        writer: Pipeline | None,
        *,
        most: int = 256,
        wrote: Callable[[int], None] = lambda symbols: None,
    ) -> None:
        """`most` is how many requests may be on their way at once; `wrote` is told how many symbols a step wrote."""
        self.translator, self.writer, self.most, self.wrote = translator, writer, most, wrote
        self._shares: dict[Hashable, Share] = {}
        self._arrived: list[Job] = []
        self._on_the_way: set[Job] = set()
        self._changed = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="decoding", daemon=True)
        self._thread.start()

    @property
    def requests(self) -> int:
        return len(self._on_the_way)

    @property
    def rows(self) -> int:
        return sum(share.lane.rows for share in list(self._shares.values()))

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def translation(
        self, text: str, config: BeamConfig, *, max_length: int | None = None, seconds: float, split: int | None = None
    ) -> TranslationJob:
        """A request for a translation, to be put."""
        assert self.translator is not None
        splitting = self.translator.decoding.splitting(split)
        pieces = list(splitting.cut([text]))
        return TranslationJob(
            size=len(text), seconds=seconds, pieces=pieces, splitting=splitting, config=config, max_length=max_length
        )

    def put(self, job: Job) -> None:
        """Take a request; BusyError if too many are on their way."""
        with self._changed:
            if self._closing:
                raise BusyError("the service is shutting down")
            if len(self._on_the_way) >= self.most:
                raise BusyError(f"{self.most} requests are on their way")
            self._on_the_way.add(job)
            self._arrived.append(job)
            job.future.add_done_callback(lambda _: self._leave(job))
            self._changed.notify()

    def close(self) -> None:
        """Take no more requests, finish those that were taken, and end."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    def _leave(self, job: Job) -> None:
        with self._changed:
            self._on_the_way.discard(job)
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not (self._arrived or self._shares or self._closing):
                    self._changed.wait()
                arrived, self._arrived = self._arrived, []
            for job in arrived:
                self._add(job)
            self._sweep()
            if self._shares:
                self._work()
            elif self._closing and not self._arrived:
                return

    def _add(self, job: Job) -> None:
        rank = sum(job.size > size for size in SIZES)
        key: Hashable = (rank, job.config) if isinstance(job, TranslationJob) else rank
        if key not in self._shares:
            least = min((share.had for share in self._shares.values()), default=0.0)
            self._shares[key] = Share(self._make(job), least, 2**rank)
        self._shares[key].lane.add(job)

    def _make(self, job: Job) -> Lane:
        if isinstance(job, TranslationJob):
            assert self.translator is not None
            return TranslationLane(self.translator, job.config)
        assert isinstance(job, CompletionJob)
        assert self.writer is not None
        return CompletionLane(self.writer)

    def _sweep(self) -> None:
        """Requests that are over leave, and so do empty lanes."""
        for key, share in list(self._shares.items()):
            jobs = share.lane.jobs()
            if over := {job for job in jobs if job.is_over()}:
                share.lane.drop(over)
            if over == jobs:
                del self._shares[key]

    def _work(self) -> None:
        """A piece of work for the lane that has had the least time for its price."""
        key, share = min(self._shares.items(), key=lambda item: item[1].had)
        begin = time.perf_counter()
        try:
            self.wrote(share.lane.work())
        except Exception as error:  # a fault of ours, or no memory: those in this lane fail, the others go on
            for job in share.lane.jobs():
                job.fail(error)
            del self._shares[key]
        share.had += share.price * (time.perf_counter() - begin)
