"""How fast the hardware could be, for comparison, and what lets it be."""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise

import torch


def matrix_rate(device: torch.device) -> float:
    """FLOP/s of a large bf16 matrix product on random data."""
    size = 8192 if device.type == "cuda" else 256
    a, b = (torch.randn(size, size, device=device).bfloat16() for _ in range(2))
    return 2 * size**3 / (median_time(lambda: a @ b, device, 20) / 1e3)


def median_time(work: Callable[[], object], device: torch.device, repeats: int) -> float:
    """Milliseconds of one call, the median over so many, one after the other without a pause, after some to warm up."""
    for _ in range(max(3, repeats // 5)):
        work()
    synchronize(device)
    if device.type == "cpu":
        return statistics.median(seconds_of(work) * 1e3 for _ in range(repeats))
    events = [torch.cuda.Event(enable_timing=True) for _ in range(repeats + 1)]  # type: ignore[no-untyped-call]
    events[0].record()
    for event in events[1:]:
        work()
        event.record()
    synchronize(device)
    times: list[float] = [before.elapsed_time(after) for before, after in pairwise(events)]
    return statistics.median(times)


def seconds_of(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


@contextmanager
def fast_products(dtype: torch.dtype) -> Iterator[None]:
    """Beside blocks in bf16, the logits' products in float32 are rounded less even as TF32, which is much faster."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = before or dtype == torch.bfloat16
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
