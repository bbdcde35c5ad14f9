"""The engine for a GPU: a step is a captured graph of few kernels, and nobody waits for its results.

Shapes: n rows, d inner channels, C = 2d, K kernel width, V vocabulary; S sources, L positions of their representations.

Rings and the table of ancestors are those of ring_engine.py. Here time is a number on the GPU, so that one graph serves
every step. Few rows are bound by latency and by reading the weights: products with the norms before them are kernels of
our own (step_kernels.py). Many rows are bound by arithmetic: products are cuBLAS's, with our kernels between them.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, cast

import torch
from torch import Tensor
from torch.nn import functional as F

from bytenet.decoding.engine import S
from bytenet.decoding.ring_engine import fill_ring
from bytenet.model import LanguageModel, Model, Translator, fused
from bytenet.model.blocks import Block, MultiplicativeUnit, NormalizedConvolution
from bytenet.model.language_model import last_tokens
from bytenet.model.ngrams import Ngrams, rows_ending
from bytenet.model.state import State, mapped, tensors_of

try:
    from bytenet.decoding import step_kernels
except ImportError:  # Triton comes with the CUDA builds of torch alone
    step_kernels = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from bytenet.model.decoder import Decoder

FEW_ROWS = 256  # up to here our own products are faster than cuBLAS's
STEPS_AHEAD = 8  # steps on their way when the first of them is looked at
GRAPHS = 32  # kept for a next time


@dataclass(frozen=True)
class Way:
    """How a step is made: with our own products and kernels that overlap, or with cuBLAS's."""

    few: bool

    def multiply(self, x: Tensor, weight: Tensor, ahead: Tensor | None = None) -> Tensor:
        """x (n, in) @ weight (out, in).T; `ahead` are the next product's weights, to be brought nearer meanwhile."""
        if not self.few:
            return x @ weight.t()
        out = x.new_empty(len(x), len(weight))
        step_kernels.linear(x, weight, out, ahead=ahead, pdl=True)
        return out


def available(model: Model, dtype: torch.dtype | None = None) -> bool:
    """Whether `GraphEngine` can run a model where it is."""
    weight = next(model.parameters())
    return step_kernels is not None and fused.available(weight.new_empty(0, dtype=dtype or weight.dtype))


