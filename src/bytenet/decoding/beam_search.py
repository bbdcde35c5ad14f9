"""Beam search as in Sect. 6: total log-likelihood, no length normalisation, only hypotheses that emitted END.

Shapes: S sentences, W beam (slots a sentence), N n-best, V vocabulary, T steps.

Every step is one function of tensors whose shapes stay the same, so that a GPU can repeat it as a captured graph and
nobody waits for its results. What was written is kept as a trace of tokens and parents, (T, S, W), and read backwards
at the end: a step costs the same whether it is the tenth or the ten thousandth.

A hypothesis ends when END is among the W best continuations of its sentence's beam; the W best that do not end go on.
With a beam of 1 this is greedy decoding.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from bytenet.decoding.engine import DecodingState, Engine, without_controls
from bytenet.model.state import RowState
from bytenet.vocabulary import BEGIN, END

NOTHING = -math.inf

Number = TypeVar("Number", float, Tensor)


@dataclass(frozen=True, kw_only=True)
class BeamConfig:
    """How to search."""

    beam: int = 12
    """Hypotheses a sentence that are followed at once; 1 is greedy."""
    n_best: int = 1
    """How many of the best ended hypotheses to return; at most the beam."""
    length_penalty: float = 0.0
    """Log-likelihoods are divided by ((5 + length) / 6) to this power; 0, as in the paper, leaves them as they are."""

    def __post_init__(self) -> None:
        if self.beam < 1:
            raise ValueError(f"beam must be at least 1, not {self.beam}")
        if not 1 <= self.n_best <= self.beam:
            raise ValueError(f"n_best must be from 1 to the beam of {self.beam}, not {self.n_best}")
        if not 0 <= self.length_penalty < math.inf:
            raise ValueError(f"length_penalty must be finite and at least 0, not {self.length_penalty}")

    def score(self, total: Number, length: Tensor | int) -> Number:
        """What hypotheses are compared by; `length` counts END."""
        if not self.length_penalty:
            return total
        return total / ((5 + length) / 6) ** self.length_penalty  # type: ignore[return-value]  # a number with an int


@dataclass(frozen=True)
class Hypothesis:
    """Tokens without END, and their log-likelihood with it."""

    tokens: list[int]
    log_likelihood: float
    """Natural logarithm."""
    ended: bool
    """False: the length limit cut it off, and END is not part of its likelihood."""


@dataclass(frozen=True)
class Beam:
    """All that a search remembers; the trace is written in place."""

    state: Any
    """The engine's, of S·W rows."""
    step: Tensor
    """(): how many steps were made."""
    began: Tensor
    """(S,): before which of them each sentence began."""
    limits: Tensor
    """(S,): how many steps each sentence may make."""
    tokens: Tensor
    """(S, W): the last token of each live hypothesis, the best one first."""
    total: Tensor
    """(S, W): its log-likelihood; -inf where there is none."""
    best_score: Tensor
    """(S, N): of the best ended hypotheses, the best one first; -inf where there is none yet."""
    best_total: Tensor
    """(S, N): their log-likelihood."""
    best_length: Tensor
    """(S, N): how many tokens they have before END,"""
    best_slot: Tensor
    """(S, N): and in which slot the last of them stands in the trace."""
    open_total: Tensor
    """(S,): the log-likelihood of the best live hypothesis when the limit was reached."""
    done: Tensor
    """(S,): nothing that follows can change the result."""
    trace_tokens: Tensor
    """(T + 1, S, W): what was written at each step; the last entry takes what comes after all limits."""
    trace_parents: Tensor
    """(T + 1, S, W): and which slot of the step before it continues."""

    def join(self, other: "Beam") -> "Beam":
        """These sentences and then the other's, which have not made a step; what nobody needs of the trace is cut."""
        passed = int(self.began.min())
        steps = trace_length(torch.cat([self.began - passed + self.limits, self.step - passed + other.limits]))
        per_sentence = {
            name: torch.cat([getattr(self, name), getattr(other, name)]) for name in self._names_of_sentences()
        }
        per_sentence["began"] = torch.cat([self.began, other.began + self.step]) - passed
        traces = {}
        for name in ("trace_tokens", "trace_parents"):
            kept = getattr(self, name)[passed : passed + steps]
            traces[name] = F.pad(kept, (0, 0, 0, len(other.tokens), 0, steps + 1 - len(kept)))
        return replace(self, state=self.state.join(other.state), step=self.step - passed, **per_sentence, **traces)

    def _names_of_sentences(self) -> list[str]:
        """What has an entry a sentence, but for the trace."""
        return [f.name for f in fields(self) if f.name not in ("state", "step", "trace_tokens", "trace_parents")]

    def select(self, sentences: Tensor, count: int) -> "Beam":
        """The search for these sentences (n,) alone, filled up to `count` with ones that are done."""
        width, device = self.tokens.shape[1], sentences.device
        filled = torch.cat([sentences, sentences[:1].expand(count - len(sentences))])
        rows = filled[:, None] * width + torch.arange(width, device=device)
        per_sentence = {name: getattr(self, name)[filled] for name in self._names_of_sentences()}
        per_sentence["done"] = torch.arange(count, device=device) >= len(sentences)
        return replace(
            self,
            state=self.state.select(rows.flatten()).compact(),
            step=self.step.clone(),  # this one may be a captured graph's own
            trace_tokens=self.trace_tokens[:, filled],
            trace_parents=self.trace_parents[:, filled],
            **per_sentence,
        )


