"""Files of text: the same in parts of any size, and a mistake in one is named by file and line."""

import itertools
import tracemalloc
from functools import partial
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bytenet.data import reading
from bytenet.data.reading import read_chunks, read_lines, read_text
from tests.data.strategies import PACKERS, suffixes, texts, write

sizes = st.integers(1, 9)
# bytes of valid characters and of broken ones, with line ends between them
almost_text = st.lists(st.sampled_from([b"a", "ä".encode(), "€".encode(), "😀".encode(), b"\n", b"\r\n"]), max_size=20)
any_bytes = st.one_of(
    st.binary(max_size=20),
    st.builds(lambda left, bad, right: b"".join([*left, bad, *right]), almost_text, st.binary(max_size=4), almost_text),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reading")


def in_parts(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Lines are read from parts of so many bytes."""
    monkeypatch.setattr(reading, "read_text", partial(read_text, size=size))


@given(st.binary(), suffixes, sizes)
def test_chunks_are_the_bytes_of_a_file_packed_or_not(folder, data, suffix, size):
    chunks = list(read_chunks(write(folder, f"any{suffix}", data), size))
    assert b"".join(chunks) == data
    assert all(1 <= len(chunk) <= size for chunk in chunks)


@given(texts, suffixes, sizes)
def test_a_text_is_the_same_in_chunks_of_any_size(folder, text, suffix, size):
    assert "".join(read_text(write(folder, f"text{suffix}", text), size)) == text


def lines_by_hand(text: str) -> list[str]:
    """A line ends with \\n or \\r\\n; the last may have no end."""
    lines, line = [], ""
    for character in text:
        line += character
        if character == "\n":
            lines.append(line[:-2] if line.endswith("\r\n") else line[:-1])
            line = ""
    return [*lines, line.removesuffix("\r")] if line else lines


@given(texts, suffixes, sizes)
@example("a\r\nb\r\n", "", 2)
@example("a\r\n\r\n\n", "", 1)
def test_lines_are_the_same_in_chunks_of_any_size(folder, text, suffix, size):
    file = write(folder, f"lines{suffix}", text)
    with pytest.MonkeyPatch.context() as monkeypatch:
        in_parts(monkeypatch, size)
        assert list(read_lines(file)) == lines_by_hand(text)


@given(any_bytes, sizes)
@example("ä".encode()[:1], 1)
@example(b"a\n\xe2\x82\nb", 2)
@example(b"\n\n\xff", 9)
@example(b"\n\xf0\x9f\x98", 3)
def test_what_is_not_utf_8_is_named_by_file_and_line(folder, data, size):
    file = write(folder, "bytes", data)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        with pytest.raises(ValueError, match="not UTF-8") as raised:
            list(read_text(file, size))
        assert str(raised.value).startswith(f"{file}, line {line}: ")
        assert len(str(raised.value).splitlines()) == 1
    else:
        assert "".join(read_text(file, size)) == text


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
def test_a_packed_file_cut_short_anywhere_is_named(folder, suffix):
    whole = PACKERS[suffix](bytes(range(256)))
    file = folder / f"cut{suffix}"
    for end in range(1, len(whole)):
        file.write_bytes(whole[:end])
        with pytest.raises(ValueError, match="cut short or not a") as raised:
            list(read_chunks(file))
        assert str(file) in str(raised.value)
        assert len(str(raised.value).splitlines()) == 1


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
def test_a_damaged_packed_file_is_named_or_harmless(folder, suffix):
    """Harmless: a bit of the header that says nothing about the content."""
    data = b"many words, and many more words; " * 5
    whole = PACKERS[suffix](data)
    file = folder / f"damaged{suffix}"
    messages = []
    for place, bit in itertools.product(range(len(whole)), (0, 5)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << bit
        file.write_bytes(damaged)
        try:
            read = b"".join(read_chunks(file))
        except ValueError as error:
            messages.append(str(error))
        else:
            assert read == data
    assert len(messages) > len(whole)
    assert all(message.startswith(f"{file}: ") for message in messages)


@pytest.mark.parametrize("suffix", PACKERS)
def test_a_missing_file_is_named(folder, suffix):
    file = folder / f"missing{suffix}"
    for read in (read_chunks, read_text, read_lines):
        with pytest.raises(FileNotFoundError, match=f"missing{suffix}"):
            list(read(file))


def test_a_packed_file_that_is_none_is_named(folder):
    for suffix in (".gz", ".xz"):
        (folder / f"none{suffix}").write_text("plain text")
        with pytest.raises(ValueError, match=f"none{suffix}"):
            list(read_lines(folder / f"none{suffix}"))


def test_a_line_of_a_megabyte_is_a_line(folder):
    long = "ä" * (1 << 19)
    assert list(read_lines(write(folder, "long", f"a\n{long}\nb\n"))) == ["a", long, "b"]


def test_a_file_without_lines_is_not_read_to_its_end(folder, monkeypatch):
    monkeypatch.setattr(reading, "MAX_LINE", 100)
    in_parts(monkeypatch, 16)
    file = write(folder, "endless", "a\nb\n" + "c" * 10_000)
    with pytest.raises(ValueError, match="longer than") as raised:
        list(read_lines(file))
    assert str(raised.value).startswith(f"{file}, line 3: ")


@pytest.mark.parametrize("suffix", PACKERS)
def test_memory_does_not_grow_with_the_file(folder, suffix, monkeypatch):
    in_parts(monkeypatch, 1 << 14)

    def peak(num_lines: int) -> int:
        file = write(folder, f"growing{suffix}", b"some words of a line\n" * num_lines)
        tracemalloc.start()
        assert sum(1 for _ in read_lines(file)) == num_lines
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    assert peak(80_000) < peak(20_000) + 20_000
