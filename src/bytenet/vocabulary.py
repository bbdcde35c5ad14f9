"""Text to ids and back: characters, as in the paper, or bytes, which cover everything.

The first ids are the same in every vocabulary: PAD fills a sentence up, BEGIN is what a decoder reads before the first
symbol, END is what it writes after the last. Where a vocabulary cannot hold every symbol, UNKNOWN follows; it is never
PAD, because the network must be able to tell a strange character from no character.
"""

import codecs
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

PAD, BEGIN, END, UNKNOWN = 0, 1, 2, 3
NUM_CONTROLS = 3  # PAD, BEGIN, END
NUM_CODE_POINTS = 0x110000
NUM_BYTES = 256
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

Counts = npt.NDArray[np.int64]
"""How often each byte or code point occurs."""


@dataclass(frozen=True, kw_only=True)
class VocabularyConfig:
    """Which symbols a model reads and writes."""

    kind: Literal["characters", "bytes"] = "bytes"
    """Characters (Unicode code points), as the paper's translator, or bytes, as its language model."""
    symbols: int = NUM_BYTES
    """How many of the most frequent symbols of the corpus to keep; 256 bytes cover every text."""

    def __post_init__(self) -> None:
        if self.symbols < 1:
            raise ValueError(f"symbols must be at least 1, not {self.symbols}")
        if self.kind == "bytes" and self.symbols > NUM_BYTES:
            raise ValueError(f"symbols must be at most 256 for bytes, not {self.symbols}")

    @property
    def size(self) -> int:
        """The number of ids, with the control symbols: what embedding and softmax are built for."""
        return self.symbols + NUM_CONTROLS + (not self.covers_all)

    @property
    def covers_all(self) -> bool:
        """Whether it has every text's symbols, whatever corpus it is made for."""
        return self.kind == "bytes" and self.symbols == NUM_BYTES


class Characters:
    """The N most frequent characters of a corpus (Sect. 6 keeps 296 English and 323 German ones)."""

    kind = "characters"

    def __init__(self, symbols: Iterable[str]) -> None:
        self.symbols = tuple(symbols)
        if any(not isinstance(symbol, str) or len(symbol) != 1 for symbol in self.symbols):
            raise ValueError("each symbol of a character vocabulary must be one character")
        if len(set(self.symbols)) != len(self.symbols):
            raise ValueError("a character stands twice in the vocabulary")
        self._ids = np.full(NUM_CODE_POINTS, UNKNOWN, dtype=np.int32)
        self._ids[[ord(symbol) for symbol in self.symbols]] = np.arange(UNKNOWN + 1, len(self))

    @classmethod
    def from_corpus(cls, texts: Iterable[str], symbols: int) -> Self:
        """Keep the most frequent characters; equally frequent ones in the order of their code points."""
        return cls.from_counts(count_symbols(texts, cls), symbols)

    @classmethod
    def from_counts(cls, counts: Counts, symbols: int) -> Self:
        """The same from how often each code point occurs."""
        return cls(map(chr, _most_frequent(counts, symbols)))

    @staticmethod
    def count(text: str) -> Counts:
        """How often each code point occurs in a text, up to its last one."""
        return np.bincount(_code_points(text))

    def __len__(self) -> int:
        return UNKNOWN + 1 + len(self.symbols)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Characters) and self.symbols == other.symbols

    def __hash__(self) -> int:
        return hash(self.symbols)

    def encode_array(self, text: str) -> npt.NDArray[np.int32]:
        """The ids of a text, one a character, without BEGIN or END."""
        return np.take(self._ids, _code_points(text))

    @staticmethod
    def lengths(texts: Iterable[str]) -> list[int]:
        """How many ids each text has."""
        return list(map(len, texts))

    def encode(self, text: str) -> list[int]:
        """The ids of a text, one a character, without BEGIN or END."""
        ids: list[int] = self.encode_array(text).tolist()
        return ids

    def separators(self) -> tuple[int, ...]:
        """The ids of characters that no word is made of; an unknown one may well be a letter."""
        kinds = (unicodedata.category(symbol)[0] for symbol in self.symbols)
        return tuple(i for i, kind in enumerate(kinds, UNKNOWN + 1) if kind not in "LMN")  # letters, marks, numbers

    def count_unknown(self, ids: npt.NDArray[np.int32]) -> int:
        """How many of these ids stand for characters that the vocabulary lacks."""
        return int((ids == UNKNOWN).sum())

    def decode(self, ids: Iterable[int]) -> str:
        """The text of some ids: control symbols are left out, unknown ones come back as U+FFFD."""
        first = UNKNOWN + 1
        ids = _checked(ids, len(self))
        return "".join(REPLACEMENT if i == UNKNOWN else self.symbols[i - first] for i in ids if i >= UNKNOWN)

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "symbols": list(self.symbols)}