@torch.no_grad()
def beam_search(
    engine: Engine, state: RowState, limits: Sequence[int], config: BeamConfig
) -> Iterator[tuple[int, list[Hypothesis]]]:
    """The n best hypotheses of each row of a state that has read its source, as (row, hypotheses), when they are found.

    `limits` is how many steps each row may make, END included. If nothing has ended by then, the best open hypothesis
    is returned alone.
    """
    numbers = list(range(len(limits)))
    beam = start(engine.take(state), limits, engine.filled_up(len(limits)), config)
    while numbers:
        loop = engine.repeat(partial(advance, engine, config=config), beam, lambda beam: beam.done, key=config)
        if max(limits):
            for done in loop:
                # once half the sentences are done, the others go on without them
                if 2 * int(done.sum()) >= len(done):
                    break
        beam = loop.state
        is_done = beam.done.cpu()[: len(numbers)]
        found = hypotheses(beam, is_done.nonzero()[:, 0])
        done_now = [number for number, done in zip(numbers, is_done.tolist(), strict=True) if done]
        numbers = [number for number, done in zip(numbers, is_done.tolist(), strict=True) if not done]
        if numbers:
            beam = beam.select((~is_done).nonzero()[:, 0].to(beam.done.device), engine.filled_up(len(numbers)))
        yield from zip(done_now, found, strict=True)


def start(state: DecodingState, limits: Sequence[int], count: int, config: BeamConfig) -> Beam:
    """A beam with one live hypothesis a sentence, which has read BEGIN only; filled up to `count` sentences."""
    width, device = config.beam, state.device
    own_limits = torch.tensor(limits, dtype=torch.int64).to(device)
    own_limits = F.pad(own_limits, (0, count - len(limits)))
    sentences = torch.arange(count, device=device)
    sentences = torch.where(sentences < len(limits), sentences, 0)
    total = torch.full((count, width), NOTHING, dtype=torch.float64, device=device)
    total[:, 0] = 0
    nothing = torch.full((count, config.n_best), NOTHING, dtype=torch.float64, device=device)
    zero = torch.zeros(count, config.n_best, dtype=torch.int64, device=device)
    trace = torch.zeros(trace_length(own_limits) + 1, count, width, dtype=torch.int32, device=device)
    return Beam(
        state=state.select(sentences.repeat_interleave(width)),
        step=torch.zeros((), dtype=torch.int64, device=device),
        began=torch.zeros_like(own_limits),
        limits=own_limits,
        tokens=torch.full((count, width), BEGIN, device=device),
        total=total,
        best_score=nothing,
        best_total=nothing.clone(),
        best_length=zero,
        best_slot=zero.clone(),
        open_total=total[:, 0].clone(),
        done=own_limits == 0,
        trace_tokens=trace,
        trace_parents=trace.clone(),
    )


def trace_length(ends: Tensor) -> int:
    """How many steps a trace holds in which sentences have to end by these (S,): few numbers, for a GPU's graphs."""
    last = int(ends.max()) if len(ends) else 0
    return 1 << max(last - 1, 63).bit_length()


