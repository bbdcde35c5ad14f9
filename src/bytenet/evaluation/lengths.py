"""Fig. 5 and Sect. 3.2: how the lengths of a pair's sentences go together, and the line that unfolding should follow.

Shapes: P pairs, S different source lengths.
"""

import heapq
import itertools
import math
from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bytenet.data.batches import pad_lengths
from bytenet.model.translator import UnfoldingConfig, UnfoldingFit

GRID = 1_000
"""Fitted a and b are multiples of 1/1,000: easily copied, and in whole numbers "greater than" is exact."""

PAPER_LINE, PAPER_PADDED = UnfoldingConfig(a=1.2, b=0.0, multiple=1), UnfoldingConfig(a=1.2, b=0.0, multiple=50)
"""English to German: Sect. 3.2 on the source as it is, and on the padded one of Sect. 6, as our models do it."""


@dataclass(frozen=True)
class Lengths:
    """Of the sentences of each pair, in symbols and without END."""

    source: npt.NDArray[np.int64]
    """(P,)"""
    target: npt.NDArray[np.int64]
    """(P,)"""

    def correlation(self) -> float | None:
        """Pearson's coefficient; None where all sources, or all targets, have one length."""
        source, target = self.source - self.source.mean(), self.target - self.target.mean()
        spread = math.sqrt(source @ source) * math.sqrt(target @ target)
        return max(-1.0, min(1.0, float(source @ target) / spread)) if spread else None

    def coverage(self, unfolding: UnfoldingConfig) -> float:
        """The share of targets that are shorter than the representation, which then has a position for END too."""
        return float((self._unfolded(unfolding) > self.target).mean())

    def mean_positions(self, unfolding: UnfoldingConfig) -> float:
        """How long representations are on average."""
        return float(self._unfolded(unfolding).mean())

    def _unfolded(self, unfolding: UnfoldingConfig) -> npt.NDArray[np.int64]:
        different, places = np.unique(self.source, return_inverse=True)
        return np.array([unfolding.unfolded_length(int(length)) for length in different])[places]


def fit_unfolding(lengths: Lengths, asked: UnfoldingFit) -> UnfoldingConfig:
    """Of all a and b that cover the asked share of targets, those with the shortest representation on average.

    They are the best of the whole grid, not only better than their neighbours. Of equally good ones, b is the least.
    """
    assert len(lengths.source), "no pairs to fit a line to"
    assert lengths.source.min() > 0, "an empty source has no line"
    source = pad_lengths(lengths.source, asked.multiple)
    pairs = len(source)
    enough = next(number for number in itertools.count(int(asked.coverage * pairs)) if number / pairs >= asked.coverage)
    line = CoveringLines(source, lengths.target, enough).shortest()
    return UnfoldingConfig(a=line.a / GRID, b=line.b / GRID, multiple=asked.multiple)


class Line(NamedTuple):
    """In steps of the grid. The least b that covers enough may be negative."""

    a: int
    b: int


class CoveringLines:
    """The lines a · source + b that are greater than enough targets, with the least b that each a allows.

    The average length is neither convex nor smooth in a, so ranges of a are halved, the most promising one first
    (branch and bound). Each step of a lowers b by the length of a source whose target the line is about to touch: the
    shortest and the longest of these say how good the lines of a range can be at the most.
    """

    def __init__(
        self, source: npt.NDArray[np.int64], target: npt.NDArray[np.int64], enough: int, *, grid: int = GRID
    ) -> None:
        self.grid, self.enough, self.pairs, self.sum_of_sources = grid, enough, len(source), int(source.sum())
        self.width = int(target.max()) + 1
        self.ranks = np.sort(source * self.width + target)  # (P,): by source, then by target
        self.sources, self.starts = np.unique(self.ranks // self.width, return_index=True)  # (S,), (S,)
        self.most_a = int((grid * target // source).max()) + 1  # covers everything with b = 0

    def covered(self, a: int, b: int) -> int:
        """How many targets a line is greater than."""
        return int((self._ends(a, b) - self.starts).sum())

    def _ends(self, a: int, b: int) -> npt.NDArray[np.intp]:
        """Where, among the targets of each source length (S,), those begin that a line is not greater than."""
        longest = np.clip((a * self.sources + b - 1) // self.grid, -1, self.width - 1)
        ends: npt.NDArray[np.intp] = np.searchsorted(self.ranks, self.sources * self.width + longest, side="right")
        return ends

    def shortest(self) -> Line:
        """The line with the least average, and b at least 0."""
        steepest = 1 + bisect_left(range(1, self.most_a), self.enough, key=lambda a: self.covered(a, 0))
        span = self._line(1, highest=self.grid * self.width), self._line(steepest, highest=0)
        best = min(span, key=self._cost)
        spans = [(self._bound(*span), *span)]
        while spans:
            bound, low, high = heapq.heappop(spans)
            if high.a - low.a < 2 or (math.ceil(bound), 1 - high.a) >= self._cost(best):
                continue
            middle = self._line((low.a + high.a) // 2, lowest=high.b, highest=low.b)
            best = min(best, middle, key=self._cost)
            for span in ((low, middle), (middle, high)):
                heapq.heappush(spans, (self._bound(*span), *span))
        return Line(best.a, max(0, best.b))

    def _line(self, a: int, *, lowest: int | None = None, highest: int) -> Line:
        """The least b from `lowest` on; `highest` is known to cover enough."""
        first = -a * int(self.sources[-1]) if lowest is None else lowest
        return Line(a, first + bisect_left(range(first, highest), self.enough, key=lambda b: self.covered(a, b)))

    def _cost(self, line: Line) -> tuple[int, int]:
        """The sum of all lengths; of equal ones, the steeper line is better."""
        return line.a * self.sum_of_sources + max(0, line.b) * self.pairs, -line.a

    def _bound(self, low: Line, high: Line) -> Fraction:
        """What the lines between two others cost at the least: a convex function's lowest corner.

        From `low` on, b falls at most as fast as the longest source says, and up to `high` at least as the shortest.
        """
        touched = self.sources[self._ends(high.a, low.b) > self._ends(low.a, high.b - 1)]
        slow, fast, width, zero = int(touched[0]), int(touched[-1]), high.a - low.a, Fraction(0)
        corners = [zero, zero + width, Fraction(low.b, fast), Fraction(high.b, slow) + width]
        if fast > slow:
            corners.append(Fraction(low.b - high.b - slow * width, fast - slow))
        return min(
            (low.a + steps) * self.sum_of_sources
            + max(zero, low.b - fast * steps, high.b + slow * (width - steps)) * self.pairs
            for steps in corners
            if 0 <= steps <= width
        )