@dataclass(frozen=True)
class GraphState:
    """The rows' memory, all of it tensors of fixed shapes. Rings and table are written in place."""

    rings: tuple[Tensor, ...]
    """For each block ((K-1)·dilation + 1, capacity, d), by time modulo the length."""
    table: Tensor
    """(longest ring, capacity), int32: in which row of a ring each row's past stands, by time modulo the length."""
    rows: Tensor
    """(n,): 0, 1, 2, ..."""
    time: Tensor
    """(): of the next token."""
    start: int
    """The time of the representation's first position."""
    representation: Tensor | None
    """(S, L + 1, C); the last position is zeros, for all that come after it."""
    source_of_row: Tensor | None
    """(n,): which of the S each row stands on."""
    tokens: Tensor | None
    """(n, N-1): with embeddings of n-grams, the last tokens."""

    @property
    def device(self) -> torch.device:
        return self.table.device

    def select(self, rows: Tensor) -> "GraphState":
        capacity = self.table.shape[1]
        rings, table = self.rings, self.table[:, rows]
        if len(rows) > capacity:
            rings = tuple(F.pad(ring, (0, 0, 0, len(rows) - capacity)) for ring in rings)
        else:
            table = F.pad(table, (0, capacity - len(rows)))
        return replace(
            self,
            rings=rings,
            table=table,
            rows=torch.arange(len(rows), device=rows.device),
            source_of_row=None if self.source_of_row is None else self.source_of_row[rows],
            tokens=None if self.tokens is None else self.tokens[rows],
        )

    def join(self, other: "GraphState") -> "GraphState":
        """Both packed, the other's rings turned to the time of these."""
        own, new = self.compact(), other.compact()
        shift = int(own.time - new.time)
        rings = [torch.cat([a, b.roll(shift, dims=0)], dim=1) for a, b in zip(own.rings, new.rings, strict=True)]
        rows = torch.arange(len(own.rows) + len(new.rows), device=self.device)
        representation = source_of_row = None
        if own.source_of_row is not None and new.source_of_row is not None:
            ahead = [state.ahead() for state in (own, new)]
            longest = max(part.shape[1] for part in ahead)
            ahead = [F.pad(part, (0, 0, 0, longest - part.shape[1])) for part in ahead]
            representation = filled_up(torch.cat(ahead))
            source_of_row = torch.cat([own.source_of_row, new.source_of_row + len(ahead[0])])
        return replace(
            own,
            rings=tuple(rings),
            table=rows.to(torch.int32).repeat(len(own.table), 1),
            rows=rows,
            start=int(own.time),
            representation=representation,
            source_of_row=source_of_row,
            tokens=None if own.tokens is None or new.tokens is None else torch.cat([own.tokens, new.tokens]),
        )

    def ahead(self) -> Tensor:
        """What the rows have not stood on yet, (S, L, C), with zeros behind it."""
        assert self.representation is not None
        passed = min(int(self.time) - self.start, self.representation.shape[1] - 1)
        return F.pad(self.representation[:, passed:], (0, 0, 0, passed))

    def compact(self) -> "GraphState":
        """Rings of as many rows as there are, each row's past in its own; and no source that nobody stands on."""
        count = len(self.rows)
        times = self.time - len(self.table) + torch.arange(len(self.table), device=self.device)  # the last ones
        ancestors = self.table[times % len(self.table), :count].long()  # (R, n)
        rings = []
        for ring in self.rings:
            slots = times[-len(ring) :] % len(ring)
            packed = torch.empty_like(ring[:, :count])
            packed[slots] = ring[slots].gather(1, ancestors[-len(ring) :, :, None].expand(-1, -1, ring.shape[2]))
            rings.append(packed)
        representation, source_of_row = self.representation, self.source_of_row
        if representation is not None and source_of_row is not None:
            used, source_of_row = torch.unique(source_of_row, return_inverse=True)
            representation = filled_up(representation[used])
        return replace(
            self,
            rings=tuple(rings),
            table=self.rows.to(torch.int32).repeat(len(self.table), 1),
            time=self.time.clone(),  # this one may be a captured graph's own
            representation=representation,
            source_of_row=source_of_row,
        )


def filled_up(sources: Tensor) -> Tensor:
    """(S, L, C) -> the same with zeros up to a power of two: few numbers, each of which needs a graph of its own"""
    return F.pad(sources, (0, 0, 0, 0, 0, fused.next_power_of_two(len(sources)) - len(sources))).contiguous()


