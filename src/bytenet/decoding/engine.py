"""Engines: how single steps are made. All search and sampling stands on them and does not know which one it drives.

Shapes: n rows, V vocabulary.

The model itself reads whole texts; an engine takes over the state and goes on one token at a time:

    state = engine.take(model.start(...))      # or after a prompt: logits, state = model(prompt, state)
    logits, state = engine(tokens, state)      # (n, 1) -> (n, 1, V)
    state = state.select(rows)

Unlike a model's, an engine's state goes on once: what it remembers is written over. To go on twice, take twice.
An engine keeps the weights as they were when it was made.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any, Generic, Protocol, Self, TypeVar, cast

import torch
from torch import Tensor
from torch.nn import functional as F

from bytenet.model import LanguageModel, Model, Translator
from bytenet.model.state import RowState
from bytenet.vocabulary import BEGIN, END, PAD

S = TypeVar("S")
S_co = TypeVar("S_co", covariant=True)


class DecodingState(Protocol):
    """What an engine remembers of its rows."""

    @property
    def device(self) -> torch.device: ...

    def select(self, rows: Tensor) -> Self: ...

    def join(self, other: Self) -> Self:
        """These rows and then the other's, whatever each of them has read; neither goes on by itself."""
        ...

    def compact(self) -> Self:
        """The same rows in as little memory as they need."""
        ...


class Engine(Protocol):
    """Writes one token a row at a time."""

    def take(self, state: Any) -> Any:
        """Go on from what the model has read."""
        ...

    def __call__(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """tokens (n, 1) -> logits (n, 1, V), the state after them"""
        ...

    def filled_up(self, count: int) -> int:
        """How many sentences to search for at once where there are so many: some engines like few different numbers."""
        ...

    def repeat(
        self,
        step: Callable[[S], S],
        state: S,
        watch: Callable[[S], Tensor],
        key: object,
        generator: torch.Generator | None = None,
    ) -> "Loop[S]":
        """`state = step(state)`, as often as the loop is asked; equal keys promise equal steps."""
        ...


class Loop(Protocol[S_co]):
    """Gives after each step what `watch` says about it, on the CPU; on a GPU further steps are under way by then."""

    @property
    def state(self) -> S_co: ...

    def __iter__(self) -> Iterator[Tensor]: ...


class DirectLoop(Generic[S]):
    """One step after the other."""

    def __init__(self, step: Callable[[S], S], state: S, watch: Callable[[S], Tensor]) -> None:
        self.step, self.state, self.watch = step, state, watch

    def __iter__(self) -> Iterator[Tensor]:
        while True:
            self.state = self.step(self.state)
            yield self.watch(self.state).cpu()


class OneByOne:
    """What engines share that make one step after the other."""

    def filled_up(self, count: int) -> int:
        return count

    def repeat(
        self,
        step: Callable[[S], S],
        state: S,
        watch: Callable[[S], Tensor],
        key: object,
        generator: torch.Generator | None = None,
    ) -> Loop[S]:
        return DirectLoop(step, state, watch)


class PlainEngine(OneByOne):
    """The model as it is, for any model on any device: the reference for the other engines."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def take(self, state: RowState) -> RowState:
        return state

    def __call__(self, tokens: Tensor, state: RowState) -> tuple[Tensor, RowState]:
        return cast(tuple[Tensor, RowState], self.model(tokens, state))


def without_controls(logits: Tensor) -> Tensor:
    """logits (n, V) -> -inf for PAD and BEGIN, which no text holds"""
    assert (PAD, BEGIN, END) == (0, 1, 2)
    return F.pad(logits[:, END:], (END, 0), value=-math.inf)


def choose_engine(model: Model, dtype: torch.dtype | None = None) -> Engine:
    """The fastest engine for a model where it is; `dtype` is that of the states it will take."""
    weight = next(model.parameters())
    if isinstance(model, LanguageModel | Translator):
        if weight.device.type == "cpu":
            from bytenet.decoding.ring_engine import RingEngine

            return RingEngine(model, dtype)
        from bytenet.decoding.graph_engine import GraphEngine, available

        if available(model, dtype):
            return GraphEngine(model, dtype)
    return PlainEngine(model)
