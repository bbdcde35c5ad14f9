"""Where tensors live, and how many processors work on them."""

import os
import time
from pathlib import Path

import torch
from torch import nn

SMALL = 200_000  # parameters; below this, threads wait for each other longer than they work


def choose_device(name: str | torch.device | None = None) -> torch.device:
    """The device of that name, or a GPU if there is one; ValueError if the name is none or the device is not there."""
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ValueError(f'"{name}" is not the name of a device, such as cpu or cuda') from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"{name}: there is no GPU that PyTorch can use here")
    return device


def choose_threads(model: nn.Module) -> int:
    """How many threads are worth having for a model on a CPU: one for a small one, else all that may be used and that
    nobody else keeps busy. Threads wait for each other many times a step: where they have to share their processors,
    two were 40 times as slow as one (docs/results.md).
    """
    small = sum(parameter.numel() for parameter in model.parameters()) < SMALL
    return 1 if small else max(1, min(usable_processors(), idle_processors()))


def usable_processors() -> int:
    """Those that this process may run on, and no more than its container's share of them."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        return count if quota == "max" else max(1, min(count, int(quota) // int(period)))
    except (OSError, ValueError):
        return count


def idle_processors() -> int:
    """Those of the machine that no other process keeps busy, at the best of a few moments; all where Linux is not."""
    count = os.cpu_count() or 1
    try:
        running = min(map(_running, range(5)))
    except (OSError, ValueError, IndexError):
        return count
    return count - (running - 1)  # this process is running too


def _running(moment: int) -> int:
    """How many threads run, or would if there were a processor for them."""
    if moment:
        time.sleep(0.01)
    return int(Path("/proc/loadavg").read_text(encoding="ascii").split()[3].split("/")[0])