class GraphEngine:
    """`model(tokens, state)` for one token a row, on a GPU."""

    def __init__(self, model: LanguageModel | Translator, dtype: torch.dtype | None = None) -> None:
        decoder: Decoder = model.decoder
        self.dtype = dtype or decoder.embedding.weight.dtype
        self.embedding = decoder.embedding.weight.detach().to(self.dtype)
        self.ngrams = None if decoder.ngrams is None else NgramStep(decoder.ngrams, self.dtype)
        self.join = None if decoder.join is None else decoder.join.weight.detach().to(self.dtype)
        self.blocks = [
            Step(cast(Block, block), dilation, self.dtype)
            for block, dilation in zip(decoder.blocks, decoder.blocks.dilations, strict=True)
        ]
        self.head = HeadStep(decoder, self.dtype)
        firsts = [*(block.reduce for block in self.blocks), self.head.reduce]
        for block, following in zip(self.blocks, firsts[1:], strict=True):
            block.following = following
        self.captured: deque[Captured[Any]] = deque(maxlen=GRAPHS)

    def take(self, state: State) -> GraphState:
        longest = max(history.shape[1] for history in state.histories)
        count, device = state.histories[0].shape[0], state.device
        rings = []
        for history in state.histories:
            reach = history.shape[1]
            ring = history.new_zeros(reach + 1, count, history.shape[2])
            rings.append(fill_ring(ring, history, first=(longest - reach) % (reach + 1)))
        rows = torch.arange(count, device=device)
        representation = None
        if state.ahead is not None:
            length = state.ahead.shape[1]
            filled = fused.next_power_of_two(max(length + 1, 64))  # few lengths, each of which needs a graph of its own
            representation = filled_up(F.pad(state.ahead, (0, 0, 0, filled - length)))
        return GraphState(
            rings=tuple(rings),
            table=rows.to(torch.int32).repeat(longest + 1, 1),
            rows=rows,
            time=torch.tensor(longest, device=device),
            start=longest,
            representation=representation,
            source_of_row=None if representation is None else rows,
            tokens=state.tokens,
        )

    @torch.no_grad()
    def __call__(self, tokens: Tensor, state: GraphState) -> tuple[Tensor, GraphState]:
        rows = len(tokens)
        way = Way(few=rows <= FEW_ROWS and self.dtype == torch.bfloat16)
        x = torch.empty(rows, self.embedding.shape[1], device=tokens.device)
        source = (state.representation, state.source_of_row) if self.join is None else (None, None)
        written = tokens[:, 0].contiguous()
        step_kernels.embed(written, self.embedding, *source, state.start, state.table, state.time, x, pdl=way.few)
        if self.ngrams is not None and state.tokens is not None:
            x += self.ngrams(tokens, state.tokens)
        if self.join is not None:
            x = F.linear(torch.cat([x.to(self.dtype), self._standing_on(state)], dim=1), self.join).float()
        delta: Tensor | None = None
        for step, ring in zip(self.blocks, state.rings, strict=True):
            delta = step(x, delta, ring, state, way)
        logits = self.head(x, delta, way)
        state.time.add_(1)
        return logits[:, None], replace(state, tokens=last_tokens(state.tokens, tokens))

    def filled_up(self, count: int) -> int:
        return fused.next_power_of_two(count)

    def _standing_on(self, state: GraphState) -> Tensor:
        """(n, C): the position of the representation that each row stands on."""
        assert state.representation is not None
        assert state.source_of_row is not None
        position = (state.time - state.start).clamp(max=state.representation.shape[1] - 1)
        return state.representation[state.source_of_row, position.expand(len(state.rows))]  # a number would wait

    def repeat(
        self,
        step: Callable[[S], S],
        state: S,
        watch: Callable[[S], Tensor],
        key: object,
        generator: torch.Generator | None = None,
    ) -> "GraphLoop[S]":
        shapes = tuple((tensor.shape, tensor.dtype) for tensor in tensors_of(state))
        for captured in self.captured:
            if not captured.in_use and captured.key == (key, shapes):
                break
        else:
            captured = Captured(step, state, watch, (key, shapes), generator)
            self.captured.append(captured)
        captured.load(state, generator)
        return GraphLoop(captured)


class NgramStep:
    """What the n-grams that end with tokens (n, 1) add, given the ones before, (n, N-1): (n, C)"""

    def __init__(self, ngrams: Ngrams, dtype: torch.dtype) -> None:
        self.config = ngrams.config
        self.embedding, self.mix = (part.weight.detach().to(dtype) for part in (ngrams.embedding, ngrams.mix))

    def __call__(self, tokens: Tensor, before: Tensor) -> Tensor:
        rows = rows_ending(torch.cat([before, tokens], dim=1), self.config)
        return F.linear(self.embedding[rows].flatten(1), self.mix)


