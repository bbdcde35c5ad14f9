"""How near to the memory rate the kernels between a block's matrix products run, forward and backward.

    python benchmarks/kernels.py [recipes/en-de.toml] [--rows 131072] [--search]

Each kernel touches each value once, so its bytes are counted from the shapes; the rate that it is compared with is that
of a copy in the same run. --search tries other numbers of warps and of channels a thread than fused.py has, and prints
the fastest of each kernel. Times are medians by CUDA events after warm-up. Under Triton's interpreter, without a GPU,
it shows only that it runs.
"""

import argparse
import itertools
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from bytenet.config import load_recipe
from bytenet.model import LanguageModelConfig, TranslatorConfig, fused
from bytenet.model.fused import Window
from bytenet.training.speed import median_time

RECIPE = Path(__file__).parent.parent / "recipes" / "en-de.toml"
LENGTH = 128
Work = Callable[[], object]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", type=Path, nargs="?", default=RECIPE)
    parser.add_argument("--rows", type=int, default=131_072, help=f"positions; a multiple of {LENGTH}")
    parser.add_argument("--search", action="store_true")
    arguments = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if not fused.available(torch.empty(0, device=device)):
        parser.error("this needs Triton and a GPU, or TRITON_INTERPRET=1")
    name = torch.cuda.get_device_name() if device.type == "cuda" else "CPU, interpreted: no measurement"
    config = load_recipe(arguments.recipe).model
    assert isinstance(config, LanguageModelConfig | TranslatorConfig)

    source = torch.randn(arguments.rows, 2048, device=device).bfloat16()
    copied = torch.empty_like(source)
    copy_rate = 2 * source.nbytes / median_time(lambda: copied.copy_(source), device, 20) * 1e3
    print(f"{name}, torch {torch.__version__}; a copy: {copy_rate / 1e12:.2f} TB/s")
    print("kernel                         microseconds    TB/s   of a copy")
    works = kernels(config.inner_channels, arguments.rows, config.decoder.block == "multiplicative", device)
    for name, (work, moved) in works.items():
        report(name, median_time(work, device, 20), moved, copy_rate)
    if not arguments.search:
        return
    print("\nthe fastest of each: warps a multiprocessor, channels a thread")
    best: dict[str, tuple[float, int, int]] = {}
    for warps, channels in itertools.product((4, 8, 12, 16, 24, 32), (4, 8, 16, 32)):
        fused.NORM_WARPS = fused.GATES_WARPS = warps
        fused.NORM_CHANNELS = fused.GATES_CHANNELS = channels
        for name, (work, _) in works.items():
            trial = median_time(work, device, 10), warps, channels
            best[name] = min(best.get(name, trial), trial)
    for name, (milliseconds, warps, channels) in best.items():
        report(f"{name} {warps} {channels}", milliseconds, works[name][1], copy_rate)


def report(name: str, milliseconds: float, moved: int, copy_rate: float) -> None:
    rate = moved / milliseconds * 1e3
    print(f"{name:<30} {milliseconds * 1e3:>12.1f} {rate / 1e12:>7.2f} {rate / copy_rate:>11.0%}", flush=True)


def kernels(inner: int, rows: int, gated: bool, device: torch.device) -> dict[str, tuple[Work, int]]:
    """Each kernel on random data, as a block calls it, and the bytes that it reads and writes."""
    window = Window(batch=rows // LENGTH, length=LENGTH, kernel_width=3, origin=2, dilation=4)
    inner_rows, outer_rows, taps = (random(rows, channels, device) for channels in (inner, 2 * inner, 3 * inner))
    a, b = (torch.rand(4 * inner, device=device) for _ in range(2))
    part = inner_rows.nbytes  # what M·d values take

    def norm(x: Tensor, window: Window) -> Work:
        return lambda: fused.norm_relu(x, a[: x.shape[1]], b[: x.shape[1]], window)

    def norm_backward(d: Tensor, x: Tensor, window: Window, residual: Tensor | None = None) -> Work:
        weight, bias = a[: x.shape[1]], b[: x.shape[1]]
        return lambda: fused.norm_relu_backward(d, x, weight, bias, window, residual=residual)

    found: dict[str, tuple[Work, int]] = {
        "first norm": (norm(outer_rows, window.pointwise), 4 * part),
        "norm to taps": (norm(inner_rows, window), 4 * part),
        "first norm, backward": (norm_backward(outer_rows, outer_rows, window.pointwise, outer_rows), 8 * part),
        "norm to taps, backward": (norm_backward(taps, inner_rows, window), 5 * part),
    }
    if not gated:
        found["last norm"] = (norm(inner_rows, window.pointwise), 2 * part)
        found["last norm, backward"] = (norm_backward(inner_rows, inner_rows, window.pointwise), 3 * part)
        return found
    mixed = random(rows, 4 * inner, device)
    found["gates"] = (lambda: fused.gates(mixed, taps, a, b, window), 6 * part)
    found["gates, backward"] = (lambda: fused.gates_backward(inner_rows, mixed, taps, a, b, window), 11 * part)
    return found


def random(rows: int, channels: int, device: torch.device) -> Tensor:
    return torch.randn(rows, channels, device=device).bfloat16()


if __name__ == "__main__":
    main()
