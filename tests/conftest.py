"""What all tests share. `pytest --device cuda` runs the same tests on a GPU."""

from collections.abc import Iterator

import pytest
import torch
from hypothesis import settings

# The same examples in every run: a red test is a change's own doing. To look for new ones: --hypothesis-seed=N.
settings.register_profile("bytenet", deadline=None, max_examples=30, derandomize=True)
settings.load_profile("bytenet")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--device", default="cpu", help="where the tests' tensors live: cpu or cuda")


@pytest.fixture(autouse=True, scope="session")
def device(request: pytest.FixtureRequest) -> Iterator[torch.device]:
    device = torch.device(request.config.getoption("--device"))
    torch.set_num_threads(1)  # tests run side by side
    with device:
        yield device
