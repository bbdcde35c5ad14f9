"""Where tensors live, and how many processors work on them."""

import pytest
import torch
from torch import nn

from bytenet.device import SMALL, choose_device, choose_threads, usable_processors


def test_a_device_that_is_not_there_is_a_mistake(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device() == torch.device("cpu")
    for name, message in (("abacus", "not the name of a device"), ("cuda", "no GPU")):
        with pytest.raises(ValueError, match=message):
            choose_device(name)


def test_a_small_model_has_one_thread_and_a_large_one_all_there_are():
    assert choose_threads(nn.Linear(10, 10)) == 1
    assert choose_threads(nn.Linear(SMALL, 2, device="meta")) == usable_processors()


@pytest.mark.parametrize(("content", "expected"), [("max 100000", 8), ("200000 100000", 2), ("50000 100000", 1)])
def test_a_containers_share_counts(monkeypatch, content, expected):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setattr("bytenet.device.Path.read_text", lambda *_, **__: content)
    assert usable_processors() == expected
