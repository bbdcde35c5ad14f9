"""Texts of arguments, and lines from stdin as they arrive."""

import queue
import threading
import time
from collections.abc import Iterator
from typing import BinaryIO

from bytenet.data.reading import MAX_LINE

FIRST, MOST = 64, 4096
Arrival = bytes | OSError  # a line, nothing at the end, or what went wrong
PATIENCE = 0.05  # seconds that a line waits for company


def check_utf8(argument: str, name: str) -> None:
    """What is not UTF-8 on a command line comes as lone surrogates."""
    if not argument.isprintable() and any("\ud800" <= character <= "\udfff" for character in argument):
        raise ValueError(f"{name}: not UTF-8")


def arriving(file: BinaryIO) -> Iterator[list[str]]:
    """The lines of a UTF-8 stream in parts: what has arrived by now, so that a slow writer's lines do not wait.

    The parts of a fast one grow, so that the first results come soon. A line that is not UTF-8 is a ValueError, after
    all lines before it.
    """
    lines: queue.Queue[Arrival] = queue.Queue(maxsize=2 * MOST)
    threading.Thread(target=_read, args=(_own(file), lines), daemon=True).start()
    number, most = 0, FIRST
    while part := _available(lines, most):
        texts: list[str] = []
        for line in part:
            number += 1
            try:
                texts.append(_text(line, number))
            except ValueError:
                if texts:
                    yield texts
                raise
        yield texts
        most = min(2 * most, MOST)


def _own(file: BinaryIO) -> BinaryIO:
    """The same stream with a buffer of its own: a thread that reads sys.stdin's at the end makes Python abort."""
    try:
        return open(file.fileno(), "rb", closefd=False)
    except (OSError, ValueError):  # a stream in memory
        return file


def _read(file: BinaryIO, lines: "queue.Queue[Arrival]") -> None:
    try:
        while line := file.readline(MAX_LINE):
            lines.put(line)
        lines.put(b"")
    except OSError as error:
        lines.put(error)


def _available(lines: "queue.Queue[Arrival]", most: int) -> list[bytes]:
    """At least one line, if there is one, and those that come with it; nothing at the end."""
    part: list[bytes] = []
    deadline: float | None = None
    while len(part) < most:
        try:
            wait = None if deadline is None else max(0.0, deadline - time.monotonic())
            line = lines.get(timeout=wait)
        except queue.Empty:
            break
        if isinstance(line, OSError) and not part:
            raise line
        if isinstance(line, OSError) or not line:
            lines.put(line)  # for the next call
            break
        part.append(line)
        deadline = deadline or time.monotonic() + PATIENCE
    return part


def _text(line: bytes, number: int) -> str:
    if len(line) == MAX_LINE:
        raise ValueError(f"line {number}: {MAX_LINE:,} bytes or more; is this a file of lines?")
    try:
        return line.decode("utf-8").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise ValueError(f"line {number}: not UTF-8 (byte 0x{line[error.start]:02x})") from None
