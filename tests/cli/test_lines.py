"""Lines as they arrive: all of them, in order, and none waits for the next."""

import contextlib
import io
import os
import queue
import threading
from collections.abc import Callable, Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bytenet.cli import lines
from bytenet.cli.lines import arriving

PATIENT = 60.0  # seconds until a test gives up; nothing that works waits for it

texts = st.text(st.characters(exclude_characters="\n", exclude_categories=("Cs",)), max_size=9).filter(
    lambda text: not text.endswith("\r")
)


def all_lines(data: bytes) -> list[str]:
    got, mistake = lines_and_mistake(data)
    assert mistake == ""
    return got


def lines_and_mistake(data: bytes) -> tuple[list[str], str]:
    """The lines that come before a mistake."""
    got: list[str] = []
    try:
        for part in arriving(io.BytesIO(data)):
            got += part
    except ValueError as error:
        return got, str(error)
    return got, ""


@contextlib.contextmanager
def writer(write: Callable[[io.FileIO], None]) -> Iterator[io.BufferedReader]:
    """The end of a pipe into whose other end a thread writes."""
    reading, writing = os.pipe()

    def run() -> None:
        with open(writing, "wb", buffering=0) as file:
            write(file)

    thread = threading.Thread(target=run, daemon=True)
    with open(reading, "rb") as file:
        thread.start()
        yield file
        thread.join(PATIENT)
    assert not thread.is_alive()


@given(st.lists(texts), st.sampled_from(["\n", "\r\n"]), st.booleans())
@example([""], "\n", True)
@example(["", "", "a", ""], "\r\n", True)
@example(["a\u2028b\x0b\x85c\rd"], "\n", False)  # only \n ends a line
def test_every_line_comes_without_its_end(texts, end, ended):
    """The last one with its \\n or without."""
    data = end.join([*texts, ""] if ended else texts)
    expected = texts if ended or not texts or texts[-1] else texts[:-1]
    assert all_lines(data.encode()) == expected


def test_an_empty_input_has_no_lines():
    assert list(arriving(io.BytesIO(b""))) == []


def test_many_lines_through_a_pipe_keep_their_order():
    expected = [f"line {number}" for number in range(10_000)]

    def write(file: io.FileIO) -> None:
        for start in range(0, len(expected), 700):
            file.write("".join(f"{line}\n" for line in expected[start : start + 700]).encode())

    with writer(write) as file:
        parts = list(arriving(file))
    assert [line for part in parts for line in part] == expected
    assert all(parts)
    assert len(parts[0]) <= lines.FIRST  # the first results come soon
    assert max(map(len, parts)) <= lines.MOST


def test_the_parts_of_a_fast_writer_grow(monkeypatch):
    """As long as its lines are there: what the reader has read by then is not known, the greatest sizes are."""
    monkeypatch.setattr(lines, "PATIENCE", PATIENT)
    sizes = list(map(len, arriving(io.BytesIO(b"x\n" * 2000))))
    assert sizes == [64, 128, 256, 512, 1024, 2000 - 1984]


@pytest.mark.parametrize("several", [1, 3])
def test_a_slow_writers_lines_do_not_wait_for_more(several):
    """The next ones are written only once these have come."""
    come = queue.Queue[None]()
    in_time: list[bool] = []

    def write(file: io.FileIO) -> None:
        for number in range(4):
            file.write(f"{number}\n".encode() * several)
            try:
                come.get(timeout=PATIENT)
            except queue.Empty:
                in_time.append(False)
                return
            in_time.append(True)

    got: list[str] = []
    with writer(write) as file:
        for part in arriving(file):
            got += part
            if len(got) % several == 0:
                come.put(None)
    assert in_time == [True] * 4
    assert got == [str(number) for number in range(4) for _ in range(several)]


def test_a_line_is_complete_before_it_comes():
    come = threading.Event()

    def write(file: io.FileIO) -> None:
        file.write(b"first\nsec")
        come.wait(PATIENT)
        file.write("önd\nthird".encode())

    with writer(write) as file:
        parts = arriving(file)
        assert next(parts) == ["first"]
        come.set()
        assert [line for part in parts for line in part] == ["secönd", "third"]


@given(st.lists(texts, max_size=70), st.sampled_from([b"\xff", b"a\x80b", "ä".encode()[:1]]), st.lists(texts))
@example([], b"\xff", [])
@example([""] * 64, b"\xff", ["a"])  # the first of a part
def test_what_is_not_utf8_is_named_after_all_lines_before_it(before, bad, after):
    data = b"".join([*(line.encode() + b"\n" for line in before), bad, b"\n", *(line.encode() for line in after)])
    got, mistake = lines_and_mistake(data)
    assert got == before
    wrong = {b"\xff": "ff", b"a\x80b": "80"}.get(bad, "c3")
    assert mistake == f"line {len(before) + 1}: not UTF-8 (byte 0x{wrong})"


@pytest.mark.parametrize("tail", [b"", b"\n", b"\nthird\n"])
def test_a_line_without_end_is_refused(monkeypatch, tail):
    monkeypatch.setattr(lines, "MAX_LINE", 10)
    assert all_lines(b"first\n12345678\n") == ["first", "12345678"]
    got, mistake = lines_and_mistake(b"first\n" + b"x" * 25 + tail)
    assert got == ["first"]
    assert mistake == "line 2: 10 bytes or more; is this a file of lines?"


def test_a_fast_writer_is_not_read_ahead_without_limit(monkeypatch):
    monkeypatch.setattr(lines, "MOST", 64)
    taken, stop = 0, threading.Event()

    class Endless(io.RawIOBase):
        read_lines = 0

        def readline(self, size: int | None = -1) -> bytes:
            self.read_lines += not stop.is_set()
            return b"" if stop.is_set() else b"x\n"

    file = Endless()
    for part in arriving(file):  # type: ignore[arg-type]
        taken += len(part)
        assert file.read_lines <= taken + 2 * 64 + 1
        if taken > 2000:
            stop.set()


def test_an_error_of_the_system_is_raised_where_the_lines_are_read():
    """And not lost in a thread, so that nobody waits for ever."""

    class Broken(io.RawIOBase):
        given = False

        def readline(self, size: int | None = -1) -> bytes:
            if self.given:
                raise OSError(5, "Input/output error")
            self.given = True
            return b"first\n"

    got: list[object] = []

    def read() -> None:
        try:
            for part in arriving(Broken()):  # type: ignore[arg-type]
                got.extend(part)
        except OSError as error:
            got.append(error.strerror)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    thread.join(PATIENT / 4)
    assert got == ["first", "Input/output error"]
