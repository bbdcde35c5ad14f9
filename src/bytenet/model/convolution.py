"""Sect. 3.4 and 3.5: masked and centred dilated convolutions, channels last.

Shapes: B rows, T positions, D channels; a kernel of width K and dilation r reaches over (K-1)·r positions.

A convolution is written as K shifted slices side by side and one matrix product, which is faster than a transposed
`nn.Conv1d` (docs/results.md) and is the same code for one character and for a whole text.
Weights are cast to the precision of what they read, so the state that a text is read with decides the precision.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Pointwise(nn.Module):
    """A 1×1 convolution: the same matrix at every position."""

    def __init__(self, in_channels: int, out_channels: int, *, bias: bool = False, gain: float = 1.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(out_channels, in_channels))
        self.bias = nn.Parameter(torch.zeros(out_channels)) if bias else None
        nn.init.normal_(self.weight, std=gain * in_channels**-0.5)  # not in the paper: keeps the variance of its input

    def forward(self, x: Tensor) -> Tensor:
        bias = None if self.bias is None else self.bias.to(x.dtype)
        return F.linear(x, self.weight.to(x.dtype), bias)


class CausalConvolution(nn.Module):
    """Masked: the output at a position sees that position and earlier ones only.

    `history` is what the kernel still reaches of the text before x: zeros where there is no text, None where the
    kernel has width 1 and reaches nothing.
    """

    def __init__(self, in_channels: int, out_channels: int, kernel_width: int) -> None:
        super().__init__()
        self.kernel_width = kernel_width
        self.mix = Pointwise(kernel_width * in_channels, out_channels)

    def forward(self, x: Tensor, history: Tensor | None, dilation: int) -> tuple[Tensor, Tensor]:
        """x (B, T, D), history (B, (K-1)·r, D) -> (B, T, D'), the history of what comes next."""
        extended = x if history is None else torch.cat([history, x], dim=1)
        return self.mix(taps(extended, self.kernel_width, dilation)), extended[:, x.shape[1] :]


class CentredConvolution(nn.Module):
    """Not masked: the output at a position sees as far to the right as to the left.

    `mask` is 1 inside a sentence and 0 behind its end, so that no sentence sees what stands beside it in the batch.
    """

    def __init__(self, in_channels: int, out_channels: int, kernel_width: int) -> None:
        super().__init__()
        self.kernel_width = kernel_width
        self.mix = Pointwise(kernel_width * in_channels, out_channels)

    def forward(self, x: Tensor, mask: Tensor | None, dilation: int) -> tuple[Tensor, Tensor | None]:
        """x (B, T, D), mask (B, T, 1) or None for all inside -> (B, T, D'), the same mask."""
        if mask is not None:
            x = x * mask
        reach = (self.kernel_width - 1) * dilation // 2
        extended = F.pad(x, (0, 0, reach, reach))
        return self.mix(taps(extended, self.kernel_width, dilation)), mask


def taps(x: Tensor, kernel_width: int, dilation: int) -> Tensor:
    """x (B, T + (K-1)·r, D) -> (B, T, K·D): side by side, oldest first, the K inputs that each position sees."""
    length = x.shape[1] - (kernel_width - 1) * dilation
    return torch.cat([x[:, i * dilation : i * dilation + length] for i in range(kernel_width)], dim=-1)
