"""Where tensors live, and how many processors work on them."""

import pytest
import torch
from torch import nn

from bytenet.device import SMALL, choose_device, choose_threads, idle_processors, usable_processors


def test_a_device_that_is_not_there_is_a_mistake(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device() == torch.device("cpu")
    for name, message in (("abacus", "not the name of a device"), ("cuda", "no GPU")):
        with pytest.raises(ValueError, match=message):
            choose_device(name)


@pytest.mark.parametrize(("running", "expected"), [(1, 4), (2, 4), (5, 4), (6, 3), (8, 1), (30, 1)])
def test_a_small_model_has_one_thread_and_a_large_one_all_that_nobody_else_keeps_busy(monkeypatch, running, expected):
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(4)), raising=False)
    contents = {"/proc/loadavg": f"0.52 0.58 0.59 {running}/467 1234", "/sys/fs/cgroup/cpu.max": "max 100000"}
    monkeypatch.setattr("bytenet.device.Path.read_text", lambda path, **_: contents[str(path)])
    assert choose_threads(nn.Linear(10, 10)) == 1
    assert choose_threads(nn.Linear(SMALL, 2, device="meta")) == expected


def test_where_nobody_says_who_is_busy_all_are_idle(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    monkeypatch.setattr("bytenet.device.Path.read_text", lambda *_, **__: "nothing of the kind")
    assert idle_processors() == 8


@pytest.mark.parametrize(("content", "expected"), [("max 100000", 8), ("200000 100000", 2), ("50000 100000", 1)])
def test_a_containers_share_counts(monkeypatch, content, expected):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setattr("bytenet.device.Path.read_text", lambda *_, **__: content)
    assert usable_processors() == expected
