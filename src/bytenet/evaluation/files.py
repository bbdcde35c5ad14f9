"""Numbers about a user's files, each with its signature: what, data, context, parameters, version."""

import codecs
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from bytenet import __version__
from bytenet.data.encoding import EncodedPairs
from bytenet.data.pairs import Pair, PairFilter, read_tsv
from bytenet.data.reading import read_chunks, read_text
from bytenet.decoding.beam_search import BeamConfig
from bytenet.decoding.engine import choose_engine
from bytenet.decoding.translation import search_all
from bytenet.describe import count_parameters
from bytenet.evaluation.bits import Bits, best_chunk, pair_bits, text_bits
from bytenet.evaluation.context import context_bits
from bytenet.evaluation.dynamic import DynamicConfig, dynamic_bits
from bytenet.evaluation.lengths import PAPER_LINE, PAPER_PADDED, Lengths
from bytenet.model import AnyTranslator, LanguageModel, Model
from bytenet.model.translator import UnfoldingConfig, UnfoldingFit
from bytenet.vocabulary import Bytes, Vocabulary

Unit = Literal["characters", "bytes"]
PAIRS_AT_ONCE = 20_000


@dataclass
class Counts:
    """Of the text that was read."""

    bytes: int = 0
    characters: int = 0
    unknown: int = 0


def file_bits(
    model: Model,
    vocabularies: Sequence[Vocabulary],
    file: Path,
    *,
    chunk: int | None = None,
    dtype: torch.dtype | None = None,
    dynamic: DynamicConfig | None = None,
) -> dict[str, Any]:
    """Bits a byte and a character of a text, or of the targets of a TSV file given their sources.

    How much of a text is read at once, `chunk`, changes nothing but time and memory. With `dynamic`, the model goes on
    learning from the text, each part of it after it was scored.
    """
    counts = Counts()
    chunk = chunk or best_chunk(model)
    learning = None
    if dynamic is not None:
        if not isinstance(model, LanguageModel):
            raise ValueError("dynamic evaluation is for language models, and this is a translator")
        learning = f"rate {dynamic.rate:g}, segments of {dynamic.segment}, decay {dynamic.decay:g}"
        bits = dynamic_bits(model, encoded_parts(file, vocabularies[0], chunk, counts), dynamic, dtype=dtype)
    elif isinstance(model, LanguageModel):
        bits = text_bits(model, encoded_parts(file, vocabularies[0], chunk, counts), dtype=dtype)
    else:
        bits = pairs_file_bits(model, vocabularies, file, counts, dtype)
    if not bits.symbols:
        raise ValueError(f"{file}: empty")
    context = "full" if isinstance(model, LanguageModel) else "source and target, END counted"
    return {
        "bits_per_byte": bits.total / counts.bytes,
        "bits_per_character": bits.total / counts.characters,
        "bits": bits.total,
        "bytes": counts.bytes,
        "characters": counts.characters,
        "unknown": counts.unknown,
        "signature": signature(
            "bits", model, file, context=context, dynamic=learning, unknown=counts.unknown, precision=dtype
        ),
    }


def file_context(
    model: Model,
    vocabularies: Sequence[Vocabulary],
    file: Path,
    contexts: Sequence[int],
    *,
    dtype: torch.dtype | None = None,
) -> dict[str, Any]:
    """Bits a symbol from so many symbols of context alone, over a sample of a text."""
    if not isinstance(model, LanguageModel):
        raise ValueError("contexts are for language models, and this is a translator")
    text = torch.cat(
        [torch.empty(0, dtype=torch.int32), *encoded_parts(file, vocabularies[0], best_chunk(model), Counts())]
    )
    found = {context: context_bits(model, text, context, dtype=dtype) for context in contexts}
    symbols = next(iter(found.values())).symbols
    return {
        "bits_per_symbol": {str(context): bits.per_symbol for context, bits in found.items()},
        "signature": signature("bits by context", model, file, positions=symbols, precision=dtype),
    }


def signature(what: str, model: Model | None, file: Path, **details: object) -> str:
    """What makes a number comparable; without a model, it is one of the file alone."""
    parameters = None if model is None else count_parameters(model)
    facts = {"data": file.name, **details, "parameters": parameters, "bytenet": __version__}
    known = {name: str(fact).removeprefix("torch.") for name, fact in facts.items() if fact is not None}
    return "|".join([what, *(f"{name}:{fact}" for name, fact in known.items())])


def encoded_parts(file: Path, vocabulary: Vocabulary, chunk: int, counts: Counts) -> Iterator[Tensor]:
    """The ids of a file in parts; counts what passes. What is not UTF-8 counts as the U+FFFD that stands for it."""
    if isinstance(vocabulary, Bytes):
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        for data in read_chunks(file, chunk):
            counts.bytes += len(data)
            counts.characters += len(decoder.decode(data))
            yield _counted(vocabulary.encode_array(data), vocabulary, counts)
        counts.characters += len(decoder.decode(b"", final=True))
    else:
        for text in read_text(file, chunk):
            counts.bytes += len(text.encode("utf-8"))
            counts.characters += len(text)
            yield _counted(vocabulary.encode_array(text), vocabulary, counts)


