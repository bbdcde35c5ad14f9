"""The engine for a CPU: what a step needs and nothing else.

Shapes: n rows, d inner channels, C = 2d, K kernel width, V vocabulary; S sources, L positions of their representations.

Three things make it faster than the model itself, which does the same:
- Histories are rings: the newest position overwrites the oldest, and nothing is shifted.
- A row that follows another (a beam) copies no history. A table says which row of a ring holds the ancestor of each row
  at each time, and all blocks share it: `select` permutes columns of small integers.
- Weights lie as the product reads them; there are no module calls, masks or casts.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor
from torch.nn import functional as F

from bytenet.decoding.engine import OneByOne
from bytenet.model import LanguageModel, Translator
from bytenet.model.blocks import Block, MultiplicativeUnit, NormalizedConvolution
from bytenet.model.convolution import Pointwise
from bytenet.model.language_model import last_tokens
from bytenet.model.ngrams import Ngrams, rows_ending
from bytenet.model.normalization import EPSILON, LayerNorm
from bytenet.model.state import State

if TYPE_CHECKING:
    from bytenet.model.decoder import Decoder

Layer = Callable[[Tensor], Tensor]

BLOCK = 16  # columns
PACKED_FOR_ROWS = 12


@dataclass(frozen=True)
class RingState:
    """The rows' memory. Rings and table are written in place; what is overwritten is out of every kernel's reach."""

    rings: tuple[Tensor, ...]
    """For each block ((K-1)·dilation + 1, capacity, d): the inputs of its convolution, by time modulo the length."""
    table: Tensor
    """(longest ring, n): in which row of a ring each row's past stands, by time modulo the length."""
    time: int
    """Of the next token."""
    straight: int
    """Since this time no row has moved: each stands in its own row of the rings."""
    source: "Source | None"
    tokens: Tensor | None
    """(n, N-1): with embeddings of n-grams, the last tokens."""

    @property
    def device(self) -> torch.device:
        return self.table.device

    def select(self, rows: Tensor) -> "RingState":
        n = self.table.shape[1]
        if len(rows) == n and torch.equal(rows, torch.arange(n)):
            return self
        rings = self.rings
        if len(rows) > rings[0].shape[1]:
            rings = tuple(
                torch.cat([ring, ring.new_empty(len(ring), len(rows) - ring.shape[1], ring.shape[2])], 1)
                for ring in rings
            )
        source = None if self.source is None else replace(self.source, of_row=self.source.of_row[rows])
        tokens = None if self.tokens is None else self.tokens[rows]
        return replace(self, rings=rings, table=self.table[:, rows], straight=self.time, source=source, tokens=tokens)

    def join(self, other: "RingState") -> "RingState":
        """The other's past moves into rows of these rings that nobody's past stands in."""
        shift = self.time - other.time
        rings, capacity = self.rings, self.rings[0].shape[1]
        is_free = torch.ones(capacity, dtype=torch.bool)
        is_free[self.table.flatten()] = False
        free = is_free.nonzero()[:, 0]
        missing = max(other.rings[0].shape[1] - len(free), self.table.shape[1] + other.table.shape[1] - capacity)
        if missing > 0:
            more = max(missing, capacity)  # seldom, then
            rings = tuple(torch.cat([ring, ring.new_empty(len(ring), more, ring.shape[2])], 1) for ring in rings)
            free = torch.cat([free, torch.arange(capacity, capacity + more)])
        places = free[: other.rings[0].shape[1]]
        for ring, added in zip(rings, other.rings, strict=True):
            ring[:, places] = added.roll(shift, dims=0)
        return replace(
            self,
            rings=rings,
            table=torch.cat([self.table, places[other.table.roll(shift, dims=0)]], dim=1),
            straight=self.time,
            source=None if self.source is None or other.source is None else self._join_sources(other),
            tokens=None if self.tokens is None or other.tokens is None else torch.cat([self.tokens, other.tokens]),
        )

    def _join_sources(self, other: "RingState") -> "Source":
        """All that is still ahead of anybody."""
        assert self.source is not None
        assert other.source is not None
        parts = [self.source.ahead_of(self.time), other.source.ahead_of(other.time)]
        longest = max(representation.shape[1] for representation, _ in parts)
        filled = [F.pad(representation, (0, 0, 0, longest - representation.shape[1])) for representation, _ in parts]
        of_row = torch.cat([parts[0][1], parts[1][1] + len(filled[0])])
        return Source(torch.cat(filled), of_row, start=self.time)

    def compact(self) -> "RingState":
        return self


@dataclass(frozen=True)
class Source:
    """What the rows of a translator are conditioned on."""

    representation: Tensor
    """(S, L, C)"""
    of_row: Tensor
    """(n,): which of the S it is."""
    start: int
    """The time of its first position."""

    def ahead_of(self, time: int) -> tuple[Tensor, Tensor]:
        """What is left of those that somebody stands on, and which of them each row does."""
        used, of_row = torch.unique(self.of_row, return_inverse=True)
        return self.representation[used, time - self.start :], of_row


