"""Batches: what a step learns from is a pure function of (seed, step), so resuming needs only the step.

Shapes: B rows, T target positions, S source positions, N tokens of a text.

A step's batch is divided among ranks and, within a rank, among accumulated parts; together they see the same rows
however many they are.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from bytenet.data.encoding import EncodedPairs, EncodedText
from bytenet.model.translator import UnfoldingConfig
from bytenet.vocabulary import BEGIN, END, PAD

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Batch:
    """What one call of a model learns from; PAD in `targets` is where there is nothing to learn."""

    inputs: Tensor
    """(B, T): BEGIN and the targets, shifted by one."""
    targets: Tensor
    """(B, T)"""
    num_targets: int
    """How many targets the whole step learns from, over all parts."""
    num_characters: int
    """How many characters of text this part holds, without padding."""
    source: Tensor | None = None
    """(B, S), for translators."""
    source_lengths: tuple[int, ...] = ()
    """(B,)"""

    def to(self, device: torch.device) -> "Batch":
        source = None if self.source is None else to_device(self.source, device)
        return replace(
            self, inputs=to_device(self.inputs, device), targets=to_device(self.targets, device), source=source
        )


class TextBatches:
    """Windows at random places of a text (Sect. 5): the first `context` characters are read but not learnt from."""

    def __init__(self, text: EncodedText, *, window: int, context: int, rows: int, seed: int) -> None:
        self.tokens, self.window, self.context, self.rows, self.seed = text.tokens, window, context, rows, seed

    def batch(self, step: int, part: int = 0, num_parts: int = 1) -> Batch:
        generator = np.random.Generator(np.random.Philox(key=[self.seed, step]))
        starts = generator.integers(0, len(self.tokens) - self.window + 1, self.rows)[part::num_parts]
        windows = gather(self.tokens, starts, [self.window] * len(starts), self.window)
        targets = windows.clone()
        targets[:, : self.context] = PAD
        return Batch(
            inputs=F.pad(windows[:, :-1], (1, 0), value=BEGIN),
            targets=targets,
            num_targets=self.rows * (self.window - self.context),
            num_characters=windows.numel(),
        )


class PairBatches:
    """Pairs in buckets by their padded lengths (Sect. 6), batches by a budget of positions, source and target together.

    Each epoch passes over every pair once, in another order. What is left over in a bucket is put together with what is
    left of others whose sources are as long, so that all sources of a batch unfold to one length.
    """

    def __init__(self, pairs: EncodedPairs, unfolding: UnfoldingConfig, *, batch_positions: int, seed: int) -> None:
        self.pairs, self.unfolding, self.batch_positions, self.seed = pairs, unfolding, batch_positions, seed
        self.source_starts = starts_of(pairs.source_lengths)
        self.target_starts = starts_of(pairs.target_lengths)
        self.padded_sources = pad_lengths(pairs.source_lengths, unfolding.multiple)
        self.padded_targets = pad_lengths(pairs.target_lengths + 1, unfolding.multiple)  # END is a target too
        self.order = lru_cache(maxsize=2)(self._order)
        self.steps_per_epoch = len(self.order(0))

    def batch(self, step: int, part: int = 0, num_parts: int = 1) -> Batch:
        epoch, number = divmod(step, self.steps_per_epoch)
        rows = self.order(epoch)[number]
        num_targets = int((self.pairs.target_lengths[rows] + 1).sum())
        mine = rows[part::num_parts]
        if len(mine) == 0:  # fewer rows than parts: read one, learn nothing
            return self._batch(rows[:1], num_targets, learn=False)
        return self._batch(mine, num_targets)

    def share_of_padding(self) -> float:
        """Of all positions, encoder's and decoder's, how many hold no character."""
        lengths, counts = np.unique(self.padded_sources, return_counts=True)
        sources = sum(self.unfolding.read_length(int(n)) * int(count) for n, count in zip(lengths, counts, strict=True))
        targets = sum(int(self.padded_targets[rows].max()) * len(rows) for rows in self.order(0))
        characters = int(self.pairs.source_lengths.sum() + self.pairs.target_lengths.sum())
        return 1 - characters / (sources + targets)

    def _batch(self, rows: Indices, num_targets: int, *, learn: bool = True) -> Batch:
        source_lengths, target_lengths = self.pairs.source_lengths[rows], self.pairs.target_lengths[rows]
        longest = int(self.padded_targets[rows].max())
        text = gather(self.pairs.target, self.target_starts[rows], target_lengths, longest)
        ends = torch.from_numpy(target_lengths[:, None])
        targets = text.scatter(1, to_device(ends, text.device), END) if learn else torch.full_like(text, PAD)
        return Batch(
            inputs=F.pad(text[:, :-1], (1, 0), value=BEGIN),
            targets=targets,
            num_targets=num_targets,
            num_characters=int(source_lengths.sum() + target_lengths.sum()) if learn else 0,
            source=gather(self.pairs.source, self.source_starts[rows], source_lengths, int(source_lengths.max())),
            source_lengths=tuple(source_lengths.tolist()),
        )

    def _order(self, epoch: int) -> list[Indices]:
        """The rows of each step of an epoch; how many steps there are does not depend on the epoch."""
        generator = np.random.Generator(np.random.Philox(key=[self.seed, epoch]))
        shuffled = generator.permutation(len(self.pairs.source_lengths))
        buckets = self._buckets(shuffled)
        steps: list[Indices] = []
        for source_length, same_source in itertools.groupby(buckets, key=lambda bucket: bucket[0]):
            steps += self._steps_of(source_length, [(target_length, rows) for _, target_length, rows in same_source])
        return [steps[i] for i in generator.permutation(len(steps))]

    def _buckets(self, rows: Indices) -> list[tuple[int, int, Indices]]:
        """Padded source length, padded target length and the rows that have both, in the order in which they come."""
        sources, targets = self.padded_sources[rows], self.padded_targets[rows]
        order = np.lexsort((targets, sources))  # by source, then target; stable
        sources, targets, rows = sources[order], targets[order], rows[order]
        starts = np.flatnonzero(np.diff(sources, prepend=-1) | np.diff(targets, prepend=-1))
        parts = np.split(rows, starts[1:]) if len(rows) else []
        return [(int(sources[i]), int(targets[i]), part) for i, part in zip(starts, parts, strict=True)]

    def _steps_of(self, source_length: int, buckets: list[tuple[int, Indices]]) -> list[Indices]:
        """Full batches of each target length, then the rest, longest last, in batches as full as the budget allows."""
        steps, rest = [], []
        for target_length, bucket in buckets:
            size = self._rows_within_budget(source_length, target_length)
            full = len(bucket) // size * size
            steps += [bucket[i : i + size] for i in range(0, full, size)]
            rest += bucket[full:].tolist()
        while rest:  # sorted by target length: the last row of a batch is its longest
            end = len(rest)
            while end > 1 and end > self._rows_within_budget(source_length, int(self.padded_targets[rest[end - 1]])):
                end -= 1
            steps.append(np.array(rest[:end], dtype=np.int64))
            rest = rest[end:]
        return steps

    def _rows_within_budget(self, source_length: int, target_length: int) -> int:
        positions = self.unfolding.read_length(source_length) + target_length
        return max(1, self.batch_positions // positions)


def starts_of(lengths: Indices) -> Indices:
    return np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64) if len(lengths) else lengths


def pad_lengths(lengths: Indices, multiple: int) -> Indices:
    """To the next multiple; at least one."""
    padded: Indices = np.maximum(1, -(-lengths // multiple)) * multiple
    return padded


def gather(tokens: Tensor, starts: Indices, lengths: Sequence[int] | Indices, width: int) -> Tensor:
    """tokens (N,) -> (B, width): of each row so many tokens from its start on, then PAD; made where the tokens are."""
    places = torch.from_numpy(np.stack([starts, np.asarray(lengths, dtype=np.int64)]))
    starts_there, lengths_there = to_device(places, tokens.device)[..., None]  # (B, 1) each
    offsets = torch.arange(width, device=tokens.device)
    inside = offsets < lengths_there
    if not len(tokens):  # all rows are empty: there is nothing that an index could point to
        return torch.full(inside.shape, PAD, device=tokens.device)
    index = torch.where(inside, starts_there + offsets, 0)
    return torch.where(inside, tokens[index].long(), PAD)


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Without waiting for the GPU."""
    if device.type == "cuda" and not tensor.is_cuda:
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)
