"""Requests on their way through the scheduler."""

import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from bytenet.decoding.beam_search import BeamConfig
from bytenet.decoding.sampling import SamplingConfig
from bytenet.decoding.splitting import Splitting, Translation


class LateError(Exception):
    """The time that a request may take is over."""


@dataclass(eq=False, kw_only=True)
class Job:
    """A request; whoever no longer wants its result cancels the future."""

    size: int
    """In characters, of what is to be read and written."""
    seconds: float
    """How long it may take."""
    future: "Future[Any]" = field(default_factory=Future)
    deadline: float = 0.0
    """By time.monotonic()."""

    def __post_init__(self) -> None:
        self.deadline = time.monotonic() + self.seconds

    def is_over(self) -> bool:
        """Whether it need not go on: done, cancelled, or too late."""
        if not self.future.done() and time.monotonic() > self.deadline:
            self.fail(LateError(f"not done after {self.seconds:g} s"))
        return self.future.done()

    def fail(self, error: Exception) -> None:
        if not self.future.done() and self.future.set_running_or_notify_cancel():
            self.future.set_exception(error)

    def succeed(self, result: Any) -> None:
        if not self.future.done() and self.future.set_running_or_notify_cancel():
            self.future.set_result(result)


@dataclass(eq=False, kw_only=True)
class TranslationJob(Job):
    """A text to translate; the result is a list of Translations, the best one first."""

    pieces: list[str]
    """What is translated by itself; an empty one is its own translation."""
    splitting: Splitting
    config: BeamConfig
    max_length: int | None = None
    found: dict[int, list[Translation]] = field(default_factory=dict)

    def put(self, piece: int, found: list[Translation]) -> None:
        self.found[piece] = found
        if len(self.found) == len(self.pieces) and not self.future.done():
            (joined,) = self.splitting.join(iter([self.found[i] for i in range(len(self.pieces))]))
            self.succeed(joined)


@dataclass(frozen=True)
class Written:
    """A symbol of a text, and how likely it was."""

    token: int
    log_probability: float
    """Natural logarithm, whatever the temperature."""
    alternatives: list[tuple[int, float]]
    """The most likely symbols here, with their log-probabilities."""


@dataclass(eq=False, kw_only=True)
class CompletionJob(Job):
    """A prompt to continue; symbols are given to `emit` as they are written, the result is None when all are."""

    prompt: list[int]
    number: int
    """How many continuations."""
    length: int
    """Of each, at most."""
    config: SamplingConfig
    seed: int | None
    echo: bool
    """Whether the prompt's own symbols are given too, before the others."""
    alternatives: int
    emit: Callable[[int, Written], None]
    """(which continuation, its next symbol); the echo is given for each. Called by the thread that decodes."""
    ended: Callable[[int, bool], None]
    """(which continuation, whether it ended by itself); called likewise."""
    stopped: set[int] = field(default_factory=set)
    """Continuations that need not go on, as whoever reads them says."""
    written: list[int] = field(default_factory=list)
    """How many symbols each continuation has."""
    unfinished: set[int] = field(default_factory=set)
