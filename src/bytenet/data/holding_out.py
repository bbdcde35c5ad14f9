"""Pairs kept apart for testing before anything is trained on the others."""

import hashlib
import heapq
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from bytenet.data.pairs import Pair, read_tsv


@dataclass(frozen=True)
class HeldOut:
    """What became of a file's pairs."""

    train: int
    test: int
    dropped: int
    """Pairs with an empty side, and further translations of the sources held out."""


def hold_out(file: Path, folder: Path, number: int, *, seed: int = 0) -> HeldOut:
    """Divide a TSV file into train.tsv and test.tsv with so many pairs, of different sources.

    Sources that differ in nothing but case, spaces and punctuation are the same: none of those held out is left to
    train on. Which ones are held out depends on them and the seed alone, not on their order.
    """
    if number < 1:
        raise ValueError(f"{number} pairs cannot be held out")
    for part in (folder / "train.tsv", folder / "test.tsv"):
        if part.exists():
            raise ValueError(f"{part}: exists; it is left as it is")
    sources = set(map(_same_as, filter(_has_both_sides, read_tsv(file))))
    if len(sources) <= number:
        raise ValueError(f"{file}: {number:,} of {len(sources):,} different sources cannot be held out")
    chosen = set(heapq.nsmallest(number, sources, key=lambda source: _shuffled(source, seed)))
    folder.mkdir(parents=True, exist_ok=True)
    to_come, kept, dropped = set(chosen), 0, 0
    with _create(folder / "train.tsv") as train, _create(folder / "test.tsv") as test:
        for pair in read_tsv(file):
            source = _same_as(pair)
            if not _has_both_sides(pair):
                dropped += 1
            elif source not in chosen:
                kept += 1
                train.write(f"{pair.source}\t{pair.target}\n")
            elif source in to_come:
                to_come.remove(source)
                test.write(f"{pair.source}\t{pair.target}\n")
            else:
                dropped += 1
    return HeldOut(train=kept, test=number, dropped=dropped)


def _has_both_sides(pair: Pair) -> bool:
    return bool(pair.source.strip() and pair.target.strip())


def _same_as(pair: Pair) -> str:
    """What sources have in common that count as the same."""
    return "".join(character for character in pair.source.casefold() if character.isalnum()) or pair.source


def _shuffled(source: str, seed: int) -> bytes:
    return hashlib.sha256(f"{seed} {source}".encode()).digest()


def _create(file: Path) -> TextIO:
    return file.open("x", encoding="utf-8", newline="\n")
