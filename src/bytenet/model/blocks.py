"""Sect. 3.5 and 3.6: the residual blocks, and the stack of them with its dilation scheme.

Shapes: B rows, T positions, d inner channels; between blocks there are 2d channels.

A block is `x + expand(transform(reduce(x)))`. Encoder and decoder differ in the convolution alone, and with it in the
context that it needs beside x: a causal convolution takes and returns its history, a centred one takes a mask.
Blocks do not know their dilation: the stack hands it to them, so one compiled block serves all.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bytenet.model import fused
from bytenet.model.convolution import CausalConvolution, CentredConvolution, Pointwise
from bytenet.model.normalization import LayerNorm

ConvolutionKind = type[CausalConvolution] | type[CentredConvolution]


@dataclass(frozen=True, kw_only=True)
class StackConfig:
    """A stack of residual blocks."""

    num_blocks: int = 30
    """How many residual blocks stand on each other."""
    block: Literal["relu", "multiplicative"] = "relu"
    """The kind of block: the paper translates with "relu" and models language with "multiplicative"."""
    kernel_width: int = 3
    """How many positions a convolution sees (the paper's k)."""
    dilations: tuple[int, ...] = (1, 2, 4, 8, 16)
    """The dilation of the first block, the second, ...; repeated over the stack, from the first again."""
    second_unit: bool = False
    """Multiplicative blocks only: a second multiplicative unit, of kernel width 1, after the first."""
    dropout: float = 0.0
    """Not in the paper: the share of a block's inner channels dropped in training, before they are expanded."""
    begins: Literal["shared", "full", "zero"] = "shared"
    """How large a part a block has in the sum at first, which the paper leaves open: all blocks together as large a one
    as the embedding ("shared"), each of them ("full"), or none ("zero")."""

    def __post_init__(self) -> None:
        if self.num_blocks < 1:
            raise ValueError(f"num_blocks must be at least 1, not {self.num_blocks}")
        if self.kernel_width < 1:
            raise ValueError(f"kernel_width must be at least 1, not {self.kernel_width}")
        if not self.dilations:
            raise ValueError("dilations must name at least one dilation")
        if min(self.dilations) < 1:
            raise ValueError(f"dilations must be at least 1, not {min(self.dilations)}")
        if self.second_unit and self.block != "multiplicative":
            raise ValueError('second_unit needs block = "multiplicative"')
        check_dropout(self.dropout)

    @property
    def block_dilations(self) -> tuple[int, ...]:
        """The dilation of every block."""
        return tuple(self.dilations[i % len(self.dilations)] for i in range(self.num_blocks))

    @property
    def reaches(self) -> tuple[int, ...]:
        """How many positions beside its own each block sees."""
        return tuple((self.kernel_width - 1) * dilation for dilation in self.block_dilations)

    @property
    def receptive_field(self) -> int:
        """How many positions an output depends on, its own included."""
        return 1 + sum(self.reaches)


def check_dropout(dropout: float) -> None:
    """What every config asks of its `dropout`."""
    if not 0 <= dropout < 1:
        raise ValueError(f"dropout must be at least 0 and less than 1, not {dropout}")


class Stack(nn.ModuleList):
    """Residual blocks on each other: x (B, T, 2d) -> (B, T, 2d)."""

    def __init__(self, config: StackConfig, inner_channels: int, convolution: ConvolutionKind) -> None:
        super().__init__(Block(config, inner_channels, convolution) for _ in range(config.num_blocks))
        self.dilations = config.block_dilations

    def forward(self, x: Tensor, contexts: Sequence[Tensor | None]) -> tuple[Tensor, list[Tensor | None]]:
        """One context a block; returns what becomes of them."""
        after = []
        for block, context, dilation in zip(self, contexts, self.dilations, strict=True):
            x, context = block(x, context, dilation)
            after.append(context)
        return x, after


class Block(nn.Module):
    """A residual block (Fig. 3), of either kind."""

    def __init__(self, config: StackConfig, inner_channels: int, convolution: ConvolutionKind) -> None:
        super().__init__()
        self.causal = convolution is CausalConvolution
        self.first_norm = LayerNorm(2 * inner_channels)
        self.reduce = Pointwise(2 * inner_channels, inner_channels)
        self.second_norm = LayerNorm(inner_channels)
        match config.block:
            case "relu":
                self.transform: nn.Module = NormalizedConvolution(inner_channels, config.kernel_width, convolution)
            case "multiplicative":
                self.transform = MultiplicativeUnit(inner_channels, config.kernel_width, convolution)
        self.second_unit = MultiplicativeUnit(inner_channels, 1, convolution) if config.second_unit else None
        self.dropout = config.dropout
        gain = {"shared": config.num_blocks**-0.5, "full": 1.0, "zero": 0.0}[config.begins]
        self.expand = Pointwise(inner_channels, 2 * inner_channels, gain=gain)

    def forward(self, x: Tensor, context: Tensor | None, dilation: int) -> tuple[Tensor, Tensor | None]:
        """x (B, T, 2d), a history or a mask -> (B, T, 2d), the next history or the same mask"""
        masked = not self.causal and context is not None
        if self.second_unit is None and not masked and fused.available(x):
            return fused.fused_block(self, x, context, dilation)
        return self.plain(x, context, dilation)

    def plain(self, x: Tensor, context: Tensor | None, dilation: int) -> tuple[Tensor, Tensor | None]:
        """What a block is; on a GPU, fused.py does the same faster."""
        h = self.reduce(F.relu(self.first_norm(x)))  # (B, T, d)
        h = F.relu(self.second_norm(h))
        h, context = self.transform(h, context, dilation)
        if self.second_unit is not None:
            h, _ = self.second_unit(h, None, 1)
        h = F.dropout(h, self.dropout, self.training)
        return x + self.expand(h), context


class NormalizedConvolution(nn.Module):
    """The middle of a ReLU block: a convolution, layer norm, ReLU."""

    def __init__(self, channels: int, kernel_width: int, convolution: ConvolutionKind) -> None:
        super().__init__()
        self.convolution = convolution(channels, channels, kernel_width)
        self.norm = LayerNorm(channels)

    def forward(self, h: Tensor, context: Tensor | None, dilation: int) -> tuple[Tensor, Tensor | None]:
        h, context = self.convolution(h, context, dilation)
        return F.relu(self.norm(h)), context


class MultiplicativeUnit(nn.Module):
    """The multiplicative unit of the Video Pixel Networks, with a convolution and layer norms.

        g1, g2, g3 = σ(LN(W1..3 ∗ h)),  u = tanh(LN(W4 ∗ h)),  output = g1 ⊙ tanh(g2 ⊙ h + g3 ⊙ u)

    The four convolutions are one with four times the channels. The outer tanh has no layer norm of its own: what it
    reads is already a gated sum of normalised terms (docs/paper.md).
    """

    def __init__(self, channels: int, kernel_width: int, convolution: ConvolutionKind) -> None:
        super().__init__()
        self.convolution = convolution(channels, 4 * channels, kernel_width)
        self.norm = LayerNorm(4 * channels, groups=4)

    def forward(self, h: Tensor, context: Tensor | None, dilation: int) -> tuple[Tensor, Tensor | None]:
        gates, context = self.convolution(h, context, dilation)
        g1, g2, g3, u = self.norm(gates).chunk(4, dim=-1)
        g1, g2, g3, u = torch.sigmoid(g1), torch.sigmoid(g2), torch.sigmoid(g3), torch.tanh(u)
        return g1 * torch.tanh(g2 * h + g3 * u), context
