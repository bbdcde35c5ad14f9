"""The command in the tests' own process, on a CPU."""

import io
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from bytenet import cli

Run = Callable[..., tuple[int, str, str]]


class Stdin:
    def __init__(self, buffer: Any) -> None:
        self.buffer = buffer

    def isatty(self) -> bool:
        return False


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch) -> Iterator[None]:
    """The commands choose a GPU themselves, and there a precision in which nothing is equal."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with torch.device("cpu"):
        yield


@pytest.fixture
def run(monkeypatch, capsys) -> Run:
    """The command in this process: (exit code, stdout, stderr)."""

    def run(*arguments: object, stdin: Any = b"") -> tuple[int, str, str]:
        buffer = (
            io.BytesIO(stdin.encode() if isinstance(stdin, str) else stdin) if not hasattr(stdin, "read") else stdin
        )
        monkeypatch.setattr(sys, "stdin", Stdin(buffer))
        monkeypatch.setattr(sys, "argv", ["bytenet", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        captured = capsys.readouterr()
        return int(exit_.value.code or 0), captured.out, captured.err

    return run
