"""Decoding with the paper's models on one GPU: milliseconds a step, characters a second, and how near to the limits.

    python benchmarks/decoding/gpu_step.py [--rows 1 12 128 1024] [--json FILE]

The language model writes greedily in so many rows; the translator searches for 64 sentences at once with a beam of 12.
Weights are random, activations bf16. Limits are measured in the same run: the matrix rate, and the rate at which memory
is read. Step times are medians by CUDA events over replayed graphs; characters a second are by the clock, with all that
goes on around the graph. Without a GPU a tiny network shows only that this runs.
"""

import argparse
import json
import math
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from bytenet import __version__
from bytenet.config import load_recipe
from bytenet.decoding import beam_search, sampling
from bytenet.decoding.engine import PlainEngine, choose_engine
from bytenet.describe import forward_flops
from bytenet.model import LanguageModel, LanguageModelConfig, Translator, TranslatorConfig
from bytenet.training.speed import matrix_rate, median_time, synchronize

RECIPES = Path(__file__).parent.parent.parent / "recipes"
GREEDY = sampling.SamplingConfig(temperature=0)
BEAM = beam_search.BeamConfig()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 12, 128, 1024])
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--sentences", type=int, default=64)
    parser.add_argument("--skip-translator", action="store_true")
    parser.add_argument("--plain", action="store_true", help="also the model itself, step by step")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cpu":
        arguments.rows, arguments.steps, arguments.sentences = [1, 3], 5, 2
    limits = {"matrix_rate": matrix_rate(device), "memory_rate": memory_rate(device)}
    name = torch.cuda.get_device_name() if device.type == "cuda" else "CPU (a tiny network: no measurement)"
    print(f"{name}, torch {torch.__version__}, bytenet {__version__}")
    matrix, memory = limits["matrix_rate"] / 1e12, limits["memory_rate"] / 1e12
    print(f"bf16 matrix product {matrix:.0f} TFLOP/s, memory {memory:.2f} TB/s")
    result = {"limits": limits, "language_model": measure_language_model(device, arguments, limits)}
    if not arguments.skip_translator:
        result["translator"] = measure_translator(device, arguments)
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")


def measure_language_model(
    device: torch.device, arguments: argparse.Namespace, limits: dict[str, float]
) -> list[dict[str, Any]]:
    config = load_recipe(RECIPES / "enwik8-paper.toml").model
    assert isinstance(config, LanguageModelConfig)
    torch.manual_seed(0)
    model = LanguageModel(shrunk(config, device)).to(device).eval()
    engine = choose_engine(model, torch.bfloat16)
    read = 2 * sum(parameter.numel() for name, parameter in model.named_parameters() if "embedding" not in name)
    results = []
    print("\nlanguage model   ms/step   characters/s   of the memory rate   of the matrix rate   largest difference")
    for rows in arguments.rows:
        milliseconds = step_time(engine, model, rows, device)
        seconds = clock(engine, model, rows, arguments.steps, device)
        result = {
            "rows": rows,
            "ms_per_step": milliseconds,
            "characters_per_second": rows * arguments.steps / seconds,
            "share_of_memory_rate": read / (milliseconds / 1e3) / limits["memory_rate"],
            "share_of_matrix_rate": rows * forward_flops(model) / (milliseconds / 1e3) / limits["matrix_rate"],
            "difference": difference(engine, model, min(rows, 128), device),
        }
        results.append(result)
        print(
            f"{rows:>9} rows {milliseconds:>12.3f} {result['characters_per_second']:>14,.0f}"
            f" {result['share_of_memory_rate']:>20.1%} {result['share_of_matrix_rate']:>20.1%}"
            f" {result['difference']:>20.4f}",
            flush=True,
        )
    if arguments.plain:
        plain = PlainEngine(model)
        for rows in arguments.rows:
            print(
                f"{rows:>9} rows {1e3 * clock(plain, model, rows, 30, device) / 30:>12.3f} the model itself", flush=True
            )
    return results


def step_time(engine: Any, model: LanguageModel, rows: int, device: torch.device) -> float:
    """Milliseconds of a replayed graph; without a GPU of a step."""
    tokens = torch.full((rows,), 40, device=device)
    generator = torch.Generator(device)
    draft = sampling.Draft(engine.take(model.start(rows, dtype=torch.bfloat16)), tokens)
    step = partial(sampling.advance, engine, config=GREEDY, generator=generator)
    loop = engine.repeat(step, draft, lambda draft: draft.tokens, key=GREEDY, generator=generator)
    if device.type == "cuda":
        return median_time(loop.captured.graph.replay, device, 100)
    iterator = iter(loop)
    return median_time(lambda: next(iterator), device, 5)


