"""Corpora encoded once into memory-mapped arrays beside the run, in bounded memory.

cache/train.tokens                           a language model's text
cache/train.source, .target, .lengths        a translator's pairs, one after the other
cache/corpus.json                            what they were made from; written last: it says that the rest is whole
"""

import dataclasses
import itertools
import json
import shutil
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bytenet.data.config import DataConfig, DigitsConfig, PairsConfig, TextConfig
from bytenet.data.digits import write_digits
from bytenet.data.pairs import Pair, PairFilter
from bytenet.data.reading import read_chunks, read_text
from bytenet.data.rewriting import Rewriter
from bytenet.vocabulary import (
    Bytes,
    Characters,
    Vocabulary,
    VocabularyConfig,
    count_symbols,
    vocabulary_from_json,
)

FORMAT = 1
MANIFEST = "corpus.json"
PAIRS_AT_ONCE = 4096
Advance = Callable[[int], None]
"""Told how many more characters (or bytes) were encoded."""


@dataclass(frozen=True)
class EncodedText:
    """A text as ids: (N,), on disk until it is read or moved."""

    tokens: Tensor

    def to(self, device: torch.device) -> "EncodedText":
        return EncodedText(self.tokens.to(device))

    def head(self, symbols: int) -> "EncodedText":
        """The first so many symbols; 0 for all."""
        return EncodedText(self.tokens[:symbols]) if symbols else self

    @property
    def nbytes(self) -> int:
        return self.tokens.nbytes


@dataclass(frozen=True)
class EncodedPairs:
    """Pairs as ids, one after the other: sources (N,), targets (M,), and for each pair (P,) its two lengths."""

    source: Tensor
    target: Tensor
    source_lengths: npt.NDArray[np.int64]
    target_lengths: npt.NDArray[np.int64]

    def to(self, device: torch.device) -> "EncodedPairs":
        return EncodedPairs(self.source.to(device), self.target.to(device), self.source_lengths, self.target_lengths)

    def head(self, symbols: int) -> "EncodedPairs":
        """The first pairs, of so many symbols at the most, but at least one; 0 for all."""
        if not symbols:
            return self
        pairs = max(1, int(((self.source_lengths + self.target_lengths).cumsum() <= symbols).sum()))
        sources, targets = self.source_lengths[:pairs], self.target_lengths[:pairs]
        return EncodedPairs(self.source[: sources.sum()], self.target[: targets.sum()], sources, targets)

    @property
    def nbytes(self) -> int:
        return self.source.nbytes + self.target.nbytes


@dataclass(frozen=True)
class EncodedCorpus:
    """What a run learns from and validates on."""

    vocabularies: tuple[Vocabulary, ...]
    train: EncodedText | EncodedPairs
    validation: EncodedText | EncodedPairs
    notes: tuple[str, ...]
    """What was found and what was dropped, a line each."""

    def count_unknown(self) -> tuple[int, int]:
        """How many symbols of what is learnt from the vocabularies lack, and how many there are."""
        train = self.train
        sides = [train.tokens] if isinstance(train, EncodedText) else [train.source, train.target]
        unknown = sum(v.count_unknown(side.numpy()) for v, side in zip(self.vocabularies, sides, strict=True))
        return unknown, sum(map(len, sides))


def encode_corpus(
    config: DataConfig,
    vocabularies: Sequence[VocabularyConfig],
    folder: Path,
    advance: Advance = lambda count: None,
    *,
    given: Sequence[Vocabulary] = (),
) -> EncodedCorpus:
    """Encode the files of a config into a folder, unless that has been done; changed files are encoded again.

    By vocabularies made from them, or those `given`.
    """
    made_from = _made_from(config, vocabularies, given)
    if not _is_made_from(folder, made_from):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        match config:
            case TextConfig():
                (made,) = given or [_text_vocabulary(config.train, vocabularies[0])]
                manifest = _encode_text(config, made, folder, advance)
            case PairsConfig() | DigitsConfig():
                pairs = config if isinstance(config, PairsConfig) else _write_digits(config, folder)
                manifest = _encode_pairs(pairs, given or _pair_vocabularies(pairs, vocabularies), folder, advance)
        partial = folder / f"{MANIFEST}.partial"
        partial.write_text(json.dumps(made_from | manifest), encoding="ascii")
        partial.rename(folder / MANIFEST)
    return _open(folder)


