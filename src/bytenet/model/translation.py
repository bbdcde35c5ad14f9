"""What the models beside the ByteNet share that write a target given a source: the other rows of Table 1.

Shapes: B rows, S source and T target positions, C = 2d channels, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bytenet.model.decoder import Head
from bytenet.model.language_model import check_widths
from bytenet.model.state import RowState
from bytenet.model.translator import UnfoldingConfig, counted, inside
from bytenet.vocabulary import END, PAD, VocabularyConfig


@dataclass(frozen=True, kw_only=True)
class TranslationConfig:
    """The keys that all of them have."""

    source_vocabulary: VocabularyConfig = VocabularyConfig()
    target_vocabulary: VocabularyConfig = VocabularyConfig()
    inner_channels: int = 256
    """Half the channels of embeddings and layers, as in a ByteNet between its blocks."""
    layers: int = 1
    """How many layers stand on each other, on each side."""
    unfolding: UnfoldingConfig = UnfoldingConfig()
    """Which pairs are read together and how long a translation may be; some models unfold by it as a ByteNet does."""
    dropout: float = 0.0
    """The share of units dropped after the last ReLU, before the softmax."""

    def __post_init__(self) -> None:
        check_widths(self.inner_channels, self.dropout)
        if self.layers < 1:
            raise ValueError(f"layers must be at least 1, not {self.layers}")

    @property
    def channels(self) -> int:
        return 2 * self.inner_channels

    @property
    def vocabulary_configs(self) -> tuple[VocabularyConfig, ...]:
        return (self.source_vocabulary, self.target_vocabulary)


class SourceAndTarget(nn.Module):
    """Embeddings of both sides and the ByteNet's head; what is between them, `encode` and `decode` say.

    A source is read with an END of its own, so that none is empty, and without any padding.
    """

    config: TranslationConfig

    def __init__(self, config: TranslationConfig) -> None:
        super().__init__()
        self.unfolding: UnfoldingConfig = config.unfolding
        self.source_embedding = nn.Embedding(config.source_vocabulary.size, config.channels)
        self.target_embedding = nn.Embedding(config.target_vocabulary.size, config.channels)
        self.head = Head(config.inner_channels, config.target_vocabulary.size, config.dropout)

    def start(
        self, source: Tensor, lengths: Sequence[int] | None = None, *, dtype: torch.dtype | None = None
    ) -> RowState:
        """source (B, S), filled up with PAD -> the state of rows that have read their source and no target token"""
        lengths = counted(source) if lengths is None else lengths
        longest = max(lengths, default=0) + 1
        ends = torch.tensor(lengths, dtype=torch.int64).to(source.device, non_blocking=True)
        source = F.pad(source, (0, max(0, longest - source.shape[1])), value=PAD)[:, :longest]
        x = self.source_embedding(source.scatter(1, ends[:, None], END))
        return self.encode(x.to(dtype or x.dtype), [length + 1 for length in lengths])

    def forward(self, tokens: Tensor, state: RowState) -> tuple[Tensor, RowState]:
        """tokens (B, T) -> logits (B, T, V), the state after them"""
        x = self.target_embedding(tokens).to(state.dtype)
        if tokens.shape[1]:
            x, state = self.decode(x, state)
        return self.head(x), state

    def encode(self, x: Tensor, lengths: Sequence[int]) -> RowState:
        """embedded sources x (B, S, C), of which each row has its own length -> the state before the first target"""
        raise NotImplementedError

    def decode(self, x: Tensor, state: Any) -> tuple[Tensor, RowState]:
        """embedded target tokens x (B, T, C) -> what the head reads, (B, T, C), the state after them"""
        raise NotImplementedError


def mask_of(lengths: Sequence[int], x: Tensor) -> Tensor:
    """x (B, S, C) -> (B, S, 1): True before each row's length"""
    mask = inside(lengths, x.shape[1], x.device)
    return x.new_ones(*x.shape[:2], 1, dtype=torch.bool) if mask is None else mask
