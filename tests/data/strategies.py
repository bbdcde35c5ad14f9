"""Files, and pairs as they come out of an encoded corpus."""

import gzip
import lzma
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from hypothesis import strategies as st

from bytenet.data.encoding import EncodedPairs
from tests.model.strategies import FIRST_TOKEN, VOCABULARY

PACKERS: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}
suffixes = st.sampled_from(sorted(PACKERS))

# 1 to 4 bytes a character, and what other ways of reading take for the end of a line
texts = st.text(st.sampled_from("abä€😀\t\r\n\x0b\x0c\x1c\x85\u2028\ufeff"), max_size=40)

tokens = st.lists(st.integers(FIRST_TOKEN, VOCABULARY.size - 1), max_size=12)
token_pairs = st.lists(st.tuples(tokens, tokens), min_size=1, max_size=25)


def write(folder: Path, name: str, data: bytes | str) -> Path:
    """A file, packed as its name says."""
    file = folder / name
    file.write_bytes(PACKERS.get(file.suffix, bytes)(data.encode() if isinstance(data, str) else data))
    return file


def encoded(pairs: Sequence[tuple[list[int], list[int]]]) -> EncodedPairs:
    """(source, target) of each pair, in the form of an encoded corpus."""
    ids = [torch.tensor([token for pair in pairs for token in pair[side]], dtype=torch.int32) for side in (0, 1)]
    lengths = [np.array([len(pair[side]) for pair in pairs], dtype=np.int64) for side in (0, 1)]
    return EncodedPairs(ids[0], ids[1], lengths[0], lengths[1])
