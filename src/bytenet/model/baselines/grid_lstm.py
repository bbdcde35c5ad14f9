"""Grid LSTM: Kalchbrenner, Danihelka, Graves, "Grid Long Short-Term Memory", 2015; their Reencoder translates.

Shapes: B rows, S source and T target positions, n cells of a diagonal, C = 2d channels.

Table 1: time |S||T|, resolution preserved, paths |S| + |T| each. Source and target are two sides of a grid of LSTM
cells: for every target token the source is read again, with what its positions remember from the tokens before. A cell
reads the hidden vectors that come to it along both sides, and has gates and a memory for each. Layers, the third
dimension, read the source in turn forwards and backwards; the last one's end is what predicts.
Simplified: along the depth there is a sum in place of an LSTM.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bytenet.model.convolution import Pointwise
from bytenet.model.state import RowState
from bytenet.model.translation import SourceAndTarget, TranslationConfig, mask_of


@dataclass(frozen=True, kw_only=True)
class GridConfig(TranslationConfig):
    """A Grid LSTM."""

    kind: Literal["grid-lstm"] = "grid-lstm"


@dataclass(frozen=True)
class GridState(RowState):
    """The whole source, and what each of its positions remembers of the target."""

    source: Tensor
    """Embedded, (B, S, C)."""
    mask: Tensor
    """(B, S, 1): True inside the source."""
    memories: tuple[Tensor, ...]
    """Of each layer, in the order in which it reads, hidden and memory side by side: (B, S, 2C)."""


class GridTranslator(SourceAndTarget):
    """Reads the source again for each token of the target."""

    def __init__(self, config: GridConfig) -> None:
        super().__init__(config)
        self.config: GridConfig = config
        self.layers = nn.ModuleList(GridLayer(config.channels) for _ in range(config.layers))
        self.sums = nn.ModuleList(Pointwise(2 * config.channels, config.channels) for _ in self.layers[1:])

    def encode(self, x: Tensor, lengths: Sequence[int]) -> GridState:
        nothing = x.new_zeros(*x.shape[:2], 2 * x.shape[2])
        return GridState(x, mask_of(lengths, x), (nothing,) * len(self.layers))

    def decode(self, x: Tensor, state: GridState) -> tuple[Tensor, GridState]:
        grid = x[:, :, None] + state.source[:, None]  # (B, T, S, C)
        mask, memories = state.mask[..., 0], []
        for number, (layer, memory) in enumerate(zip(self.layers, state.memories, strict=True)):
            hidden, end, memory = layer(grid, mask, memory)
            memories.append(memory)
            if number < len(self.sums):
                grid, mask = (grid + self.sums[number](hidden)).flip(2), mask.flip(1)
        return end, replace(state, memories=tuple(memories))


class GridLayer(nn.Module):
    """A grid of LSTM cells over source and target; the cells of a diagonal do not need each other."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.input = Pointwise(channels, 8 * channels, bias=True)
        self.hidden = Pointwise(2 * channels, 8 * channels)

    def forward(self, x: Tensor, mask: Tensor, memory: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """x (B, T, S, C), mask (B, S), memory (B, S, 2C) before the first target token -> hidden vectors (B, T, S, 2C),
        where each target token's reading of the source ends (B, T, C), the memory after the last target token
        """
        rows, columns = x.shape[1:3]
        order, lengths = diagonals(rows, columns, x.device)
        gates = torch.split(self.input(x).flatten(1, 2)[:, order], lengths, dim=1)
        masks = torch.split(mask[:, order % columns, None], lengths, dim=1)
        across, along = x.new_zeros(x.shape[0], 0, memory.shape[2]), memory[:, :0]  # of the diagonal before: (B, n, 2C)
        hidden, ends, after = [], [], []
        for number, (gate, inside) in enumerate(zip(gates, masks, strict=True)):
            if number < rows:  # a new target token begins to read
                across = F.pad(across, (0, 0, 0, 1))
            if number < columns:  # a new source position is read by the first target token
                along = torch.cat([memory[:, number : number + 1], along], dim=1)
            new_across, new_along = self.cells(gate, across, along)
            across, along = torch.where(inside, new_across, across), torch.where(inside, new_along, along)
            hidden.append(torch.cat([halves(across)[0], halves(along)[0]], dim=-1))
            if number >= columns - 1:  # the first of them has read the whole source
                ends.append(halves(across)[0][:, :1])
                across = across[:, 1:]
            if number >= rows - 1:  # the last of them leaves a source position behind
                after.append(along[:, -1:])
                along = along[:, :-1]
        grid = torch.cat(hidden, dim=1)[:, order.argsort()].view(len(x), rows, columns, -1)
        return grid, torch.cat(ends, dim=1), torch.cat(after, dim=1)

    def cells(self, gates: Tensor, across: Tensor, along: Tensor) -> tuple[Tensor, Tensor]:
        """gates (B, n, 8C) of the inputs, what comes along source and target (B, n, 2C) -> what goes on"""
        (h_across, m_across), (h_along, m_along) = halves(across), halves(along)
        memory = torch.cat([m_across, m_along], dim=-1)
        gates = gates + self.hidden(torch.cat([h_across, h_along], dim=-1))
        take, keep, show, new = gates.chunk(4, dim=-1)  # (B, n, 2C) each: of both sides
        # not in the paper: one is added, so that memories are kept at first
        memory = torch.sigmoid(keep + 1) * memory + torch.sigmoid(take) * torch.tanh(new)
        hidden = torch.tanh(torch.sigmoid(show) * memory)
        both = zip(halves(hidden), halves(memory), strict=True)
        across, along = (torch.cat(side, dim=-1) for side in both)
        return across, along


def halves(x: Tensor) -> tuple[Tensor, Tensor]:
    first, second = x.chunk(2, dim=-1)
    return first, second


def diagonals(rows: int, columns: int, device: torch.device) -> tuple[Tensor, list[int]]:
    """The cells of a grid (T·S,), each as row · S + column, diagonal by diagonal, and how many each diagonal has."""
    cells = torch.arange(rows * columns, device=device)
    order = (cells // columns + cells % columns).argsort(stable=True)
    lengths = [min(number + 1, rows, columns, rows + columns - 1 - number) for number in range(rows + columns - 1)]
    return order, lengths
