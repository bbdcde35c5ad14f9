"""Sentence pairs: from TSV files or from two aligned files, with limits on lengths."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bytenet.data.reading import read_lines


@dataclass(frozen=True, kw_only=True)
class PairFiles:
    """Where pairs stand: TSV files, and aligned files of sources and of targets."""

    tsv: tuple[str, ...] = ()
    source: tuple[str, ...] = ()
    target: tuple[str, ...] = ()

    @property
    def paths(self) -> tuple[Path, ...]:
        return tuple(Path(name) for name in (*self.tsv, *self.source, *self.target))

    def read(self) -> Iterator["Pair"]:
        """Every pair, in order."""
        for name in self.tsv:
            yield from read_tsv(Path(name))
        for source, target in zip(self.source, self.target, strict=True):
            yield from read_aligned(Path(source), Path(target))


@dataclass(frozen=True)
class Pair:
    source: str
    target: str
    place: str
    """File and line, for messages."""


def read_tsv(file: Path) -> Iterator[Pair]:
    """Source, tab, target; further columns are not read."""
    for number, line in enumerate(read_lines(file), start=1):
        columns = line.split("\t")
        if len(columns) < 2 and line:
            raise ValueError(f"{file}, line {number}: no tab between a source and a target")
        source, target = (*columns, "")[:2]
        yield Pair(source, target, f"{file}, line {number}")


def read_aligned(source: Path, target: Path) -> Iterator[Pair]:
    """Two files, a pair a line."""
    for number, (left, right) in enumerate(itertools.zip_longest(read_lines(source), read_lines(target)), start=1):
        if left is None or right is None:
            shorter, longer = (source, target) if left is None else (target, source)
            raise ValueError(f"{shorter}: ends after line {number - 1}, but {longer} has more lines: not aligned")
        yield Pair(left, right, f"{source}, line {number}")


@dataclass(kw_only=True)
class PairFilter:
    """Which pairs are kept; counts the others and remembers where the first of each kind stands."""

    max_length: int
    """In symbols of the vocabulary, on either side; 0 for no limit."""
    max_ratio: float
    """Of the longer to the shorter side; 0 for no limit."""
    kept: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    first: dict[str, str] = field(default_factory=dict)

    def keeps(self, source: int, target: int, place: str) -> bool:
        """Whether a pair of encoded sentences of such lengths is kept."""
        reason = self._reason(source, target)
        if reason is None:
            self.kept += 1
            return True
        self.dropped[reason] = self.dropped.get(reason, 0) + 1
        self.first.setdefault(reason, place)
        return False

    def _reason(self, source: int, target: int) -> str | None:
        if min(source, target) == 0:
            return "an empty side"
        if self.max_length and max(source, target) > self.max_length:
            return f"longer than {self.max_length}"
        if self.max_ratio and max(source, target) > self.max_ratio * min(source, target):
            return f"lengths further apart than 1 to {self.max_ratio:g}"
        return None

    def report(self) -> list[str]:
        """A line a reason."""
        total = self.kept + sum(self.dropped.values())
        return [
            f"dropped {count:,} of {total:,} pairs: {reason} (first: {self.first[reason]})"
            for reason, count in self.dropped.items()
        ]
