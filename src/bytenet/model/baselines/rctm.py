"""RCTM 1 and 2: Kalchbrenner, Blunsom, "Recurrent Continuous Translation Models", 2013.

Shapes: B rows, S source, L representation and T target positions, N layers, C = 2d channels.

Table 1: time |S||S| + |T|, paths |S| and |T|; RCTM 2 alone preserves the resolution. A pyramid of convolutions stands
on the source, each level one column shorter than the one below: RCTM 1 takes its top, one column for any source, and
every step of a recurrent decoder reads it. RCTM 2 cuts the pyramid off, turns it upside down to unfold the columns left
onto the positions of the target, and each step reads its own column.
Simplified: kernels of width 2 over all channels, the same at each level, where the paper has kernels for each channel,
wider and others at each level; gates, in the pyramid those of Cho et al. (2014, "On the Properties of Neural Machine
Translation"), without which it learns to copy far more slowly (docs/results.md); and the target's length is that of
dynamic unfolding, not a Poisson variable.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bytenet.model.convolution import Pointwise, taps
from bytenet.model.recurrent import Recurrence, RecurrentState
from bytenet.model.state import RowState
from bytenet.model.translation import SourceAndTarget, TranslationConfig, mask_of
from bytenet.model.translator import unfold


@dataclass(frozen=True, kw_only=True)
class Rctm1Config(TranslationConfig):
    """An RCTM 1."""

    kind: Literal["rctm-1"] = "rctm-1"


@dataclass(frozen=True, kw_only=True)
class Rctm2Config(TranslationConfig):
    """An RCTM 2."""

    kind: Literal["rctm-2"] = "rctm-2"
    ngram: int = 0
    """How many tokens a column has read where the pyramid is cut off. The paper of 2013 has 4, which takes linear time;
    0 stands for half of the source's tokens, which gives the time and the path that Table 1 states."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ngram < 0:
            raise ValueError(f"ngram must be at least 0, not {self.ngram}")


@dataclass(frozen=True)
class Rctm1State(RowState):
    """One column for the whole source."""

    hidden: Tensor
    """Of the decoder's layers, (B, N, C)."""
    source: Tensor
    """(B, 1, C)"""


class Rctm1(SourceAndTarget):
    """Reads a source to a single vector, which each step of the decoder reads."""

    def __init__(self, config: Rctm1Config) -> None:
        super().__init__(config)
        self.config: Rctm1Config = config
        self.narrow = Level(config.channels)
        self.recurrence = Recurrence(config.channels, config.channels, config.layers)

    def encode(self, x: Tensor, lengths: Sequence[int]) -> Rctm1State:
        return Rctm1State(self.recurrence.start(x), narrowed(self.narrow, x, lengths, [1] * len(lengths)))

    def decode(self, x: Tensor, state: Rctm1State) -> tuple[Tensor, Rctm1State]:
        x, hidden = self.recurrence(x + state.source, state.hidden)
        return x, Rctm1State(hidden, state.source)


class Rctm2(SourceAndTarget):
    """Reads a source to n-grams, and these to one column for each position of the target."""

    def __init__(self, config: Rctm2Config) -> None:
        super().__init__(config)
        self.config: Rctm2Config = config
        self.narrow, self.widen = Level(config.channels), Level(config.channels)
        self.recurrence = Recurrence(config.channels, config.channels, config.layers)

    def encode(self, x: Tensor, lengths: Sequence[int]) -> RecurrentState:
        ngram, unfolding = self.config.ngram, self.config.unfolding
        ngrams = [max(1, length + 1 - (ngram or length // 2 + 1)) for length in lengths]
        wanted = [unfolding.unfolded_length(length - 1) for length in lengths]  # END is this model's own
        columns = widened(self.widen, narrowed(self.narrow, x, lengths, ngrams), ngrams, wanted)
        return RecurrentState(self.recurrence.start(x), columns)

    def decode(self, x: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        source, ahead = unfold(state.ahead, x.shape[1])
        x, hidden = self.recurrence(x + source, state.hidden)
        return x, RecurrentState(hidden, ahead)


class Level(nn.Module):
    """A convolution of width 2: each channel of a column is new, or that of its left or right neighbour below."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.mix = Pointwise(2 * channels, 4 * channels, bias=True)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, S, C) -> (B, S-1, C)"""
        left_right = taps(x, 2, 1)
        new, *gates = self.mix(left_right).chunk(4, dim=-1)
        choices = torch.stack([torch.tanh(new), *left_right.chunk(2, dim=-1)])  # (3, B, S-1, C)
        return (choices * torch.stack(gates).softmax(dim=0)).sum(dim=0)


def narrowed(level: Level, x: Tensor, lengths: Sequence[int], wanted: Sequence[int]) -> Tensor:
    """x (B, S, C) -> (B, most wanted, C): so many levels up that each row has as many columns as wanted

    Behind a row's own columns there is anything.
    """
    levels = [length - want for length, want in zip(lengths, wanted, strict=True)]
    up_to = torch.tensor(levels).to(x.device)[:, None, None]
    for number in range(1, max(levels, default=0) + 1):
        columns = max(length - min(own, number) for length, own in zip(lengths, levels, strict=True))
        x = torch.where(number <= up_to, F.pad(level(x), (0, 0, 0, 1)), x)[:, :columns]
    return x


def widened(level: Level, x: Tensor, lengths: Sequence[int], wanted: Sequence[int]) -> Tensor:
    """x (B, S, C) -> (B, most wanted, C): the other way round; behind a row's own columns there are zeros"""
    x = x * mask_of(lengths, x)
    for number in range(1, max(map(int.__sub__, wanted, lengths), default=0) + 1):
        columns = [min(max(length, want), length + number) for length, want in zip(lengths, wanted, strict=True)]
        grows = torch.tensor([length + number <= want for length, want in zip(lengths, wanted, strict=True)])
        wider = level(F.pad(x, (0, 0, 1, 1)))
        x = torch.where(grows.to(x.device)[:, None, None], wider, F.pad(x, (0, 0, 0, 1)))
        x = x * mask_of(columns, x)
    x = x[:, : max(wanted, default=0)]
    return x * mask_of([min(want, x.shape[1]) for want in wanted], x)
