"""Extended Neural GPU: Kaiser, Bengio, "Can Active Memory Replace Attention?", 2016.

Shapes: B rows, S source, L memory and T target positions, C = 2d channels.

Table 1: time |S||S| + |S||T|, resolution preserved, paths |S| and |T|. The memory has a vector for every position. A
convolutional gated recurrent unit changes all of it at once: first as often as the source has tokens, then once for
each token of the target, when it also sees the tape onto which the tokens so far are written.
Simplified: the memory is one column wide, not four; the token of step k is written to and the next one predicted from
position k, past the memory's end its last position. The memory has as many positions as dynamic unfolding says.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bytenet.model.convolution import CentredConvolution
from bytenet.model.state import RowState
from bytenet.model.translation import SourceAndTarget, TranslationConfig, mask_of


@dataclass(frozen=True, kw_only=True)
class NeuralGpuConfig(TranslationConfig):
    """An Extended Neural GPU."""

    kind: Literal["neural-gpu"] = "neural-gpu"


@dataclass(frozen=True)
class NeuralGpuState(RowState):
    """Memory and tape; both have a place for every position."""

    memory: Tensor
    """(B, L, C)"""
    tape: Tensor
    """The target's tokens so far, embedded, (B, L, C)."""
    mask: Tensor
    """(B, L, 1): True where a row has a position."""
    position: int
    """How many target tokens have been read."""


class NeuralGpu(SourceAndTarget):
    """Changes all of its memory at every step."""

    def __init__(self, config: NeuralGpuConfig) -> None:
        super().__init__(config)
        self.config: NeuralGpuConfig = config
        layers = range(config.layers)
        self.encoder = nn.ModuleList(ConvolutionalUnit(config.channels, config.channels) for _ in layers)
        self.decoder = nn.ModuleList(ConvolutionalUnit(config.channels, 2 * config.channels) for _ in layers)

    def encode(self, x: Tensor, lengths: Sequence[int]) -> NeuralGpuState:
        unfolded = [self.config.unfolding.unfolded_length(length - 1) for length in lengths]  # END is this model's own
        sizes = [max(size, length) for size, length in zip(unfolded, lengths, strict=True)]
        memory = F.pad(x * mask_of(lengths, x), (0, 0, 0, max(sizes, default=0) - x.shape[1]))
        mask = mask_of(sizes, memory)
        steps = torch.tensor(lengths).to(x.device)[:, None, None]
        for step in range(max(lengths, default=0)):
            changed = memory
            for unit in self.encoder:
                changed = unit(changed, mask)
            memory = torch.where(step < steps, changed, memory)
        return NeuralGpuState(memory, torch.zeros_like(memory), mask, 0)

    def decode(self, x: Tensor, state: NeuralGpuState) -> tuple[Tensor, NeuralGpuState]:
        memory, tape, outputs = state.memory, state.tape, []
        places = torch.arange(memory.shape[1], device=x.device)[:, None]  # (L, 1)
        ends = state.mask.sum(dim=1, keepdim=True) - 1  # (B, 1, 1)
        for position, embedded in enumerate(torch.split(x, 1, dim=1), start=state.position):
            place = ends.clamp(max=position)  # (B, 1, 1)
            tape = torch.where(places == place, embedded, tape)
            for unit in self.decoder:
                memory = unit(memory, state.mask, tape)
            outputs.append(memory.gather(1, place.expand_as(embedded)))
        return torch.cat(outputs, dim=1), NeuralGpuState(memory, tape, state.mask, state.position + x.shape[1])


class ConvolutionalUnit(nn.Module):
    """A gated recurrent unit whose products are convolutions: u ⊙ m + (1 - u) ⊙ tanh(U ∗ (r ⊙ m) + W ∗ tape)."""

    def __init__(self, channels: int, in_channels: int, kernel_width: int = 3) -> None:
        super().__init__()
        self.gates = CentredConvolution(in_channels, 2 * channels, kernel_width)
        self.candidate = CentredConvolution(in_channels, channels, kernel_width)
        # not in the papers: the memory is kept at first
        self.bias = nn.Parameter(torch.cat([torch.ones(channels), torch.zeros(2 * channels)]))

    def forward(self, memory: Tensor, mask: Tensor, tape: Tensor | None = None) -> Tensor:
        """memory (B, L, C), mask (B, L, 1), tape (B, L, C) -> the memory then"""
        beside = [] if tape is None else [tape]
        gate_bias, bias = self.bias.to(memory.dtype).tensor_split([2 * memory.shape[2]])
        gates, _ = self.gates(torch.cat([memory, *beside], dim=-1), mask, 1)
        keep, reset = torch.sigmoid(gates + gate_bias).chunk(2, dim=-1)
        candidate, _ = self.candidate(torch.cat([reset * memory, *beside], dim=-1), mask, 1)
        return keep * memory + (1 - keep) * torch.tanh(candidate + bias)