def clock(engine: Any, model: LanguageModel, rows: int, steps: int, device: torch.device) -> float:
    """Seconds of so many steps, every character handed out."""
    tokens = torch.full((rows,), 40, device=device)
    stream = sampling.sample(engine, model.start(rows, dtype=torch.bfloat16), tokens, GREEDY)
    for _ in range(10):
        next(stream)
    begin = time.perf_counter()
    for _ in range(steps):
        next(stream)
    return time.perf_counter() - begin


@torch.no_grad()
def difference(engine: Any, model: LanguageModel, rows: int, device: torch.device, steps: int = 60) -> float:
    """The largest difference of log-probabilities to the model itself, with rows that change places."""
    torch.manual_seed(1)
    plain = model.start(rows, dtype=torch.bfloat16)
    fast = engine.take(plain)
    largest = 0.0
    for _ in range(steps):
        tokens = torch.randint(4, model.config.vocabulary.size, (rows, 1), device=device)
        expected, plain = model(tokens, plain)
        found, fast = engine(tokens, fast)
        largest = max(largest, (expected.log_softmax(-1) - found.log_softmax(-1)).abs().max().item())
        moved = torch.randint(0, rows, (rows,), device=device)
        plain, fast = plain.select(moved), fast.select(moved)
    return largest


def measure_translator(device: torch.device, arguments: argparse.Namespace) -> dict[str, Any]:
    config = load_recipe(RECIPES / "wmt14-en-de-paper.toml").model
    assert isinstance(config, TranslatorConfig)
    torch.manual_seed(0)
    model = Translator(shrunk(config, device)).to(device).eval()
    engine = choose_engine(model, torch.bfloat16)
    count = arguments.sentences
    lengths = torch.linspace(100, 150, count).int().tolist() if device.type == "cuda" else [5] * count
    source = torch.zeros(count, max(lengths), dtype=torch.int64)
    for row, length in zip(source, lengths, strict=True):
        row[:length] = torch.randint(4, config.source_vocabulary.size, (length,))
    source = source.to(device)
    limits = [math.ceil(1.1 * length) for length in lengths]

    def search() -> tuple[int, float]:
        synchronize(device)
        begin = time.perf_counter()
        with torch.no_grad():
            state = model.start(source, lengths, dtype=torch.bfloat16)
        found = list(beam_search.beam_search(engine, state, limits, BEAM))
        return sum(len(best[0].tokens) + 1 for _, best in found), time.perf_counter() - begin

    search()  # compiles and captures
    characters, seconds = min((search() for _ in range(3)), key=lambda result: result[1])
    busy = gpu_seconds(search) if device.type == "cuda" else seconds
    result = {
        "sentences": count,
        "beam": BEAM.beam,
        "characters": characters,
        "characters_per_second": characters / seconds,
        "seconds": seconds,
        "outside_the_gpu": 1 - min(busy, seconds) / seconds,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
    }
    print(
        f"\ntranslator, beam {BEAM.beam}, {count} sentences at once: {characters:,} characters in {seconds:.3f} s, "
        f"{result['characters_per_second']:,.0f} characters/s; "
        f"{result['outside_the_gpu']:.1%} of the time outside the GPU"
    )
    return result


def gpu_seconds(work: Any) -> float:
    """How long the GPU was busy with some work: the union of its kernels' and copies' times."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA], acc_events=True) as profiler:
        work()
        torch.cuda.synchronize()
    spans = sorted(
        (event.time_range.start, event.time_range.end)
        for event in profiler.events()
        if event.device_type.name == "CUDA"
    )
    busy, until = 0.0, -math.inf
    for start, end in spans:
        busy += max(0.0, end - max(start, until))
        until = max(until, end)
    return busy / 1e6


def memory_rate(device: torch.device) -> float:
    """Bytes a second that a large sum reads."""
    data = torch.ones(2**30 if device.type == "cuda" else 2**20, dtype=torch.float32, device=device)
    return data.nbytes / (median_time(data.sum, device, 20) / 1e3)


def shrunk(config: Any, device: torch.device) -> Any:
    if device.type == "cuda":
        return config
    small = {"decoder": replace(config.decoder, num_blocks=2), "inner_channels": 16}
    return replace(
        config, **small, **({"encoder": replace(config.encoder, num_blocks=2)} if config.kind == "translator" else {})
    )


if __name__ == "__main__":
    main()
