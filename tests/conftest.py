"""What all tests share. `pytest --device cuda` runs the same tests on a GPU."""

import io
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from hypothesis import Phase, settings

from bytenet import cli

Run = Callable[..., tuple[int, str, str]]

# The same examples in every run: a red test is a change's own doing. To look for new ones: --hypothesis-seed=N.
settings.register_profile("bytenet", deadline=None, max_examples=12, derandomize=True)
# For `make test-all`, which may take its time.
settings.register_profile("thorough", settings.get_profile("bytenet"), max_examples=50)
# For tests/faults.py: that an example fails is enough, the smallest one is not looked for.
settings.register_profile("faults", settings.get_profile("bytenet"), phases=[Phase.explicit, Phase.generate])
settings.load_profile("bytenet")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--device", default="cpu", help="where the tests' tensors live: cpu or cuda")


@pytest.fixture(autouse=True, scope="session")
def device(request: pytest.FixtureRequest) -> Iterator[torch.device]:
    device = torch.device(request.config.getoption("--device"))
    torch.set_num_threads(1)  # tests run side by side
    with device:
        yield device


class Stdin:
    def __init__(self, buffer: Any) -> None:
        self.buffer = buffer

    def isatty(self) -> bool:
        return False


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command line in this process: (exit code, stdout, stderr)."""

    def run(*arguments: object, stdin: Any = b"") -> tuple[int, str, str]:
        if not hasattr(stdin, "read"):
            stdin = io.BytesIO(stdin.encode() if isinstance(stdin, str) else stdin)
        monkeypatch.setattr(sys, "stdin", Stdin(stdin))
        monkeypatch.setattr(sys, "argv", ["bytenet", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        captured = capsys.readouterr()
        return int(exit_.value.code or 0), captured.out, captured.err

    return run
