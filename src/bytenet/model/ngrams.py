"""Beyond the paper: beside each token's embedding, one for each of the n-grams that end with it, or in an encoder,
that lie around it.

Shapes: B rows, T positions, N the largest size, S how many sizes there are, E channels of an n-gram, C = 2d.

A look-up costs the same however large its table is, so that the network need not spend products on getting to know the
common n-grams. There is one table a size; the n-grams of a size share its rows as a hash of their tokens decides.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bytenet.model.blocks import check_dropout
from bytenet.model.convolution import Pointwise
from bytenet.vocabulary import PAD

# Odd numbers of 64 bits; products wrap around. A sum of products alone would send n-grams that differ by the same
# amount to rows that do: the upper half of the bits is folded into the lower before the last product.
NEXT, SPREAD = -7046029254386353131, -4658895280553007687


@dataclass(frozen=True, kw_only=True)
class NgramConfig:
    """Embeddings of n-grams."""

    sizes: tuple[int, ...] = ()
    """How many tokens, such as [2, 3, 4, 5]; none is the paper's embedding, of single tokens."""
    rows: int = 65_536
    """Of the table of each size."""
    channels: int = 128
    """Of the embedding of an n-gram."""
    dropout: float = 0.0
    """The share of n-grams left out in training, each by itself."""

    def __post_init__(self) -> None:
        if self.sizes and min(self.sizes) < 2:
            raise ValueError(f"sizes must be at least 2, not {min(self.sizes)}")
        if list(self.sizes) != sorted(set(self.sizes)):
            raise ValueError(f"sizes must rise, not {list(self.sizes)}")
        for name in ("rows", "channels"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        check_dropout(self.dropout)

    @property
    def reach(self) -> int:
        """How many tokens beside its own an embedding depends on."""
        return max(self.sizes, default=1) - 1


class Ngrams(nn.Module):
    """What a position's n-grams add to its embedding."""

    def __init__(self, config: NgramConfig, channels: int) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(len(config.sizes) * config.rows, config.channels)
        nn.init.normal_(self.embedding.weight, std=0.01)  # a rare n-gram begins as nothing in particular
        self.mix = Pointwise(len(config.sizes) * config.channels, channels)

    def nothing_before(self, rows: int) -> Tensor:
        """The tokens before the first ones of so many rows, (B, N-1): PAD."""
        return torch.full((rows, self.config.reach), PAD, dtype=torch.long, device=self.embedding.weight.device)

    def forward(self, rows: Tensor, dtype: torch.dtype) -> Tensor:
        """rows (B, T, S) of the tables -> (B, T, C)"""
        found = self.embedding(rows)  # (B, T, S, E)
        if self.training and self.config.dropout:
            found = found * F.dropout(torch.ones_like(found[..., :1]), self.config.dropout)
        mixed: Tensor = self.mix(found.flatten(-2).to(dtype))
        return mixed

    def parts(self, rows: Tensor) -> Tensor:
        """What the n-grams of each size add, (B, T, S, C); in evaluation their sum is `forward`."""
        found = self.embedding(rows)
        return torch.einsum("btse,cse->btsc", found, self.mix.weight.view(-1, *found.shape[2:]))


def rows_ending(tokens: Tensor, config: NgramConfig) -> Tensor:
    """tokens (B, N-1 + T) -> (B, T, S): where the n-grams that end at the last T positions stand, one table after the
    other.
    """
    found = [
        ((((hashed ^ (hashed >> 32)) * SPREAD) >> 32) % config.rows) + number * config.rows
        for number, hashed in enumerate(_hashes(tokens, config))
    ]
    return torch.stack(found, dim=-1)


def rows_around(tokens: Tensor, config: NgramConfig) -> Tensor:
    """tokens (B, T) -> (B, T, S): where the n-grams around each position stand; PAD lies on both sides.

    A position is in the middle of its n-grams; in those of even size there is one token more before than after it.
    """
    ending = rows_ending(F.pad(tokens, (config.reach, config.reach // 2), value=PAD), config)
    after = [(size - 1) // 2 for size in config.sizes]
    length = tokens.shape[1]
    return torch.stack([ending[:, shift : shift + length, i] for i, shift in enumerate(after)], dim=-1)


def _hashes(tokens: Tensor, config: NgramConfig) -> Iterator[Tensor]:
    """(B, T), one a size."""
    length = tokens.shape[1] - config.reach
    hashed = tokens[:, config.reach :] + 1
    for size in range(2, config.reach + 2):
        hashed = hashed * NEXT + tokens[:, config.reach + 1 - size :][:, :length] + 1
        if size in config.sizes:
            yield hashed
