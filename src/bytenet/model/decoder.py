"""Sect. 3: the decoder, which predicts each token from the ones before it, and from a source if there is one.

Shapes: B rows, T positions, d inner channels, C = 2d, V vocabulary.
"""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bytenet.model import fused
from bytenet.model.blocks import Stack, StackConfig
from bytenet.model.convolution import CausalConvolution, Pointwise
from bytenet.model.embedding import Embedding
from bytenet.model.ngrams import NgramConfig, Ngrams, rows_ending
from bytenet.model.normalization import LayerNorm

Conditioning = Literal["add", "concatenate"]


class Decoder(nn.Module):
    """Embedding (Sect. 3.3), source (Sect. 3.1), masked residual blocks, head."""

    def __init__(
        self,
        config: StackConfig,
        *,
        vocabulary_size: int,
        inner_channels: int,
        dropout: float,
        conditioning: Conditioning | None = None,
        ngrams: NgramConfig | None = None,
    ) -> None:
        super().__init__()
        channels = 2 * inner_channels
        self.inner_channels = inner_channels
        self.reaches = config.reaches
        self.embedding = Embedding(vocabulary_size, channels)
        self.ngrams = Ngrams(ngrams, channels) if ngrams is not None and ngrams.num_tables else None
        # not in the paper: how representation and embedding meet; joined side by side, they are mixed down to 2d
        self.join = Pointwise(2 * channels, channels) if conditioning == "concatenate" else None
        self.blocks = Stack(config, inner_channels, CausalConvolution)
        self.head = Head(inner_channels, vocabulary_size, dropout)

    def empty_histories(self, rows: int, dtype: torch.dtype | None) -> tuple[Tensor, ...]:
        """The histories of rows that have read nothing: zeros."""
        weight = self.embedding.weight
        dtype = dtype or weight.dtype
        return tuple(
            torch.zeros(rows, reach, self.inner_channels, dtype=dtype, device=weight.device) for reach in self.reaches
        )

    def empty_tokens(self, rows: int) -> Tensor | None:
        """The last tokens of rows that have read nothing, if n-grams need any."""
        return None if self.ngrams is None else self.ngrams.nothing_before(rows)

    def forward(
        self,
        tokens: Tensor,
        histories: Sequence[Tensor],
        source: Tensor | None = None,
        before: Tensor | None = None,
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """tokens (B, T), source (B, T, C) or None, the tokens before these if n-grams reach them -> logits (B, T, V),
        the histories after these tokens
        """
        x: Tensor = self.embedding(tokens, histories[0].dtype)
        if self.ngrams is not None:
            assert before is not None
            rows = rows_ending(torch.cat([before, tokens], dim=1), self.ngrams.config)
            x = x + self.ngrams(rows, x.dtype)
        if source is not None:
            x = x + source if self.join is None else joined(self.join, x, source)
        x, after = self.blocks(x, histories)
        return self.head(x), tuple(after)


class Head(nn.Module):
    """One more convolution and ReLU, dropout, and a convolution to the logits (1×1, so they widen no receptive field).

    Logits come in the parameters' own precision, whatever the blocks were run in.
    """

    def __init__(self, inner_channels: int, vocabulary_size: int, dropout: float) -> None:
        super().__init__()
        self.first_norm = LayerNorm(2 * inner_channels)
        self.reduce = Pointwise(2 * inner_channels, inner_channels)
        self.second_norm = LayerNorm(inner_channels)
        self.dropout = nn.Dropout(dropout)
        self.logits = Pointwise(inner_channels, vocabulary_size, bias=True)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, C) -> logits (B, T, V)"""
        h = self.reduce(rectified(self.first_norm, x))
        h = self.dropout(rectified(self.second_norm, h))
        logits: Tensor = self.logits(h.to(self.logits.weight.dtype))
        return logits


def joined(join: Pointwise, x: Tensor, source: Tensor) -> Tensor:
    """`join(torch.cat([x, source], dim=-1))`, without copying the two side by side."""
    of_x, of_source = join.weight.to(x.dtype).chunk(2, dim=1)
    return torch.addmm(F.linear(x, of_x).flatten(0, 1), source.flatten(0, 1), of_source.t()).view(x.shape)


def rectified(norm: LayerNorm, x: Tensor) -> Tensor:
    """`relu(norm(x))`, on a GPU in one pass over the memory."""
    return fused.fused_norm_relu(x, norm.weight, norm.bias) if fused.available(x) else F.relu(norm(x))