def _made_from(
    config: DataConfig, vocabularies: Sequence[VocabularyConfig], given: Sequence[Vocabulary]
) -> dict[str, Any]:
    """Configs, files and given vocabularies; a file that is touched or grows makes a difference."""
    match config:
        case TextConfig():
            files = [Path(name) for name in config.train + config.validation]
        case PairsConfig():
            files = [*config.train_files.paths, *config.validation_files.paths]
        case DigitsConfig():
            files = []
    stats = {str(file): [file.stat().st_size, file.stat().st_mtime_ns] for file in files}
    content = {
        "format": FORMAT,
        "configs": [dataclasses.asdict(c) for c in (config, *vocabularies)],
        "given": [vocabulary.to_json() for vocabulary in given],
        "files": stats,
    }
    made_from: dict[str, Any] = json.loads(json.dumps(content))
    return made_from


def _is_made_from(folder: Path, made_from: dict[str, Any]) -> bool:
    file = folder / MANIFEST
    return file.is_file() and json.loads(file.read_text()).items() >= made_from.items()


def _open(folder: Path) -> EncodedCorpus:
    manifest = json.loads((folder / MANIFEST).read_text())
    vocabularies = tuple(vocabulary_from_json(value) for value in manifest["vocabularies"])
    train, validation = (_open_split(folder, name, vocabularies) for name in ("train", "validation"))
    return EncodedCorpus(vocabularies, train, validation, tuple(manifest["notes"]))


def _open_split(folder: Path, name: str, vocabularies: Sequence[Vocabulary]) -> EncodedText | EncodedPairs:
    if len(vocabularies) == 1:
        return EncodedText(_map(folder / f"{name}.tokens", vocabularies[0]))
    source, target = (
        _map(folder / f"{name}.{side}", vocabulary)
        for side, vocabulary in zip(("source", "target"), vocabularies, strict=True)
    )
    lengths = np.fromfile(folder / f"{name}.lengths", dtype=np.int64).reshape(-1, 2)
    return EncodedPairs(source, target, lengths[:, 0].copy(), lengths[:, 1].copy())


def _map(file: Path, vocabulary: Vocabulary) -> Tensor:
    dtype = _dtype(vocabulary)
    if file.stat().st_size == 0:  # cannot be mapped
        return torch.from_numpy(np.empty(0, dtype=dtype))
    return torch.from_numpy(np.memmap(file, dtype=dtype, mode="c"))  # "c": never written back


def _dtype(vocabulary: Vocabulary) -> npt.DTypeLike:
    """The smallest that torch can index with after a cast."""
    size = len(vocabulary)
    return np.uint8 if size <= 256 else np.int16 if size <= 32768 else np.int32


def _encode_text(config: TextConfig, made: Vocabulary, folder: Path, advance: Advance) -> dict[str, Any]:
    counts = {
        "train": _write_text(config.train, made, folder / "train.tokens", advance),
        "validation": _write_text(config.validation, made, folder / "validation.tokens", advance),
    }
    if not config.validation:
        counts["validation"] = _hold_out(folder, counts["train"], config.held_out, _dtype(made))
        counts["train"] -= counts["validation"]
    needed = config.window
    if counts["train"] < needed:
        raise ValueError(f"{config.train[0]}: {counts['train']:,} symbols to learn from, but a window has {needed:,}")
    unit = "bytes" if isinstance(made, Bytes) else "characters"
    notes = [f"{name}: {count:,} {unit}" for name, count in counts.items()]
    return {"vocabularies": [made.to_json()], "notes": notes}


def _hold_out(folder: Path, total: int, share: float, dtype: npt.DTypeLike) -> int:
    """Move the end of the training text to the validation text."""
    count = max(1, int(total * share)) if total > 1 else 0
    size = count * np.dtype(dtype).itemsize
    with (folder / "train.tokens").open("r+b") as train, (folder / "validation.tokens").open("wb") as validation:
        train.seek(-size, 2)
        start = train.tell()
        shutil.copyfileobj(train, validation)
        train.truncate(start)
    return count


def _write_text(names: Iterable[str], vocabulary: Vocabulary, file: Path, advance: Advance) -> int:
    """Encode files into one; returns how many symbols they have."""
    count, dtype = 0, _dtype(vocabulary)
    with file.open("wb") as out:
        for part in _parts(names, vocabulary):
            tokens = vocabulary.encode_array(part)  # type: ignore[arg-type]
            tokens.astype(dtype).tofile(out)
            count += len(tokens)
            advance(len(tokens))
    return count


def _parts(names: Iterable[str], vocabulary: Vocabulary | type[Vocabulary]) -> Iterator[str | bytes]:
    bytewise = isinstance(vocabulary, Bytes) or vocabulary is Bytes
    for name in names:
        yield from read_chunks(Path(name)) if bytewise else read_text(Path(name))


def _text_vocabulary(names: Sequence[str], config: VocabularyConfig) -> Vocabulary:
    kind = _kind(config)
    return kind.from_corpus(_parts(names, kind), config.symbols)  # type: ignore[arg-type]


