"""Sect. 3: the encoder, the same blocks with convolutions that are not masked.

Shapes: B rows, L positions, d inner channels, C = 2d.
"""

import torch
from torch import Tensor, nn

from bytenet.model.blocks import Stack, StackConfig
from bytenet.model.convolution import CentredConvolution
from bytenet.model.embedding import Embedding
from bytenet.model.ngrams import NgramConfig, Ngrams, rows_around


class Encoder(nn.Module):
    """Embedding and centred residual blocks; the padding symbol is embedded as any other ("special characters")."""

    def __init__(
        self, config: StackConfig, *, vocabulary_size: int, inner_channels: int, ngrams: NgramConfig | None = None
    ) -> None:
        super().__init__()
        self.embedding = Embedding(vocabulary_size, 2 * inner_channels)
        self.ngrams = Ngrams(ngrams, 2 * inner_channels) if ngrams is not None and ngrams.num_tables else None
        self.blocks = Stack(config, inner_channels, CentredConvolution)

    def forward(self, tokens: Tensor, mask: Tensor | None, dtype: torch.dtype | None = None) -> Tensor:
        """tokens (B, L), mask (B, L, 1) of who is inside, None for all -> representation (B, L, C)"""
        x: Tensor = self.embedding(tokens, dtype)
        if self.ngrams is not None:
            x = x + self.ngrams(rows_around(tokens, self.ngrams.config), x.dtype)
        representation: Tensor
        representation, _ = self.blocks(x, [mask] * len(self.blocks))
        return representation


def check_centred(encoder: StackConfig) -> None:
    """What every config asks of its `encoder`."""
    if encoder.kernel_width % 2 == 0:
        raise ValueError(f"encoder.kernel_width must be odd to be centred, not {encoder.kernel_width}")
