"""Pairs made by the package: strings of digits and what becomes of them."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import numpy as np

from bytenet.data.config import DigitsConfig


def write_digits(config: DigitsConfig, train: Path, validation: Path, *, seed: int = 0) -> None:
    """Two TSV files of pairs; no string stands in both, nor twice in one."""
    pairs = distinct_pairs(config, seed)
    for file, number in ((validation, config.validation_pairs), (train, config.pairs)):
        with file.open("w", encoding="ascii") as opened:
            opened.writelines(f"{source}\t{target}\n" for source, target in itertools.islice(pairs, number))


def distinct_pairs(config: DigitsConfig, seed: int) -> Iterator[tuple[str, str]]:
    """Endless, until nearly all strings of these lengths are used up; every length is as frequent as any other."""
    generator = np.random.default_rng(seed)
    seen: set[str] = set()
    misses = 0
    while misses < 1000:
        length = generator.integers(1, config.max_length + 1)
        source = "".join(map(str, generator.integers(0, 10, length)))
        if source in seen:
            misses += 1
            continue
        misses = 0
        seen.add(source)
        yield source, transformed(source, config.task)


def transformed(source: str, task: Literal["copy", "reverse"]) -> str:
    """What is to be written."""
    return source if task == "copy" else source[::-1]