def _counted(tokens: np.ndarray[Any, np.dtype[np.int32]], vocabulary: Vocabulary, counts: Counts) -> Tensor:
    counts.unknown += vocabulary.count_unknown(tokens)
    return torch.from_numpy(tokens)


def pairs_file_bits(
    model: AnyTranslator, vocabularies: Sequence[Vocabulary], file: Path, counts: Counts, dtype: torch.dtype | None
) -> Bits:
    total = Bits(0.0, 0)
    device = next(model.parameters()).device
    for pairs in encoded_pairs(file, vocabularies):
        for pair in pairs.texts:
            counts.bytes += len(pair.target.encode("utf-8")) + 1
            counts.characters += len(pair.target) + 1
        _counted(pairs.encoded.target.numpy(), vocabularies[1], counts)
        bits = pair_bits(model, pairs.encoded.to(device), dtype=dtype)
        total = Bits(total.total + bits.total, total.symbols + bits.symbols)
    return total


@dataclass(frozen=True)
class PairsPart:
    texts: list[Pair]
    encoded: EncodedPairs


def encoded_pairs(file: Path, vocabularies: Sequence[Vocabulary]) -> Iterator[PairsPart]:
    """The pairs of a TSV file, so many at once."""
    pairs = read_tsv(file)
    while part := list(islice(pairs, PAIRS_AT_ONCE)):
        sources = [vocabularies[0].encode_array(pair.source) for pair in part]
        targets = [vocabularies[1].encode_array(pair.target) for pair in part]
        lengths = [np.array([len(ids) for ids in side], dtype=np.int64) for side in (sources, targets)]
        ids = [torch.from_numpy(np.concatenate(side)) for side in (sources, targets)]
        yield PairsPart(part, EncodedPairs(ids[0], ids[1], lengths[0], lengths[1]))


def file_exact(model: AnyTranslator, vocabularies: Sequence[Vocabulary], file: Path) -> dict[str, Any]:
    """The share of targets that greedy decoding writes to the letter."""
    right = total = 0
    engine, greedy = choose_engine(model), BeamConfig(beam=1)
    for part in encoded_pairs(file, vocabularies):
        sources = np.split(part.encoded.source.numpy(), np.cumsum(part.encoded.source_lengths)[:-1])
        wanted = np.split(part.encoded.target.numpy(), np.cumsum(part.encoded.target_lengths)[:-1])
        limits = [len(target) + 1 for target in wanted]  # what has not ended by then is wrong in any case
        for number, (best, *_) in search_all(model, engine, sources, limits, greedy):
            right += best.ended and best.tokens == wanted[number].tolist()
        total += len(wanted)
    if not total:
        raise ValueError(f"{file}: empty")
    return {"exact": right / total, "pairs": total, "signature": signature("exact", model, file, decoding="greedy")}


def read_lengths(
    file: Path, *, unit: Unit = "characters", watch: Callable[[int], None] = lambda pairs: None
) -> tuple[Lengths, list[str]]:
    """The lengths of a TSV file's pairs, and a line about those without a source or a target, which are left out."""
    found, filter_ = array("q"), PairFilter(max_length=0, max_ratio=0)
    for number, pair in enumerate(read_tsv(file), start=1):
        source, target = (text.encode() if unit == "bytes" else text for text in (pair.source, pair.target))
        if filter_.keeps(len(source), len(target), pair.place):
            found.extend((len(source), len(target)))
        if number % PAIRS_AT_ONCE == 0:
            watch(number)
    if not found:
        raise ValueError("; ".join([f"{file}: {'no pair is left' if filter_.dropped else 'empty'}", *filter_.report()]))
    source_lengths, target_lengths = np.array(found, dtype=np.int64).reshape(-1, 2).T.copy()
    return Lengths(source_lengths, target_lengths), filter_.report()


def file_lengths(
    file: Path, lengths: Lengths, asked: UnfoldingFit, fitted: UnfoldingConfig, *, unit: Unit
) -> dict[str, Any]:
    """How the lengths of a file's pairs go together, and what share of the targets unfolding covers.

    "paper" is the line 1.2 · source, "paper_padded" the same line on sources padded to multiples of 50, as in Sect. 6.
    """
    result = {
        "pairs": len(lengths.source),
        "mean_source": float(lengths.source.mean()),
        "mean_target": float(lengths.target.mean()),
        "correlation": lengths.correlation(),
        "a": fitted.a,
        "b": fitted.b,
        "multiple": fitted.multiple,
    }
    for name, unfolding in (("", fitted), ("paper_", PAPER_LINE), ("paper_padded_", PAPER_PADDED)):
        result[f"{name}coverage"] = lengths.coverage(unfolding)
        result[f"{name}mean_positions"] = lengths.mean_positions(unfolding)
    facts = {"unit": unit, "coverage": asked.coverage, "multiple": asked.multiple}
    return result | {"signature": signature("lengths", None, file, **facts)}
