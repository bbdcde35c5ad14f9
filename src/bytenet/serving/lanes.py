"""What is decoded in one batch: requests of one kind and about one size, whose rows join and leave at any step.

Shapes: n rows, T positions, V vocabulary.
"""

from collections import deque
from collections.abc import Collection, Iterable
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from bytenet.decoding.batching import Ids, padded
from bytenet.decoding.beam_search import BeamConfig
from bytenet.decoding.running import RunningSample, RunningSearch, Writing
from bytenet.decoding.splitting import NOTHING_TO_TRANSLATE
from bytenet.model import LanguageModel, Translator
from bytenet.pipeline import Pipeline
from bytenet.serving.jobs import CompletionJob, Job, TranslationJob, Written
from bytenet.vocabulary import BEGIN, END

LANE_ROWS = 768  # beyond this a step's time grows with the rows
READ_AT_ONCE = 512  # positions of sources or prompts: nobody waits long for one that reads


class Lane(Protocol):
    """Jobs that are worked on together."""

    @property
    def rows(self) -> int:
        """How many are being decoded."""
        ...

    def jobs(self) -> set[Job]: ...

    def add(self, job: Any) -> None: ...

    def work(self) -> int:
        """A short piece of work; how many symbols it has written."""
        ...

    def drop(self, jobs: Collection[Job]) -> None: ...


Piece = tuple[TranslationJob, int]