class Bytes:
    """Bytes: all 256, an open vocabulary with no unknown symbol, or the N most frequent ones of a corpus.

    Any Python string survives text → ids → text, lone surrogates too; any byte string survives bytes → ids → bytes,
    invalid UTF-8 too. Keeping fewer than 256 is there for the paper's enwik8 model, which has the 205 that occur.
    """

    kind = "bytes"

    def __init__(self, symbols: Iterable[int] = range(NUM_BYTES)) -> None:
        self.symbols = tuple(symbols)
        if any(not isinstance(symbol, int) or not 0 <= symbol < NUM_BYTES for symbol in self.symbols):
            raise ValueError("each symbol of a byte vocabulary must be a number from 0 to 255")
        if len(set(self.symbols)) != len(self.symbols):
            raise ValueError("a byte stands twice in the vocabulary")
        self._first = NUM_CONTROLS if len(self.symbols) == NUM_BYTES else UNKNOWN + 1
        self._ids = np.full(NUM_BYTES, UNKNOWN, dtype=np.int32)
        self._ids[list(self.symbols)] = np.arange(self._first, len(self))

    @classmethod
    def from_corpus(cls, texts: Iterable[str | bytes], symbols: int = NUM_BYTES) -> Self:
        """Keep the most frequent bytes; with 256 the corpus does not matter and is not read."""
        return cls() if symbols == NUM_BYTES else cls.from_counts(count_symbols(texts, cls), symbols)

    @classmethod
    def from_counts(cls, counts: Counts, symbols: int) -> Self:
        """The same from how often each byte occurs."""
        return cls() if symbols == NUM_BYTES else cls(_most_frequent(counts, symbols))

    @staticmethod
    def count(text: str | bytes) -> Counts:
        """How often each byte occurs in a text, up to its last one."""
        return np.bincount(np.frombuffer(_to_bytes(text), dtype=np.uint8))

    def __len__(self) -> int:
        return self._first + len(self.symbols)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bytes) and self.symbols == other.symbols

    def __hash__(self) -> int:
        return hash(self.symbols)

    def encode_array(self, text: str | bytes) -> npt.NDArray[np.int32]:
        """The ids of a text, one a byte, without BEGIN or END."""
        return np.take(self._ids, np.frombuffer(_to_bytes(text), dtype=np.uint8))

    @staticmethod
    def lengths(texts: Iterable[str]) -> list[int]:
        """How many ids each text has."""
        return [len(text) if text.isascii() else len(_to_bytes(text)) for text in texts]

    def encode(self, text: str | bytes) -> list[int]:
        """The ids of a text, one a byte, without BEGIN or END."""
        ids: list[int] = self.encode_array(text).tolist()
        return ids

    def separators(self) -> tuple[int, ...]:
        """The ids of ASCII's bytes that no word is made of; what is not ASCII is mostly letters."""
        return tuple(i for i, byte in enumerate(self.symbols, self._first) if byte < 0x80 and not chr(byte).isalnum())

    def count_unknown(self, ids: npt.NDArray[np.int32]) -> int:
        """How many of these ids stand for bytes that the vocabulary lacks."""
        return int((ids == UNKNOWN).sum()) if self._first > UNKNOWN else 0

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        """The bytes of some ids: control symbols are left out, unknown ones come back as "?"."""
        return bytes(self._values(ids))

    def decode(self, ids: Iterable[int]) -> str:
        """The text of some ids; what is not UTF-8 comes back as U+FFFD (`decode_bytes` keeps it)."""
        return _to_text(self.decode_bytes(ids))

    def _values(self, ids: Iterable[int]) -> Iterator[int]:
        for i in _checked(ids, len(self)):
            if i >= self._first:
                yield self.symbols[i - self._first]
            elif i == UNKNOWN:
                yield ord("?")

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "symbols": list(self.symbols)}


Vocabulary = Characters | Bytes


class TextWriter:
    """`decode`, one id at a time: a character that comes as several bytes is given when the last of them is there."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def write(self, id_: int) -> str:
        """What this id adds to the text."""
        if isinstance(self.vocabulary, Characters):
            return self.vocabulary.decode([id_])
        return self._decoder.decode(self.vocabulary.decode_bytes([id_]))

    def close(self) -> str:
        """U+FFFD for a character that has begun and will not end."""
        return self._decoder.decode(b"", final=True)


def vocabulary_from_json(value: Any) -> Vocabulary:
    """The inverse of `to_json`; ValueError says what is wrong with a value that is none."""
    match value:
        case {"kind": "characters", "symbols": list(symbols)}:
            return Characters(symbols)
        case {"kind": "bytes", "symbols": list(symbols)}:
            return Bytes(symbols)
    raise ValueError('a vocabulary needs "kind" ("characters" or "bytes") and the list "symbols"')


def count_symbols(texts: Iterable[Any], kind: type[Characters] | type[Bytes]) -> Counts:
    """How often each symbol occurs in all of these texts together."""
    total: Counts = np.zeros(NUM_BYTES if kind is Bytes else NUM_CODE_POINTS, dtype=np.int64)
    for text in texts:
        counts = kind.count(text)
        total[: len(counts)] += counts
    return total


def _most_frequent(counts: Counts, number: int) -> list[int]:
    """The most frequent symbols that occur at all, equally frequent ones in their order."""
    order = np.argsort(-counts, kind="stable")[: min(number, np.count_nonzero(counts))]
    return order.tolist()  # type: ignore[no-any-return]


def _code_points(text: str) -> npt.NDArray[np.uint32]:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")


def _checked(ids: Iterable[int], size: int) -> Iterator[int]:
    for i in ids:
        if not 0 <= i < size:
            raise ValueError(f"id {i} is outside the vocabulary of {size}")
        yield i


def _to_bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")


def _to_text(data: bytes) -> str:
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace")
