"""Searches and samples that never stand still: sentences join and leave between any two steps.

What a server does with requests that come when they like. Each row is written as if it were alone, so that a sentence
never waits for another one to end.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from bytenet.decoding.beam_search import Beam, BeamConfig, Hypothesis, advance, hypotheses, start
from bytenet.decoding.engine import Engine
from bytenet.decoding.sampling import SamplingConfig, choose
from bytenet.model.state import State

T = TypeVar("T")


class RunningSearch(Generic[T]):
    """Beam searches of one kind; each is known by a ticket of its owner's."""

    def __init__(self, engine: Engine, config: BeamConfig) -> None:
        self.engine, self.config = engine, config
        self.tickets: list[T] = []
        self._beam: Beam | None = None

    @property
    def rows(self) -> int:
        return len(self.tickets) * self.config.beam

    @torch.no_grad()
    def add(self, tickets: Sequence[T], state: State, limits: Sequence[int]) -> None:
        """Search from these rows of a model's state too, of which each may make so many steps."""
        beam = start(self.engine.take(state), limits, len(limits), self.config)
        self._beam = beam if self._beam is None else self._beam.join(beam)
        self.tickets += tickets

    @torch.no_grad()
    def step(self) -> list[tuple[T, list[Hypothesis]]]:
        """One token more for all; those that are found by it leave."""
        if self._beam is None:
            return []
        self._beam = advance(self.engine, self._beam, config=self.config)
        done = self._beam.done.cpu()
        if not done.any():
            return []
        left = [ticket for ticket, is_done in zip(self.tickets, done.tolist(), strict=True) if is_done]
        found = hypotheses(self._beam, done.nonzero()[:, 0])
        self._keep(~done)
        return list(zip(left, found, strict=True))

    @torch.no_grad()
    def drop(self, tickets: Collection[T]) -> None:
        """Let these leave without a result; those that are not here are ignored."""
        keep = torch.tensor([ticket not in tickets for ticket in self.tickets], dtype=torch.bool)
        if not keep.all():
            self._keep(keep)

    def _keep(self, keep: Tensor) -> None:
        assert self._beam is not None
        self.tickets = [ticket for ticket, kept in zip(self.tickets, keep.tolist(), strict=True) if kept]
        chosen = keep.nonzero()[:, 0].to(self._beam.done.device)
        self._beam = self._beam.select(chosen, len(chosen)) if len(chosen) else None


@dataclass(frozen=True)
class Writing(Generic[T]):
    """One text that is being written."""

    ticket: T
    config: SamplingConfig
    generator: torch.Generator


class RunningSample(Generic[T]):
    """Texts that are continued together, each with temperature and chance of its own."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.writings: list[Writing[T]] = []
        self._state: Any = None
        self._tokens = torch.empty(0)

    @property
    def rows(self) -> int:
        return len(self.writings)

    @torch.no_grad()
    def add(self, writing: Writing[T], state: State, token: Tensor) -> None:
        """Continue from one row of a model's state, and a token (1,) that it has not read."""
        taken = self.engine.take(state)
        self._state = taken if self._state is None else self._state.join(taken)
        self._tokens = torch.cat([self._tokens.to(token), token])
        self.writings.append(writing)

    @torch.no_grad()
    def step(self) -> list[tuple[T, int, Tensor]]:
        """For each text its ticket, the token that it goes on with, and the logits (V,) that this was drawn from."""
        if not self.writings:
            return []
        logits, self._state = self.engine(self._tokens[:, None], self._state)
        logits = logits[:, 0]
        chosen = [choose(logits[i : i + 1], w.config, w.generator) for i, w in enumerate(self.writings)]
        self._tokens = torch.cat(chosen)
        return [
            (writing.ticket, token, row)
            for writing, token, row in zip(self.writings, self._tokens.tolist(), logits, strict=True)
        ]

    @torch.no_grad()
    def drop(self, tickets: Collection[T]) -> None:
        """Let these leave; those that are not here are ignored."""
        kept = [i for i, writing in enumerate(self.writings) if writing.ticket not in tickets]
        if len(kept) == len(self.writings):
            return
        self.writings = [self.writings[i] for i in kept]
        rows = torch.tensor(kept, dtype=torch.int64, device=self._tokens.device)
        self._state = self._state.select(rows).compact() if kept else None
        self._tokens = self._tokens[rows]
