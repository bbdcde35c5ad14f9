"""Bits a character: exact over whole texts and corpora of pairs.

A text of any length is read once, from its beginning, in parts: the state carries the full context from each part to
the next, in linear time and constant memory. The first symbol is predicted from BEGIN.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from bytenet.data.batches import PairBatches
from bytenet.data.encoding import EncodedPairs
from bytenet.model import AnyTranslator, LanguageModel, Model
from bytenet.vocabulary import BEGIN, PAD

BATCH_POSITIONS = 32_768
GPU_CHUNK, CPU_CHUNK = 65_536, 4_096  # a CPU spends a third of its time on fetching memory for larger ones


@dataclass(frozen=True)
class Bits:
    """How many bits a model needs for how many symbols."""

    total: float
    symbols: int

    @property
    def per_symbol(self) -> float:
        return self.total / self.symbols if self.symbols else math.nan


def best_chunk(model: Model) -> int:
    """How many symbols of a text are best read at once."""
    return GPU_CHUNK if next(model.parameters()).is_cuda else CPU_CHUNK


@torch.no_grad()
def text_bits(model: LanguageModel, parts: Iterable[Tensor], *, dtype: torch.dtype | None = None) -> Bits:
    """The bits of a text that comes as parts (n,) of its ids, one after the other."""
    device = next(model.parameters()).device
    state, previous = model.start(dtype=dtype), torch.tensor([BEGIN], device=device)
    total, symbols = 0.0, 0
    for part in parts:
        if not len(part):
            continue
        tokens = part.to(device).long()
        logits, state = model(torch.cat([previous, tokens[:-1]])[None], state)
        total += sum_bits(logits[0], tokens)
        previous, symbols = tokens[-1:], symbols + len(tokens)
    return Bits(total, symbols)


@torch.no_grad()
def pair_bits(
    model: AnyTranslator,
    pairs: EncodedPairs,
    *,
    batch_positions: int = BATCH_POSITIONS,
    dtype: torch.dtype | None = None,
) -> Bits:
    """The bits of the targets given their sources; END is a symbol of each target."""
    if not len(pairs.source_lengths):
        return Bits(0.0, 0)
    batches = PairBatches(pairs, model.unfolding, batch_positions=batch_positions, seed=0)
    total, symbols = 0.0, 0
    for step in range(batches.steps_per_epoch):
        batch = batches.batch(step)
        assert batch.source is not None
        logits, _ = model(batch.inputs, model.start(batch.source, batch.source_lengths, dtype=dtype))
        total += sum_bits(logits.flatten(0, 1), batch.targets.flatten())
        symbols += batch.num_targets
    return Bits(total, symbols)


def sum_bits(logits: Tensor, tokens: Tensor) -> float:
    """logits (N, V), tokens (N,) -> the bits of all tokens but PAD, summed in float64"""
    return float(nats(logits, tokens).double().sum() / math.log(2))


def nats(logits: Tensor, tokens: Tensor) -> Tensor:
    """logits (N, V), tokens (N,) -> (N,), in float32 or better; 0 for PAD"""
    logits = logits if logits.dtype == torch.float64 else logits.float()
    return F.cross_entropy(logits, tokens, reduction="none", ignore_index=PAD)
