"""How near to the hardware's limit a training step of a language model runs: the paper's, or another recipe's.

    python benchmarks/training_step.py [recipes/enwik8-fast.toml] [--blocks fused plain compiled] [--profile]

Forward, backward and optimiser step over a recipe's batch, bf16 beside float32 weights, on one GPU. The matrix rate is
measured in the same run; a step's FLOPs are counted from the network (bytenet/describe.py). Times are medians by CUDA
events after warm-up. Blocks are the package's own kernels (fused), PyTorch's operations one by one (plain), or those
through torch.compile, a compilation a dilation (compiled). Without a GPU a tiny network shows only that this runs.
"""

import argparse
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from torch.nn import functional as F

from bytenet import __version__
from bytenet.config import Recipe, load_recipe
from bytenet.data.config import TextConfig
from bytenet.describe import forward_flops
from bytenet.model import LanguageModel, LanguageModelConfig, fused
from bytenet.model.blocks import Block
from bytenet.training.optimizers import build_optimizers
from bytenet.training.speed import matrix_rate, median_time, seconds_of, synchronize

RECIPE = Path(__file__).parent.parent / "recipes" / "enwik8-paper.toml"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", type=Path, nargs="?", default=RECIPE)
    parser.add_argument("--blocks", nargs="+", default=["fused"], choices=["fused", "plain", "compiled"])
    parser.add_argument("--rows", type=int, help="windows a step; the recipe's if left out")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--profile", action="store_true", help="print the kernels that take the most time")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    recipe = load_recipe(arguments.recipe)
    assert isinstance(recipe.model, LanguageModelConfig)
    assert isinstance(recipe.data, TextConfig)
    rows = arguments.rows or recipe.training.batch_characters // recipe.data.window
    if device.type == "cpu":
        small = replace(recipe.model, inner_channels=16, decoder=replace(recipe.model.decoder, num_blocks=2))
        recipe, rows, arguments.steps = replace(recipe, model=small), 2, 3

    peak = matrix_rate(device)
    name = torch.cuda.get_device_name() if device.type == "cuda" else "CPU (a tiny network: no measurement)"
    print(f"{name}, torch {torch.__version__}, bytenet {__version__}; bf16 matrix product: {peak / 1e12:.0f} TFLOP/s")
    print("blocks         first step s   ms/step   characters/s   TFLOP/s   of the peak")
    results = []
    for mode in arguments.blocks:
        result = measure(mode, recipe, rows, device, arguments) | {"blocks": mode, "matrix_rate": peak}
        result["share_of_peak"] = result["flops_per_second"] / peak
        results.append(result)
        print(
            f"{mode:<14} {result['first_step_s']:>12.1f} {result['ms_per_step']:>9.2f} "
            f"{result['characters_per_second']:>14,.0f} {result['flops_per_second'] / 1e12:>9.1f} "
            f"{result['share_of_peak']:>12.1%}",
            flush=True,
        )
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")


def measure(
    mode: str, recipe: Recipe, rows: int, device: torch.device, arguments: argparse.Namespace
) -> dict[str, float]:
    torch.manual_seed(0)
    os.environ[fused.PLAIN] = "" if mode == "fused" else "1"
    assert isinstance(recipe.model, LanguageModelConfig)
    assert isinstance(recipe.data, TextConfig)
    window, context = recipe.data.window, recipe.data.context
    model = LanguageModel(recipe.model).to(device)
    if mode == "compiled":
        for part in model.modules():
            if isinstance(part, Block):
                part.compile(dynamic=False)
    optimizers = build_optimizers(model, recipe.training)
    text = torch.randint(4, recipe.model.vocabulary.size, (rows, window + 1), device=device)

    def step() -> None:
        logits, _ = model(text[:, :-1], model.start(rows, dtype=torch.bfloat16))
        loss = F.cross_entropy(logits[:, context:].flatten(0, 1), text[:, context + 1 :].flatten())
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    first = seconds_of(lambda: (step(), synchronize(device)))
    milliseconds = median_time(step, device, arguments.steps)
    if arguments.profile:
        profile(step)
    characters = rows * window
    seconds = milliseconds / 1e3
    return {
        "first_step_s": first,
        "ms_per_step": milliseconds,
        "characters_per_second": characters / seconds,
        "flops_per_second": 3 * forward_flops(model) * characters / seconds,
        "peak_memory_bytes": torch.cuda.max_memory_allocated() if device.type == "cuda" else 0,
    }


def profile(step: Callable[[], None]) -> None:
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profiler:
        step()
        torch.cuda.synchronize()
    print(profiler.key_averages().table(sort_by="self_device_time_total", row_limit=40, max_name_column_width=90))


if __name__ == "__main__":
    main()
