"""Files of text, plain or packed (.gz, .xz), read in bounded memory; a mistake in one is named by file and line."""

import gzip
import lzma
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

CHUNK_BYTES = 1 << 22
MAX_LINE = 1 << 24


def open_binary(file: Path) -> BinaryIO:
    """The unpacked bytes of a file."""
    match file.suffix:
        case ".gz":
            return cast(BinaryIO, gzip.open(file, "rb"))
        case ".xz":
            return cast(BinaryIO, lzma.open(file, "rb"))
    return file.open("rb")


def read_chunks(file: Path, size: int = CHUNK_BYTES) -> Iterator[bytes]:
    """The bytes of a file in parts of at most so many."""
    with open_binary(file) as opened:
        try:
            while chunk := opened.read(size):
                yield chunk
        except (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error) as error:
            raise ValueError(f"{file}: cut short or not a {file.suffix} file ({error})") from None


def read_text(file: Path, size: int = CHUNK_BYTES) -> Iterator[str]:
    """The characters of a UTF-8 file in parts; what is not UTF-8 is named by its line."""
    rest, line = b"", 1
    for chunk in read_chunks(file, size):
        data = rest + chunk
        try:
            text, rest = data.decode("utf-8"), b""
        except UnicodeDecodeError as error:
            if error.reason != "unexpected end of data":  # else a chunk ends inside a character
                bad_line = line + data.count(b"\n", 0, error.start)
                raise ValueError(f"{file}, line {bad_line}: not UTF-8 (byte 0x{data[error.start]:02x})") from None
            text, rest = data[: error.start].decode("utf-8"), data[error.start :]
        line += text.count("\n")
        yield text
    if rest:
        raise ValueError(f"{file}, line {line}: not UTF-8: the file ends inside a character")


def read_lines(file: Path) -> Iterator[str]:
    """The lines of a UTF-8 file, without their ends (\\n or \\r\\n); only \\n ends a line."""
    rest, number = "", 0
    for text in read_text(file):
        *lines, rest = (rest + text).split("\n")
        number += len(lines)
        if len(rest) > MAX_LINE:
            raise ValueError(
                f"{file}, line {number + 1}: longer than {MAX_LINE:,} characters; is this a file of lines?"
            )
        yield from (line.removesuffix("\r") for line in lines)
    if rest:
        yield rest.removesuffix("\r")
