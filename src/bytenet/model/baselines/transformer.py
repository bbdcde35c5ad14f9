"""Transformer: Vaswani et al., "Attention Is All You Need", 2017: the row that Table 1 could not have.

Shapes: B rows, S source and T target positions, P positions attended to, H heads, E channels a head, C = H·E = 2d.

Time |S||S| + |S||T| + |T||T|, resolution preserved, paths 1 and 1. What is remembered grows with the text: keys and
values of every position. Simplified: norms stand before each part (Xiong et al. 2020), which needs no warm-up, and the
ByteNet's head comes last.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bytenet.model.convolution import Pointwise
from bytenet.model.normalization import LayerNorm
from bytenet.model.state import RowState
from bytenet.model.translation import SourceAndTarget, TranslationConfig, mask_of


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(TranslationConfig):
    """A Transformer."""

    kind: Literal["transformer"] = "transformer"
    heads: int = 4
    """How many; they share the channels equally."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.heads < 1 or self.channels % self.heads:
            raise ValueError(f"heads must divide the {self.channels} channels, not {self.heads}")


@dataclass(frozen=True)
class Remembered:
    """What can be attended to."""

    keys: Tensor
    """(B, H, P, E)"""
    values: Tensor
    """(B, H, P, E)"""

    def then(self, more: "Remembered") -> "Remembered":
        return Remembered(torch.cat([self.keys, more.keys], dim=2), torch.cat([self.values, more.values], dim=2))


@dataclass(frozen=True)
class TransformerState(RowState):
    """Keys and values of all positions, of the source and of the target so far."""

    target: tuple[Remembered, ...]
    """One a layer."""
    source: tuple[Remembered, ...]
    """One a layer."""
    mask: Tensor
    """(B, 1, 1, S): True inside the source."""


class Transformer(SourceAndTarget):
    """Attends to all of the source and to all of the target so far."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        self.config: TransformerConfig = config
        layers = range(config.layers)
        self.encoder = nn.ModuleList(EncoderLayer(config.channels, config.heads) for _ in layers)
        self.encoder_norm = LayerNorm(config.channels)
        self.decoder = nn.ModuleList(DecoderLayer(config.channels, config.heads) for _ in layers)

    def encode(self, x: Tensor, lengths: Sequence[int]) -> TransformerState:
        mask = mask_of(lengths, x).view(x.shape[0], 1, 1, x.shape[1])
        x = x + positions(0, x)
        for layer in self.encoder:
            x = layer(x, mask)
        x = self.encoder_norm(x)
        nothing = x[:, :0]
        return TransformerState(
            target=tuple(layer.to_target.remember(nothing) for layer in self._layers),
            source=tuple(layer.to_source.remember(x) for layer in self._layers),
            mask=mask,
        )

    def decode(self, x: Tensor, state: TransformerState) -> tuple[Tensor, TransformerState]:
        target = []
        read = state.target[0].keys.shape[2]
        x = x + positions(read, x)
        # a position sees itself and all before it
        causal = torch.ones(x.shape[1], read + x.shape[1], dtype=torch.bool, device=x.device).tril(read)
        for layer, before, source in zip(self._layers, state.target, state.source, strict=True):
            x, after = layer(x, before, causal, source, state.mask)
            target.append(after)
        return x, replace(state, target=tuple(target))

    @property
    def _layers(self) -> "list[DecoderLayer]":
        return [layer for layer in self.decoder if isinstance(layer, DecoderLayer)]


class EncoderLayer(nn.Module):
    """Attention, then the same two matrices at every position; each is added to what it reads."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.attention = Attention(channels, heads)
        self.feed_forward = FeedForward(channels)
        self.norm = LayerNorm(channels)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        h = self.norm(x)
        x = x + self.attention(h, self.attention.remember(h), mask)
        output: Tensor = x + self.feed_forward(x)
        return output


class DecoderLayer(nn.Module):
    """Attention to the target so far, attention to the source, then the same two matrices at every position."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.to_target, self.to_source = Attention(channels, heads), Attention(channels, heads)
        self.feed_forward = FeedForward(channels)
        self.target_norm, self.source_norm = LayerNorm(channels), LayerNorm(channels)

    def forward(
        self, x: Tensor, before: Remembered, causal: Tensor, source: Remembered, mask: Tensor
    ) -> tuple[Tensor, Remembered]:
        """x (B, T, C), what is remembered -> (B, T, C), what is remembered of the target then"""
        h = self.target_norm(x)
        target = before.then(self.to_target.remember(h))
        x = x + self.to_target(h, target, causal)
        x = x + self.to_source(self.source_norm(x), source, mask)
        return x + self.feed_forward(x), target


class Attention(nn.Module):
    """Each head takes a mean of the values, by how well their keys go with the position's query."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key_value = Pointwise(channels, channels), Pointwise(channels, 2 * channels)
        self.output = Pointwise(channels, channels)

    def remember(self, x: Tensor) -> Remembered:
        """x (B, P, C) -> its keys and values"""
        keys, values = self.key_value(x).chunk(2, dim=-1)
        return Remembered(self._by_head(keys), self._by_head(values))

    def forward(self, x: Tensor, remembered: Remembered, mask: Tensor) -> Tensor:
        """x (B, T, C), mask of (T, P), True where a position may look -> (B, T, C)"""
        found = F.scaled_dot_product_attention(
            self._by_head(self.query(x)), remembered.keys, remembered.values, attn_mask=mask
        )
        output: Tensor = self.output(found.transpose(1, 2).flatten(2))
        return output

    def _by_head(self, x: Tensor) -> Tensor:
        """(B, P, C) -> (B, H, P, E)"""
        return x.view(*x.shape[:2], self.heads, x.shape[2] // self.heads).transpose(1, 2)


class FeedForward(nn.Module):
    """Two matrices with a ReLU between them, the same at every position."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = LayerNorm(channels)
        self.expand, self.reduce = Pointwise(channels, 4 * channels, bias=True), Pointwise(4 * channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.reduce(F.relu(self.expand(self.norm(x))))
        return output


def positions(first: int, x: Tensor) -> Tensor:
    """x (B, T, C) -> (T, C): sines and cosines of the positions from the first on, wavelengths from 2π to 20,000π"""
    place = torch.arange(first, first + x.shape[1], device=x.device, dtype=torch.float64)[:, None]
    rates = torch.exp(torch.arange(0, x.shape[2], 2, device=x.device) * (-math.log(10_000) / x.shape[2]))
    angles = place * rates
    return torch.cat([angles.sin(), angles.cos()], dim=-1).to(x.dtype)