class RingEngine(OneByOne):
    """`model(tokens, state)` for one token a row, on a CPU."""

    def __init__(self, model: LanguageModel | Translator, dtype: torch.dtype | None = None) -> None:
        decoder: Decoder = model.decoder
        self.dtype = dtype or decoder.embedding.weight.dtype
        self.embedding = decoder.embedding.weight.detach().to(self.dtype)
        self.ngrams = None if decoder.ngrams is None else NgramStep(decoder.ngrams, self.dtype)
        self.join = None if decoder.join is None else Product(decoder.join, self.dtype)
        self.blocks = [
            Step(cast(Block, block), dilation, self.dtype)
            for block, dilation in zip(decoder.blocks, decoder.blocks.dilations, strict=True)
        ]
        self.head = head(decoder, self.dtype)

    def take(self, state: State) -> RingState:
        longest = max(history.shape[1] for history in state.histories)
        rows = state.histories[0].shape[0]
        rings = []
        for history in state.histories:
            reach = history.shape[1]
            ring = history.new_empty(reach + 1, rows, history.shape[2])
            rings.append(fill_ring(ring, history, first=(longest - reach) % (reach + 1)))
        table = torch.arange(rows).repeat(longest + 1, 1)
        source = None if state.ahead is None else Source(state.ahead, torch.arange(rows), start=longest)
        return RingState(tuple(rings), table, time=longest, straight=0, source=source, tokens=state.tokens)

    @torch.inference_mode()
    def __call__(self, tokens: Tensor, state: RingState) -> tuple[Tensor, RingState]:
        x = self.embedding.index_select(0, tokens[:, 0])
        if self.ngrams is not None and state.tokens is not None:
            x = self.ngrams(x, tokens, state.tokens)
        if state.source is not None:
            x = self._conditioned(x, state.source, state.time)
        torch.arange(len(x), out=state.table[state.time % len(state.table)])
        for step, ring in zip(self.blocks, state.rings, strict=True):
            x = step(x, ring, state)
        return self.head(x)[:, None], replace(state, time=state.time + 1, tokens=last_tokens(state.tokens, tokens))

    def _conditioned(self, x: Tensor, source: Source, time: int) -> Tensor:
        """x (n, C) with the position of the source's representation that it stands on; past its end, with zeros."""
        position = time - source.start
        if position < source.representation.shape[1]:
            at = source.representation[:, position].index_select(0, source.of_row)
        elif self.join is None:
            return x
        else:
            at = torch.zeros_like(x)
        return x + at if self.join is None else self.join(torch.cat([x, at], dim=1))


def fill_ring(ring: Tensor, history: Tensor, first: int) -> Tensor:
    """ring (R, n, d) with the positions of history (n, R - 1, d) in its slots from the first on, and round again."""
    until_end = min(history.shape[1], len(ring) - first)
    ring[first : first + until_end] = history[:, :until_end].transpose(0, 1)
    ring[: history.shape[1] - until_end] = history[:, until_end:].transpose(0, 1)
    return ring


class NgramStep:
    """x (n, C) with what the n-grams that end with tokens (n, 1) add, given the ones before, (n, N-1)"""

    def __init__(self, ngrams: Ngrams, dtype: torch.dtype) -> None:
        self.config, self.mix = ngrams.config, Product(ngrams.mix, dtype)
        self.embedding = ngrams.embedding.weight.detach().to(dtype)

    def __call__(self, x: Tensor, tokens: Tensor, before: Tensor) -> Tensor:
        rows = rows_ending(torch.cat([before, tokens], dim=1), self.config)
        return self.mix.added_to(x, self.embedding[rows].flatten(1))


class Step:
    """A residual block for one position: x (n, C) -> (n, C), its convolution's input left in the ring."""

    def __init__(self, block: Block, dilation: int, dtype: torch.dtype) -> None:
        transform = cast("MultiplicativeUnit | NormalizedConvolution", block.transform)
        self.first_norm, self.reduce = norm_relu(block.first_norm, dtype), Product(block.reduce, dtype)
        self.second_norm, self.mix = norm_relu(block.second_norm, dtype), Product(transform.convolution.mix, dtype)
        self.activate = activation(transform, dtype)
        self.second_unit = None if block.second_unit is None else second_unit(block.second_unit, dtype)
        self.expand = Product(block.expand, dtype)
        self.offsets = [i * dilation for i in range(transform.convolution.kernel_width - 1, 0, -1)]  # oldest first

    def __call__(self, x: Tensor, ring: Tensor, state: RingState) -> Tensor:
        time, slots = state.time, ring.shape[0]
        h = self.second_norm(self.reduce(self.first_norm(x)))  # (n, d)
        rows = h.shape[0]
        present = ring[time % slots]
        (present if rows == ring.shape[1] else present[:rows]).copy_(h)
        taps = []
        for offset in self.offsets:  # what each row's convolution read at these times
            tap = ring[(time - offset) % slots]
            if time - offset < state.straight:
                tap = tap.index_select(0, state.table[(time - offset) % state.table.shape[0]])
            elif rows < tap.shape[0]:
                tap = tap[:rows]
            taps.append(tap)
        taps.append(h)
        y = self.activate(self.mix(torch.cat(taps, dim=1)), h)
        if self.second_unit is not None:
            y = self.second_unit(y)
        return self.expand.added_to(x, y)


