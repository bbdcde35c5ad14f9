"""How near to the hardware's limit a training step runs: of the paper's language model, or of another recipe's model.

    python benchmarks/training_step.py [recipes/enwik8-fast.toml] [--blocks fused plain compiled] [--profile]
    python benchmarks/training_step.py recipes/en-de.toml --length 120 --profile

Forward, backward and optimiser step over a recipe's batch, bf16 beside float32 weights, on one GPU. The batch of a
translator is of pairs of one length (--length), so that its shape never changes as it does in a run. The matrix rate is
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
from torch import Tensor

from bytenet import __version__
from bytenet.config import Recipe, load_recipe
from bytenet.data.batches import Batch
from bytenet.data.config import TextConfig
from bytenet.describe import forward_flops
from bytenet.model import LanguageModel, LanguageModelConfig, Translator, TranslatorConfig, build, fused
from bytenet.model.blocks import Block, StackConfig
from bytenet.model.translator import UnfoldingConfig
from bytenet.training.objective import Objective
from bytenet.training.optimizers import build_optimizers
from bytenet.training.speed import fast_products, matrix_rate, median_time, seconds_of, synchronize
from bytenet.vocabulary import NUM_CONTROLS, PAD

RECIPE = Path(__file__).parent.parent / "recipes" / "enwik8-paper.toml"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", type=Path, nargs="?", default=RECIPE)
    parser.add_argument("--blocks", nargs="+", default=["fused"], choices=["fused", "plain", "compiled"])
    parser.add_argument("--rows", type=int, help="windows or pairs a step; the recipe's if left out")
    parser.add_argument("--length", type=int, default=120, help="of both sides of a pair, in characters")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--profile", action="store_true", help="print the kernels that take the most time")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    recipe = load_recipe(arguments.recipe)
    if device.type == "cpu":
        recipe, arguments.rows, arguments.steps = in_small(recipe), 2, 3
    case = Case(recipe, arguments.length, arguments.rows, device)

    peak = matrix_rate(device)
    name = torch.cuda.get_device_name() if device.type == "cuda" else "CPU (a tiny network: no measurement)"
    print(f"{name}, torch {torch.__version__}, bytenet {__version__}; bf16 matrix product: {peak / 1e12:.0f} TFLOP/s")
    print("blocks         first step s   ms/step   characters/s   TFLOP/s   of the peak")
    results = []
    for mode in arguments.blocks:
        result = measure(mode, case, arguments) | {"blocks": mode, "matrix_rate": peak}
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


def in_small(recipe: Recipe) -> Recipe:
    """The same with a network that a CPU computes in a moment."""

    def fewer(stack: StackConfig) -> StackConfig:
        return replace(stack, num_blocks=2)

    model = recipe.model
    if isinstance(model, LanguageModelConfig):
        return replace(recipe, model=replace(model, inner_channels=16, decoder=fewer(model.decoder)))
    assert isinstance(model, TranslatorConfig)
    stacks = {"encoder": fewer(model.encoder), "decoder": fewer(model.decoder)}
    return replace(recipe, model=replace(model, inner_channels=16, **stacks))


class Case:
    """A recipe's network and a batch of random text for it."""

    def __init__(self, recipe: Recipe, length: int, rows: int | None, device: torch.device) -> None:
        self.recipe, self.device, self.length = recipe, device, length
        self.window, self.context = length, 0
        budget = recipe.training.batch_characters
        if isinstance(recipe.model, TranslatorConfig):
            assert isinstance(recipe.model.unfolding, UnfoldingConfig)
            self.read_length = recipe.model.unfolding.read_length(length)
            self.rows = rows or budget // (self.read_length + length)
        else:
            assert isinstance(recipe.data, TextConfig)
            self.window, self.context = recipe.data.window, recipe.data.context
            self.rows = rows or budget // self.window

    @property
    def characters(self) -> int:
        """Of the batch, on both sides."""
        return self.rows * (2 * self.length if isinstance(self.recipe.model, TranslatorConfig) else self.window)

    def flops(self, objective: Objective) -> int:
        """Of the matrix products of a step, what lies behind the ends of sources included."""
        model = objective.model
        assert isinstance(model, LanguageModel | Translator)
        products = self.rows * self.window * (forward_flops(model.decoder) + forward_flops(objective.heads))
        if isinstance(model, Translator):
            products += self.rows * self.read_length * forward_flops(model.encoder)
        return 3 * products

    def batch(self) -> Batch:
        targets = self._random(self.recipe.model.vocabulary_configs[-1].size, self.window + 1)
        inputs, targets = targets[:, :-1], targets[:, 1:].clone()
        targets[:, : self.context] = PAD
        characters = {"num_targets": self.rows * (self.window - self.context), "num_characters": self.characters}
        if not isinstance(self.recipe.model, TranslatorConfig):
            return Batch(inputs=inputs, targets=targets, **characters)
        source = self._random(self.recipe.model.source_vocabulary.size, self.length)
        lengths = (self.length,) * self.rows
        return Batch(inputs=inputs, targets=targets, source=source, source_lengths=lengths, **characters)

    def _random(self, symbols: int, length: int) -> Tensor:
        return torch.randint(NUM_CONTROLS, symbols, (self.rows, length), device=self.device)


def measure(mode: str, case: Case, arguments: argparse.Namespace) -> dict[str, float]:
    torch.manual_seed(0)
    os.environ[fused.PLAIN] = "" if mode == "fused" else "1"
    model = build(case.recipe.model).to(case.device)
    assert isinstance(model, LanguageModel | Translator)
    if mode == "compiled":
        for part in model.modules():
            if isinstance(part, Block):
                part.compile(dynamic=False)
    objective = Objective(model, case.recipe.training, dtype=torch.bfloat16).to(case.device)
    optimizers, batch = build_optimizers(objective, case.recipe.training), case.batch()

    def step() -> None:
        loss, _ = objective(batch)
        (loss / batch.num_targets).backward()
        if case.recipe.training.clip:
            torch.nn.utils.clip_grad_norm_(objective.parameters(), case.recipe.training.clip)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    with fast_products(torch.bfloat16):
        first = seconds_of(lambda: (step(), synchronize(case.device)))
        milliseconds = median_time(step, case.device, arguments.steps)
        if arguments.profile:
            profile(step)
    seconds = milliseconds / 1e3
    return {
        "first_step_s": first,
        "ms_per_step": milliseconds,
        "characters_per_second": case.characters / seconds,
        "flops_per_second": case.flops(objective) / seconds,
        "peak_memory_bytes": torch.cuda.max_memory_allocated() if case.device.type == "cuda" else 0,
    }


def profile(step: Callable[[], None]) -> None:
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profiler:
        step()
        torch.cuda.synchronize()
    print(profiler.key_averages().table(sort_by="self_device_time_total", row_limit=40, max_name_column_width=90))


if __name__ == "__main__":
    main()
