"""Bits of texts, and of targets given their sources, each by itself.

Shapes: B rows, T positions, V vocabulary.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional as F

from bytenet.decoding.batching import Ids, batches, padded
from bytenet.evaluation.bits import BATCH_POSITIONS, best_chunk, nats
from bytenet.model import AnyTranslator, LanguageModel, Model, RowState
from bytenet.vocabulary import BEGIN, END, Vocabulary

MOST_ROWS = 256


@dataclass(frozen=True)
class Score:
    """How surprising a text is to a model."""

    bits: float
    characters: int
    """Of the text; for a translator END is one more."""
    bytes: int
    """In UTF-8; for a translator END is one more."""
    unknown: int
    """Symbols that the model does not know; each counts as the one symbol for all of them."""

    @property
    def bits_per_character(self) -> float:
        return self.bits / self.characters if self.characters else math.nan


@torch.no_grad()
def score_texts(
    model: LanguageModel, vocabularies: Sequence[Vocabulary], texts: Sequence[str], *, dtype: torch.dtype | None = None
) -> list[Score]:
    """Each text by itself, from BEGIN on."""
    encoded = [vocabularies[0].encode_array(text) for text in texts]

    def start(rows: list[int]) -> RowState:
        return model.start(len(rows), dtype=dtype)

    bits = dict(rows_bits(model, start, encoded, [len(ids) for ids in encoded]))
    both = enumerate(zip(texts, encoded, strict=True))
    return [score(text, ids, vocabularies[0], bits[i], 0) for i, (text, ids) in both]


@torch.no_grad()
def score_pairs(
    model: AnyTranslator,
    vocabularies: Sequence[Vocabulary],
    pairs: Sequence[tuple[str, str]],
    *,
    dtype: torch.dtype | None = None,
) -> list[Score]:
    """The target of each (source, target), given the source, END included."""
    device = next(model.parameters()).device
    sources = [vocabularies[0].encode_array(source) for source, _ in pairs]
    targets = [np.append(vocabularies[1].encode_array(target), np.int32(END)) for _, target in pairs]

    def start(rows: list[int]) -> RowState:
        return model.start(padded([sources[i] for i in rows]).to(device), [len(sources[i]) for i in rows], dtype=dtype)

    sizes = [len(source) + len(target) for source, target in zip(sources, targets, strict=True)]
    bits = dict(rows_bits(model, start, targets, sizes))
    return [
        score(target, ids, vocabularies[1], bits[i], 1)
        for i, ((_, target), ids) in enumerate(zip(pairs, targets, strict=True))
    ]


def score(text: str, ids: Ids, vocabulary: Vocabulary, bits: float, ends: int) -> Score:
    size = len(text.encode("utf-8", "surrogatepass"))
    return Score(bits, len(text) + ends, size + ends, vocabulary.count_unknown(ids))


def rows_bits(
    model: Model, start: Callable[[list[int]], RowState], targets: Sequence[Ids], sizes: Sequence[int]
) -> Iterator[tuple[int, float]]:
    """(number, bits) of each row of targets; rows of similar size are read together, long ones in parts."""
    device = next(model.parameters()).device
    part = best_chunk(model)  # of one row at once
    for rows in batches(sizes, lambda i: sizes[i], BATCH_POSITIONS, MOST_ROWS):
        tokens = padded([targets[i] for i in rows]).to(device)
        inputs = F.pad(tokens, (1, 0), value=BEGIN)[:, :-1]
        state, total = start(rows), torch.zeros(len(rows), dtype=torch.float64, device=device)
        for read, wanted in zip(torch.split(inputs, part, dim=1), torch.split(tokens, part, dim=1), strict=True):
            if read.shape[1]:
                logits, state = model(read, state)
                total += nats(logits.flatten(0, 1), wanted.flatten()).double().view(wanted.shape).sum(dim=1)
        yield from zip(rows, (total / math.log(2)).tolist(), strict=True)