def advance(engine: Engine, beam: Beam, *, config: BeamConfig) -> Beam:
    """One more token for every live hypothesis."""
    count, width = beam.tokens.shape

    # 1. every continuation of every live hypothesis
    logits, state = engine(beam.tokens.view(-1, 1), beam.state)
    likelihood = without_controls(logits[:, 0].to(beam.total.dtype).log_softmax(-1))
    vocabulary = likelihood.shape[1]
    continued = (beam.total.view(-1, 1) + likelihood).view(count, width * vocabulary)

    # 2. the best ones: at most W of them end, so that 2W hold the W best that go on
    totals, places = continued.topk(min(2 * width, width * vocabulary))
    tokens, parents = places % vocabulary, places // vocabulary
    ends = tokens == END

    # 3. those among the W best that end join the ended ones
    step = beam.step + 1
    length = step - beam.began
    among_best = torch.arange(totals.shape[1], device=totals.device) < width
    ended = ends & among_best & (length <= beam.limits)[:, None]
    best = ended_hypotheses(beam, totals.masked_fill(~ended, NOTHING), parents, length[:, None], config)

    # 4. the W best that do not end go on
    goes_on = ends.to(torch.int8).argsort(dim=1, stable=True)[:, :width]
    tokens, parents = tokens.gather(1, goes_on), parents.gather(1, goes_on)
    total = totals.masked_fill(ends, NOTHING).gather(1, goes_on)
    at = beam.step.clamp(max=len(beam.trace_tokens) - 1).view(1)
    beam.trace_tokens.index_copy_(0, at, tokens[None].int())
    beam.trace_parents.index_copy_(0, at, parents[None].int())
    rows = parents + torch.arange(count, device=parents.device)[:, None] * width

    # 5. The exit is exact: a continuation's log-likelihood is a sum of terms that are never positive, so no descendant
    # of a live hypothesis is ever more likely than it is now. Once the N best ended ones are at least as good as the
    # best live one, they stay the N best. With a length penalty the same holds for the best that a live one can become:
    # its likelihood of now at the greatest length that the limit allows.
    reachable = config.score(total[:, 0], beam.limits)
    at_limit = length >= beam.limits
    return replace(
        beam,
        state=state.select(rows.flatten()),
        step=step,
        tokens=tokens,
        total=total,
        open_total=torch.where(length == beam.limits, total[:, 0], beam.open_total),
        done=beam.done | at_limit | (best["best_score"][:, -1] >= reachable),
        **best,
    )


def ended_hypotheses(
    beam: Beam, totals: Tensor, parents: Tensor, length: Tensor, config: BeamConfig
) -> dict[str, Tensor]:
    """The N best of those that had ended before and those that end now: totals (S, 2W), -inf where none does; their
    length (S, 1), which counts END.
    """
    new = {
        "best_score": config.score(totals, length),
        "best_total": totals,
        "best_length": (length - 1).expand_as(parents),
        "best_slot": parents,
    }
    both = {name: torch.cat([getattr(beam, name), value], dim=1) for name, value in new.items()}
    order = both["best_score"].argsort(dim=1, descending=True, stable=True)[:, : config.n_best]
    return {name: value.gather(1, order) for name, value in both.items()}


def hypotheses(beam: Beam, rows: Tensor) -> list[list[Hypothesis]]:
    """The results for these sentences (n,), read off the trace."""
    if not len(rows):
        return []
    steps = min(int(beam.step), len(beam.trace_tokens) - 1)
    found = {
        name: getattr(beam, name).cpu()[rows].numpy()
        for name in ("best_total", "best_length", "best_slot", "open_total", "began", "limits")
    }
    ended = found["best_total"] > NOTHING  # (n, N)
    ended[:, 0] |= (nothing := ~ended.any(axis=1))  # then the best open one: slot 0 at the limit
    lengths = np.where(nothing[:, None], found["limits"][:, None], found["best_length"])
    slots = np.where(nothing[:, None], 0, found["best_slot"])
    totals = np.where(nothing[:, None], found["open_total"][:, None], found["best_total"])
    chosen = rows.to(beam.trace_tokens.device)
    tokens = read_back(
        beam.trace_tokens[:steps, chosen].cpu().numpy(),
        beam.trace_parents[:steps, chosen].cpu().numpy(),
        found["began"][:, None],
        lengths,
        slots,
    )
    return [
        [
            Hypothesis(
                tokens[row, number, : lengths[row, number]].tolist(), float(totals[row, number]), not nothing[row]
            )
            for number in np.flatnonzero(ended[row])
        ]
        for row in range(len(rows))
    ]


def read_back(
    tokens: np.ndarray[Any, Any],
    parents: np.ndarray[Any, Any],
    began: np.ndarray[Any, Any],
    lengths: np.ndarray[Any, Any],
    slots: np.ndarray[Any, Any],
) -> np.ndarray[Any, Any]:
    """tokens and parents (T, n, W); began (n, 1); lengths and slots (n, N) of the last tokens -> (n, N, T) tokens"""
    written = np.zeros((*lengths.shape, len(tokens)), dtype=np.int32)
    rows, numbers = np.indices(lengths.shape)
    slots = slots.copy()
    for step in range(len(tokens) - 1, -1, -1):
        inside = (began <= step) & (step < began + lengths)
        here = np.where(inside, slots, 0)
        positions = np.broadcast_to(step - began, lengths.shape)
        written[rows[inside], numbers[inside], positions[inside]] = tokens[step][rows, here][inside]
        slots = np.where(inside, parents[step][rows, here], slots)
    return written