def _kind(config: VocabularyConfig) -> type[Characters] | type[Bytes]:
    match config.kind:
        case "bytes":
            return Bytes
        case "characters":
            return Characters


def _write_digits(config: DigitsConfig, folder: Path) -> PairsConfig:
    train, validation = folder / "train.tsv", folder / "validation.tsv"
    write_digits(config, train, validation)
    return PairsConfig(train=(str(train),), validation=(str(validation),), max_length=0)


def _encode_pairs(config: PairsConfig, made: Sequence[Vocabulary], folder: Path, advance: Advance) -> dict[str, Any]:
    limits = {"max_length": config.max_length, "max_ratio": config.max_ratio}
    filters = {"train": PairFilter(**limits), "validation": PairFilter(**limits)}  # type: ignore[arg-type]
    train, validation = (PairWriter(folder, name, made, filter_, advance) for name, filter_ in filters.items())
    held_out_share = 0.0 if config.validation_files.paths else config.held_out
    with train, validation:
        for pair, rewritten in _rewritten(config):
            if held_out_share and _is_held_out(pair.source, held_out_share):
                validation.write(pair)
            else:
                train.write(rewritten)
        for pair in config.validation_files.read():
            validation.write(pair)
    if not filters["train"].kept:
        nothing_left = f"{config.train_files.paths[0]}: no pair to learn from is left"
        raise ValueError("; ".join([nothing_left, *filters["train"].report()]))
    notes = []
    for name, filter_ in filters.items():
        notes += [f"{name}: {filter_.kept:,} pairs", *(f"{name}: {line}" for line in filter_.report())]
    return {"vocabularies": [vocabulary.to_json() for vocabulary in made], "notes": notes}


def _rewritten(config: PairsConfig) -> Iterator[tuple[Pair, Pair]]:
    """The pairs to learn from, each as it is and as it is learnt; the same every time."""
    rewrite = Rewriter(typed=config.typed, capitals=config.capitals, renamed=config.renamed)
    return ((pair, rewrite(pair)) for pair in config.train_files.read())


def _pair_vocabularies(config: PairsConfig, configs: Sequence[VocabularyConfig]) -> list[Vocabulary]:
    """Of the sources and of the targets as they are learnt, counted many at a time: that is faster."""
    kinds = [_kind(config) for config in configs]
    counts = [count_symbols((), kind) for kind in kinds]
    needless = all(config.covers_all for config in configs)
    pairs = iter(()) if needless else (rewritten for _, rewritten in _rewritten(config))
    while batch := list(itertools.islice(pairs, PAIRS_AT_ONCE)):
        for total, kind, side in zip(counts, kinds, ("source", "target"), strict=True):
            total += count_symbols(["".join(getattr(pair, side) for pair in batch)], kind)
    return [kind.from_counts(total, config.symbols) for kind, total, config in zip(kinds, counts, configs, strict=True)]


def _is_held_out(source: str, share: float) -> bool:
    """By the source, so that all translations of a sentence stand on one side."""
    return zlib.crc32(source.encode("utf-8", "surrogatepass")) < share * 2**32


class PairWriter:
    """Writes the pairs that a filter keeps as three files: sources, targets, lengths; many at a time."""

    def __init__(
        self, folder: Path, name: str, vocabularies: Sequence[Vocabulary], filter_: PairFilter, advance: Advance
    ) -> None:
        self.vocabularies, self.filter, self.advance = vocabularies, filter_, advance
        self.waiting: list[Pair] = []
        self.files: list[BinaryIO] = [
            (folder / f"{name}.{part}").open("wb") for part in ("source", "target", "lengths")
        ]

    def __enter__(self) -> "PairWriter":
        return self

    def __exit__(self, kind: object, *exception: object) -> None:
        try:
            if kind is None:
                self._flush()
        finally:
            for file in self.files:
                file.close()

    def write(self, pair: Pair) -> None:
        self.waiting.append(pair)
        if len(self.waiting) == PAIRS_AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        pairs, self.waiting = self.waiting, []
        sides = [[pair.source for pair in pairs], [pair.target for pair in pairs]]
        lengths = np.array([v.lengths(side) for v, side in zip(self.vocabularies, sides, strict=True)], dtype=np.int64)
        self.advance(int(lengths.sum()))
        keeps = map(self.filter.keeps, *lengths.tolist(), [pair.place for pair in pairs])
        kept = np.fromiter(keeps, dtype=np.bool_, count=len(pairs))
        for file, vocabulary, side, own in zip(self.files, self.vocabularies, sides, lengths, strict=False):
            tokens = vocabulary.encode_array("".join(side))
            file.write(tokens[np.repeat(kept, own)].astype(_dtype(vocabulary)).tobytes())
        self.files[2].write(lengths[:, kept].T.tobytes())