def norm_relu(norm: LayerNorm, dtype: torch.dtype) -> Layer:
    weight, bias, shape = norm.weight.detach().to(dtype), norm.bias.detach().to(dtype), norm.shape[1:]
    return lambda x: torch.layer_norm(x, shape, weight, bias, EPSILON).relu_()


def activation(
    transform: MultiplicativeUnit | NormalizedConvolution, dtype: torch.dtype
) -> Callable[[Tensor, Tensor], Tensor]:
    """What follows the convolution: of its output and of h."""
    if isinstance(transform, NormalizedConvolution):
        norm = norm_relu(transform.norm, dtype)
        return lambda mixed, h: norm(mixed)
    weight, bias = transform.norm.weight.detach().to(dtype), transform.norm.bias.detach().to(dtype)
    groups, d = transform.norm.shape

    def gates(mixed: Tensor, h: Tensor) -> Tensor:
        g1, g2, g3, u = torch.group_norm(mixed, groups, weight, bias, EPSILON).view(-1, groups, d).unbind(1)
        return torch.addcmul(g2.sigmoid() * h, g3.sigmoid(), u.tanh()).tanh_().mul_(g1.sigmoid())

    return gates


def second_unit(unit: MultiplicativeUnit, dtype: torch.dtype) -> Layer:
    mix, gates = Product(unit.convolution.mix, dtype), activation(unit, dtype)
    return lambda h: gates(mix(h), h)


def head(decoder: "Decoder", dtype: torch.dtype) -> Layer:
    """x (n, C) -> logits (n, V), in the parameters' precision"""
    part = decoder.head
    first_norm, reduce = norm_relu(part.first_norm, dtype), Product(part.reduce, dtype)
    second_norm, own = norm_relu(part.second_norm, dtype), part.logits.weight.dtype
    logits = Product(part.logits, own)
    return lambda x: logits(second_norm(reduce(first_norm(x))).to(own))


class Product:
    """x (n, in) -> (n, out), with the weights laid out for how they are read; each order is made when first used.

    A single row is bound by reading the weights from memory. Columns in blocks of 16, one block after the other, are
    read about twice as fast as a plain matrix; several rows are fastest in oneDNN's own order (docs/results.md).
    """

    def __init__(self, part: Pointwise, dtype: torch.dtype) -> None:
        self.weight = part.weight.detach().to(dtype)
        self.bias = None if part.bias is None else part.bias.detach().to(dtype)
        has_onednn: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
        self.packable = has_onednn and dtype in (torch.float32, torch.bfloat16)
        self.one_row = dtype == torch.float32
        self.whole = len(self.weight) % BLOCK == 0

    @cached_property
    def blocks(self) -> Tensor:
        """(blocks, in, 16), filled up with zeros"""
        filled = F.pad(self.weight, (0, 0, 0, -len(self.weight) % BLOCK))
        return filled.view(-1, BLOCK, self.weight.shape[1]).transpose(1, 2).contiguous()

    @cached_property
    def blocks_shape(self) -> tuple[int, int, int]:
        count, depth, _ = self.blocks.shape
        return count, 1, depth

    @cached_property
    def packed(self) -> Tensor:
        weight: Tensor = torch.ops.mkldnn._reorder_linear_weight(self.weight, PACKED_FOR_ROWS)
        return weight

    def __call__(self, x: Tensor) -> Tensor:
        if self.one_row and x.shape[0] == 1:
            y = torch.bmm(x.expand(self.blocks_shape), self.blocks).view(1, -1)
            y = y if self.whole else y[:, : len(self.weight)]
            return y if self.bias is None else y + self.bias
        if self.packable:
            return cast(Tensor, torch.ops.mkldnn._linear_pointwise(x, self.packed, self.bias, "none", [], ""))
        return F.linear(x, self.weight, self.bias)

    def added_to(self, residual: Tensor, x: Tensor) -> Tensor:
        """residual (n, out) + this product of x"""
        if self.one_row and self.whole and x.shape[0] == 1:
            into = residual.view(-1, 1, BLOCK)
            return torch.baddbmm(into, x.expand(self.blocks_shape), self.blocks).view(1, -1)
        return self(x).add_(residual)