class Step:
    """A residual block for one position. x (n, C) float32 is changed in place, h stays in the ring."""

    following: Tensor
    """The first weights of what comes after this block."""

    def __init__(self, block: Block, dilation: int, dtype: torch.dtype) -> None:
        transform = cast("MultiplicativeUnit | NormalizedConvolution", block.transform)
        self.dilation, self.gated = dilation, isinstance(transform, MultiplicativeUnit)
        self.first_norm, self.second_norm, self.third_norm = (
            (norm.weight.detach(), norm.bias.detach()) for norm in (block.first_norm, block.second_norm, transform.norm)
        )
        self.reduce, self.mix, self.expand = (
            part.weight.detach().to(dtype) for part in (block.reduce, transform.convolution.mix, block.expand)
        )
        unit = block.second_unit
        self.second_unit = None if unit is None else (unit.norm.weight.detach(), unit.norm.bias.detach())
        self.second_mix = None if unit is None else unit.convolution.mix.weight.detach().to(dtype)

    def __call__(self, x: Tensor, delta: Tensor | None, ring: Tensor, state: GraphState, way: Way) -> Tensor:
        """delta (n, C), what the block before left to be added, is added to x; returns what this one leaves."""
        h = x.new_empty(x.shape, dtype=self.reduce.dtype)
        step_kernels.add_norm_relu(x, delta, *self.first_norm, h, pdl=way.few)
        y = way.multiply(h, self.reduce, ahead=self.mix)
        taps = y.new_empty(len(x), self.mix.shape[1])
        step_kernels.norm_taps(y, *self.second_norm, ring, state.table, state.time, self.dilation, taps, pdl=way.few)
        mixed = way.multiply(taps, self.mix, ahead=self.expand)
        if self.gated:
            g = self._gates(mixed, ring, state, way)
        else:
            g = torch.empty_like(mixed)
            step_kernels.add_norm_relu(mixed, None, *self.third_norm, g, pdl=way.few)
        return way.multiply(g, self.expand, ahead=self.following)

    def _gates(self, mixed: Tensor, ring: Tensor, state: GraphState, way: Way) -> Tensor:
        g = mixed.new_empty(len(mixed), mixed.shape[1] // 4)
        step_kernels.gates(mixed, *self.third_norm, ring, state.time, g, pdl=way.few)
        if self.second_unit is not None and self.second_mix is not None:
            h, g = g, torch.empty_like(g)
            step_kernels.gates(way.multiply(h, self.second_mix), *self.second_unit, h, None, g, pdl=way.few)
        return g


class HeadStep:
    """x (n, C) -> logits (n, V), in the parameters' precision"""

    def __init__(self, decoder: "Decoder", dtype: torch.dtype) -> None:
        head = decoder.head
        self.first_norm, self.second_norm = (
            (norm.weight.detach(), norm.bias.detach()) for norm in (head.first_norm, head.second_norm)
        )
        self.reduce = head.reduce.weight.detach().to(dtype)
        self.logits, self.bias = head.logits.weight.detach(), cast(Tensor, head.logits.bias).detach()

    def __call__(self, x: Tensor, delta: Tensor | None, way: Way) -> Tensor:
        h = x.new_empty(x.shape, dtype=self.reduce.dtype)
        step_kernels.add_norm_relu(x, delta, *self.first_norm, h, pdl=way.few)
        y = way.multiply(h, self.reduce)
        h = y.new_empty(y.shape, dtype=self.logits.dtype)
        step_kernels.add_norm_relu(y, None, *self.second_norm, h, pdl=way.few)
        return F.linear(h, self.logits, self.bias)


class Captured(Generic[S]):
    """A step as a graph that reads and writes always the same tensors, `state`."""

    @torch.no_grad()
    def __init__(
        self,
        step: Callable[[S], S],
        state: S,
        watch: Callable[[S], Tensor],
        key: object,
        generator: torch.Generator | None,
    ) -> None:
        self.key, self.watch, self.generator, self.in_use = key, watch, generator, False
        self.state: S = mapped(state, Tensor.clone)
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):  # what is compiled or set up at a first call must not be captured
            step(mapped(state, Tensor.clone))
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        if generator is not None:
            self.graph.register_generator_state(generator)
        with torch.cuda.graph(self.graph):
            after = step(self.state)
            for old, new in zip(tensors_of(self.state), tensors_of(after), strict=True):
                if old.data_ptr() != new.data_ptr():
                    old.copy_(new)

    def load(self, state: S, generator: torch.Generator | None) -> None:
        """Go on from another state, which is left as it is."""
        for own, other in zip(tensors_of(self.state), tensors_of(state), strict=True):
            own.copy_(other)
        if self.generator is not None and generator is not None:
            self.generator.manual_seed(generator.initial_seed())


class GraphLoop(Generic[S]):
    """Replays a graph, some steps ahead of what is looked at; once it is left, its state is the next user's."""

    def __init__(self, captured: Captured[S]) -> None:
        self.captured = captured

    @property
    def state(self) -> S:
        state: S = self.captured.state
        return state

    def __iter__(self) -> Iterator[Tensor]:
        self.captured.in_use = True
        on_their_way: deque[tuple[Tensor, torch.cuda.Event]] = deque()
        try:
            while True:
                while len(on_their_way) < STEPS_AHEAD:
                    on_their_way.append(self._start())
                watched, event = on_their_way.popleft()
                event.synchronize()
                yield watched
        finally:
            self.captured.in_use = False

    def _start(self) -> tuple[Tensor, torch.cuda.Event]:
        self.captured.graph.replay()
        watched = self.captured.watch(self.captured.state).to("cpu", non_blocking=True)
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record()
        return watched, event
