"""The commands on a CPU."""

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch) -> Iterator[None]:
    """The commands choose a GPU themselves, and there a precision in which nothing is equal."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with torch.device("cpu"):
        yield
