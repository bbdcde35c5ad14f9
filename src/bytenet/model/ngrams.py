"""Beyond the paper: beside each token's embedding, one for each of the n-grams that end with it, or in an encoder,
that lie around it; and one for the word that it belongs to.

Shapes: B rows, T positions, N the largest size, S how many tables, E channels of an n-gram, W tokens of a word, C = 2d.

A look-up costs the same however large its table is, so that the network need not spend products on getting to know the
common n-grams. There is one table a size, and one for words; what belongs into a table shares its rows as a hash of its
tokens decides.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bytenet.model.blocks import check_dropout
from bytenet.model.convolution import Pointwise
from bytenet.vocabulary import NUM_CONTROLS, PAD

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
    words: int = 0
    """Also the word that a token belongs to, as much of it as there is up to the token, in an encoder all of it; of
    longer words the last so many tokens. 0 for none."""
    word_rows: int = 0
    """Of the table of words, of which there are more than of short n-grams; 0 for as many as the others have."""
    separators: tuple[int, ...] = ()
    """Tokens that belong to no word. Training takes them from the vocabulary: whatever is no letter and no digit."""

    def __post_init__(self) -> None:
        if self.sizes and min(self.sizes) < 2:
            raise ValueError(f"sizes must be at least 2, not {min(self.sizes)}")
        if list(self.sizes) != sorted(set(self.sizes)):
            raise ValueError(f"sizes must rise, not {list(self.sizes)}")
        for name in ("words", "word_rows"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be at least 0, not {getattr(self, name)}")
        for name in ("rows", "channels"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        check_dropout(self.dropout)

    @property
    def table_rows(self) -> tuple[int, ...]:
        """Of the table of each size, and of that of words."""
        return (self.rows,) * len(self.sizes) + (self.word_rows or self.rows,) * bool(self.words)

    @property
    def num_tables(self) -> int:
        return len(self.table_rows)

    @property
    def reach(self) -> int:
        """How many tokens beside its own an embedding depends on."""
        return max(*self.sizes, self.words, 1, 1) - 1


class Ngrams(nn.Module):
    """What a position's n-grams add to its embedding."""

    def __init__(self, config: NgramConfig, channels: int) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(sum(config.table_rows), config.channels)
        nn.init.normal_(self.embedding.weight, std=0.01)  # a rare n-gram begins as nothing in particular
        self.mix = Pointwise(config.num_tables * config.channels, channels)

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
    """tokens (B, N-1 + T) -> (B, T, S): where the n-grams that end at the last T positions stand, and the words so far,
    one table after the other.
    """
    hashes = list(_hashes(tokens, config))
    if config.words:
        hashes.append(_word_hashes(tokens[:, config.reach + 1 - config.words :], config))
    return _rows(hashes, config)


def rows_around(tokens: Tensor, config: NgramConfig) -> Tensor:
    """tokens (B, T) -> (B, T, S): where the n-grams around each position, and its word, stand; PAD lies on both sides.

    A position is in the middle of its n-grams; in those of even size there is one token more before than after it.
    """
    length = tokens.shape[1]
    ending = _hashes(F.pad(tokens, (config.reach, config.reach // 2), value=PAD), config)
    after = [(size - 1) // 2 for size in config.sizes]
    hashes = [hashed[:, shift : shift + length] for shift, hashed in zip(after, ending, strict=True)]
    if config.words:
        so_far = _word_hashes(F.pad(tokens, (config.words - 1, 0), value=PAD), config)
        hashes.append(so_far.gather(1, _last_of_words(tokens, config)))
    return _rows(hashes, config)


def words_of(tokens: Tensor, config: NgramConfig, *, around: bool) -> Tensor:
    """tokens (T,) -> (T, T): which tokens make up each position's word, so far or around it; between words, itself"""
    parts = _separate(tokens, config)
    number = F.pad(parts[1:] | parts[:-1], (1, 0)).cumsum(0)  # another one for all that stands between words
    place = torch.arange(len(tokens), device=tokens.device)
    last = (_last_of_words(tokens[None], config)[0] if around else place)[:, None]
    return (number[:, None] == number) & (last - config.words < place) & (place <= last)


def _rows(hashes: list[Tensor], config: NgramConfig) -> Tensor:
    """(B, T), one a table -> (B, T, S)"""
    found, first = [], 0
    for hashed, rows in zip(hashes, config.table_rows, strict=True):
        found.append((((hashed ^ (hashed >> 32)) * SPREAD) >> 32) % rows + first)
        first += rows
    return torch.stack(found, dim=-1)


def _hashes(tokens: Tensor, config: NgramConfig) -> Iterator[Tensor]:
    """(B, T), one a size."""
    length = tokens.shape[1] - config.reach
    hashed = tokens[:, config.reach :] + 1
    for size in range(2, config.reach + 2):
        hashed = hashed * NEXT + tokens[:, config.reach + 1 - size :][:, :length] + 1
        if size in config.sizes:
            yield hashed


def _word_hashes(tokens: Tensor, config: NgramConfig) -> Tensor:
    """tokens (B, W-1 + T) of words of up to W -> (B, T): of the words up to each of the last T; 0 between words"""
    tokens = F.pad(tokens, (1, 0))  # a window more than is asked for: there is one even if T is 0
    windows = (tokens + 1).unfold(1, config.words, 1)[:, 1:]  # (B, T, W)
    letters = (~_separate(tokens, config)).long().unfold(1, config.words, 1)[:, 1:]
    in_word = letters.flip(-1).cumprod(-1)  # newest first: until the first that belongs to no word
    powers = torch.full((config.words,), NEXT, device=tokens.device).cumprod(0)
    return (windows.flip(-1) * in_word * powers).sum(-1)


def _last_of_words(tokens: Tensor, config: NgramConfig) -> Tensor:
    """tokens (B, T) -> (B, T): where the word of each position ends, or how far a word may reach"""
    parts = _separate(tokens, config)
    ends = parts | F.pad(parts[:, 1:], (0, 1), value=True)
    places = torch.arange(tokens.shape[1], device=tokens.device)
    last: Tensor = torch.where(ends, places, tokens.shape[1]).flip(1).cummin(1).values.flip(1)
    return last.minimum(places + config.words - 1)


def _separate(tokens: Tensor, config: NgramConfig) -> Tensor:
    """Which tokens belong to no word."""
    table = _separators(config.separators, tokens.device)
    return table[tokens.clamp(max=len(table) - 1)]


@lru_cache(maxsize=64)
def _separators(separators: tuple[int, ...], device: torch.device) -> Tensor:
    """True for each of them and for controls; the last one stands for all further tokens, which are letters."""
    table = torch.zeros(max(*separators, NUM_CONTROLS, 1) + 2, dtype=torch.bool)
    table[[*range(NUM_CONTROLS), *separators]] = True
    return table.to(device)