class TranslationLane:
    """Beam searches."""

    def __init__(self, pipeline: Pipeline, config: BeamConfig) -> None:
        self.pipeline = pipeline
        self.search: RunningSearch[Piece] = RunningSearch(pipeline.engine, config)
        self.waiting: deque[Piece] = deque()
        self.may_read = True

    @property
    def rows(self) -> int:
        return self.search.rows

    def jobs(self) -> set[Job]:
        return {job for job, _ in (*self.waiting, *self.search.tickets)}

    def add(self, job: TranslationJob) -> None:
        for number, piece in enumerate(job.pieces):
            if piece.strip():
                self.waiting.append((job, number))
            else:
                job.put(number, [NOTHING_TO_TRANSLATE])

    def work(self) -> int:
        """Readers and writers take turns."""
        room = LANE_ROWS - self.rows
        if self.waiting and (self.rows == 0 or (self.may_read and room >= self.search.config.beam)):
            self._read(max(1, room // self.search.config.beam))
            self.may_read = False
            return 0
        rows = self.rows
        for (job, number), hypotheses in self.search.step():
            job.put(number, [self.pipeline.translation(hypothesis, job.config) for hypothesis in hypotheses])
        self.may_read = True
        return rows // self.search.config.beam

    def _read(self, most: int) -> None:
        """Let some of those that wait join the search: as many as can be read in a short time."""
        pieces: list[Piece] = []
        encoded: list[Ids] = []
        longest = 0
        while self.waiting and len(pieces) < most:
            job, number = self.waiting[0]
            ids = self.pipeline.vocabularies[0].encode_array(job.pieces[number])
            longest = max(longest, len(ids))
            if pieces and longest * (len(pieces) + 1) > READ_AT_ONCE:
                break
            pieces.append(self.waiting.popleft())
            encoded.append(ids)
        model = self.pipeline.model
        assert isinstance(model, Translator)
        with torch.no_grad():
            sources = padded(encoded).to(self.pipeline.device)
            state = model.start(sources, [len(ids) for ids in encoded], dtype=self.pipeline.writing_precision)
        limits = [
            job.max_length or self.pipeline.limit(len(ids)) for (job, _), ids in zip(pieces, encoded, strict=True)
        ]
        self.search.add(pieces, state, limits)

    def drop(self, jobs: Collection[Job]) -> None:
        self.waiting = deque(piece for piece in self.waiting if piece[0] not in jobs)
        self.search.drop([piece for piece in self.search.tickets if piece[0] in jobs])


class Reading:
    """A prompt that is being read, part by part."""

    def __init__(self, job: CompletionJob, pipeline: Pipeline) -> None:
        model = pipeline.model
        assert isinstance(model, LanguageModel)
        self.job, self.model = job, model
        self.tokens = F.pad(torch.tensor(job.prompt, dtype=torch.int64), (1, 0), value=BEGIN).to(pipeline.device)
        self.state, self.read = model.start(dtype=pipeline.writing_precision), 0

    @property
    def is_done(self) -> bool:
        return self.read == len(self.tokens) - 1

    @torch.no_grad()
    def go_on(self) -> None:
        """One part more; its symbols are given out if the job asks for them."""
        part = self.tokens[self.read : -1][:READ_AT_ONCE]
        logits, self.state = self.model(part[None], self.state)
        if self.job.echo:
            following = self.tokens[self.read + 1 :][: len(part)]
            for written in likelihoods(logits[0], following, self.job.alternatives):
                for number in range(self.job.number):
                    self.job.emit(number, written)
        self.read += len(part)


Row = tuple[CompletionJob, int]


class CompletionLane:
    """Continuations of prompts."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.sample: RunningSample[Row] = RunningSample(pipeline.engine)
        self.waiting: deque[CompletionJob] = deque()
        self.reading: Reading | None = None
        self.may_read = True

    @property
    def rows(self) -> int:
        return self.sample.rows

    def jobs(self) -> set[Job]:
        reading = [self.reading.job] if self.reading else []
        return {*self.waiting, *reading, *(writing.ticket[0] for writing in self.sample.writings)}

    def add(self, job: CompletionJob) -> None:
        self.waiting.append(job)

    def work(self) -> int:
        """Readers and writers take turns."""
        if self.reading is None and self.waiting and self.rows + self.waiting[0].number <= LANE_ROWS:
            self.reading = Reading(self.waiting.popleft(), self.pipeline)
        if self.reading is not None and (self.may_read or not self.rows):
            self._read(self.reading)
            self.may_read = False
            return 0
        self.may_read = True
        return self._step()

    def _read(self, reading: Reading) -> None:
        if not reading.is_done:
            reading.go_on()
        if not reading.is_done:
            return
        self.reading, job = None, reading.job
        job.written, job.unfinished = [0] * job.number, set(range(job.number))
        if not job.length:
            for number in range(job.number):
                job.ended(number, False)
            job.succeed(None)
            return
        for number in range(job.number):
            generator = torch.Generator(self.pipeline.device)
            generator.manual_seed(job.seed + number) if job.seed is not None else generator.seed()
            self.sample.add(Writing((job, number), job.config, generator), reading.state, reading.tokens[-1:])

    def _step(self) -> int:
        found, finished = self.sample.step(), []
        for (job, number), token, logits in found:
            if number not in job.stopped and token != END:
                (written,) = likelihoods(logits[None], torch.tensor([token], device=logits.device), job.alternatives)
                job.emit(number, written)
                job.written[number] += 1
            if number in job.stopped or token == END or job.written[number] == job.length:
                finished.append((job, number))
                job.ended(number, token == END)
                job.unfinished.discard(number)
                if not job.unfinished:
                    job.succeed(None)
        self.sample.drop(finished)
        return len(found)

    def drop(self, jobs: Collection[Job]) -> None:
        self.waiting = deque(job for job in self.waiting if job not in jobs)
        if self.reading is not None and self.reading.job in jobs:
            self.reading = None
        self.sample.drop([writing.ticket for writing in self.sample.writings if writing.ticket[0] in jobs])


def likelihoods(logits: Tensor, tokens: Tensor, alternatives: int) -> Iterable[Written]:
    """logits (T, V), tokens (T,) -> how likely each token was, and which ones were likelier"""
    likelihood = logits.double().log_softmax(-1)
    own = likelihood.gather(1, tokens[:, None])[:, 0].tolist()
    best = likelihood.topk(min(alternatives, likelihood.shape[1])) if alternatives else None
    for i, token in enumerate(tokens.tolist()):
        top = [] if best is None else list(zip(best.indices[i].tolist(), best.values[i].tolist(), strict=True))
        yield Written(token, own[i], top)
