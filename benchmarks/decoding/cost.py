"""What a character costs to decode: against length beside peers of equal size, and over 100,000 characters.

    python benchmarks/decoding/cost.py lengths [--quick] [--without-peers] [--out FOLDER]
    python benchmarks/decoding/cost.py flatness [--quick] [--inner-channels 64 --blocks 5] [--out FOLDER]

Random weights, float32, batch 1, greedy, one thread; CPU time, which a busy machine distorts less than the clock's.
Everything is eager PyTorch: nothing is compiled or quantised.

`lengths`: CPU-milliseconds a character, averaged up to each length. The networks have 10 million parameters each,
within 2%. They take turns, a chunk of characters each, so that noise hits all alike; a chunk's cost is its median over
the rounds. Before that, each must write what the same network without its cache finds most probable. Reading all anew
for each character is not timed at every prefix but at one in `--reread-every`, the middle one of so many, and counted
for all. (A ByteNet that read its receptive field alone anew would be flat too, at a read of that many positions.)
`--out` keeps lengths.json and the plot. About 20 minutes; the peers come from requirements.txt beside this file:

    python3 -m venv build/peers
    build/peers/bin/pip install --constraint constraints.txt -r benchmarks/decoding/requirements.txt -e .
    build/peers/bin/python benchmarks/decoding/cost.py lengths --out runs/decoding

`flatness`: the cached ByteNet alone, 100 to 100,000 characters: the cost of the last tenth against the first, the slope
of log time against log length (1 is linear), and resident memory (Linux). Short texts that begin anew are timed in
between, because a machine's memory is not equally fast at all times. Under two minutes.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import torch
from contenders import Contender, Step, bytenet, reread_stepper
from plot import draw

from bytenet import __version__
from bytenet.vocabulary import BEGIN, NUM_BYTES, NUM_CONTROLS

QUICK_LENGTHS = [32, 64]
CHECKED = 40  # characters that each contender writes with and without its cache
FIRST = 100  # characters; where the fit of `flatness` begins
ANEW = 20  # characters of a text that begins anew, after each FIRST of the long one: how fast the machine is just now


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    lengths = commands.add_parser("lengths", help="cost a character against length, beside peers")
    lengths.add_argument("--lengths", type=int, nargs="+", default=[128, 512, 2048, 4096])
    lengths.add_argument("--chunk", type=int, default=32, help="characters between two turns")
    lengths.add_argument("--rounds", type=int, default=3)
    lengths.add_argument("--reread-every", type=int, default=32, help="time one prefix in so many; divides --chunk")
    lengths.add_argument("--without-peers", action="store_true")
    flatness = commands.add_parser("flatness", help="cost and memory over a long text")
    flatness.add_argument("--characters", type=int, default=100_000)
    flatness.add_argument("--inner-channels", type=int, default=64)
    flatness.add_argument("--blocks", type=int, default=5)
    for command in (lengths, flatness):
        command.add_argument("--quick", action="store_true", help="seconds: shows only that it works")
        command.add_argument("--out", type=Path, help="a folder for the figures and the plot")
    arguments = parser.parse_args()
    if arguments.command == "lengths":
        if arguments.quick:
            arguments.lengths, arguments.chunk, arguments.rounds, arguments.reread_every = QUICK_LENGTHS, 8, 1, 4
        if any(length % arguments.chunk for length in arguments.lengths) or arguments.chunk % arguments.reread_every:
            parser.error("--lengths must be multiples of --chunk, and --chunk of --reread-every")
    elif arguments.quick:
        arguments.characters = 2_000

    torch.set_num_threads(1)
    torch.manual_seed(0)
    started = time.monotonic()
    with torch.inference_mode():
        result = measure_lengths(arguments) if arguments.command == "lengths" else measure_flatness(arguments)
    result |= surroundings() | {"minutes": (time.monotonic() - started) / 60}
    print(
        f"\n{result['processor']}, one thread, torch {result['torch']}, bytenet {result['bytenet']} "
        f"({result['commit']}), {result['minutes']:.1f} minutes\n"
    )
    print(lengths_table(result) if arguments.command == "lengths" else flatness_table(result))
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        figures = arguments.out / f"{arguments.command}.json"
        figures.write_text(json.dumps(result, indent=1) + "\n")
        if arguments.command == "lengths":
            draw(result, figures.with_suffix(""))


def measure_lengths(arguments: argparse.Namespace) -> dict[str, Any]:
    paper, shallow = bytenet(144, 30), bytenet(248, 10)
    contenders = [paper, shallow]
    if not arguments.without_peers:
        from peers import peers  # here: `flatness` and --without-peers do not need them

        contenders += peers(max(arguments.lengths))
    sizes = [contender.num_parameters for contender in contenders]
    assert max(sizes) <= 1.02 * min(sizes), sizes
    for contender in contenders:
        check(contender)

    chunks = max(arguments.lengths) // arguments.chunk
    rounds = [list(one_round(contenders, chunks, arguments, number)) for number in range(arguments.rounds)]
    seconds = np.median(np.array(rounds), axis=0).T  # (contenders and the one that reads anew, chunks)
    rows = [(contender.name, contender) for contender in contenders] + [(f"{paper.name}, reading all anew", paper)]
    models = []
    for (name, contender), costs in zip(rows, seconds, strict=True):
        cumulative = list(accumulate(costs.tolist()))
        models.append(
            {
                "name": name,
                "shape": contender.shape,
                "parameters": contender.num_parameters,
                "ms_per_character": {
                    length: cumulative[length // arguments.chunk - 1] / length * 1e3 for length in arguments.lengths
                },
                "ms_by_chunk": [cost / arguments.chunk * 1e3 for cost in costs.tolist()],
            }
        )
    return {
        "models": models,
        "chunk": arguments.chunk,
        "rounds": arguments.rounds,
        "reread_every": arguments.reread_every,
    }


def check(contender: Contender) -> None:
    """That the cache is used rightly: the same network without it would have written the same."""
    step = contender.start()
    tokens = [BEGIN]
    for _ in range(CHECKED):
        tokens.append(step(tokens[-1]))
    expected = contender.read(torch.tensor([tokens[:-1]]))[0].argmax(dim=-1).tolist()
    assert tokens[1:] == expected, f"{contender.name}: with and without its cache it writes different texts"


def one_round(
    contenders: Sequence[Contender], chunks: int, arguments: argparse.Namespace, number: int
) -> Iterator[list[float]]:
    """For each chunk, the CPU seconds of each contender, and last of reading all anew."""
    steps = [contender.start() for contender in contenders]
    tokens = [BEGIN] * len(steps)
    started = time.monotonic()
    every = arguments.reread_every
    for chunk in range(chunks):
        costs = []
        for i, step in enumerate(steps):
            tokens[i], cost = decode(step, tokens[i], arguments.chunk)
            costs.append(cost)
        positions = range(chunk * arguments.chunk + every // 2, (chunk + 1) * arguments.chunk, every)
        costs.append(every * sum(reread_cost(contenders[0], position) for position in positions))
        yield costs
        if (chunk + 1) * 10 // chunks > chunk * 10 // chunks:
            progress(f"round {number + 1} of {arguments.rounds}", (chunk + 1) / chunks, started)


def decode(step: Step, token: int, characters: int) -> tuple[int, float]:
    """The last of so many characters after this token, and the CPU seconds of all."""
    started = time.process_time()
    for _ in range(characters):
        token = step(token)
    return token, time.process_time() - started


def reread_cost(contender: Contender, length: int) -> float:
    """The CPU seconds of one character after so many, all read anew."""
    step = reread_stepper(contender.model, torch.randint(NUM_CONTROLS, NUM_CONTROLS + NUM_BYTES, (length,)).tolist())
    return decode(step, BEGIN, 1)[1]


def measure_flatness(arguments: argparse.Namespace) -> dict[str, Any]:
    contender = bytenet(arguments.inner_channels, arguments.blocks)
    check(contender)
    step, token = contender.start(), BEGIN
    chunks = arguments.characters // FIRST
    memory, costs, anew = [], [], []
    started = time.monotonic()
    for chunk in range(chunks):
        token, cost = decode(step, token, FIRST)
        costs.append(cost)
        _, cost = decode(contender.start(), BEGIN, ANEW)
        anew.append(cost)
        memory.append(resident_bytes())
        if (chunk + 1) * 10 // chunks > chunk * 10 // chunks:
            progress(f"{arguments.characters:,} characters", (chunk + 1) / chunks, started)
    tenth = max(1, chunks // 10)
    total = np.cumsum(costs)
    points = np.unique(np.geomspace(1, chunks, 25).round().astype(int))  # evenly spaced in log length
    slope, _ = np.polyfit(np.log(points * FIRST), np.log(total[points - 1]), 1)
    first, last = (statistics.median(part) / FIRST * 1e3 for part in (costs[:tenth], costs[-tenth:]))
    first_anew, last_anew = (statistics.median(part) / ANEW * 1e3 for part in (anew[:tenth], anew[-tenth:]))
    return {
        "shape": contender.shape,
        "parameters": contender.num_parameters,
        "characters": chunks * FIRST,
        "first_tenth_ms_per_character": first,
        "last_tenth_ms_per_character": last,
        "last_to_first": last / first,
        "first_tenth_ms_anew": first_anew,
        "last_tenth_ms_anew": last_anew,
        "last_to_first_beside_anew": (last / last_anew) / (first / first_anew),
        "log_log_slope": float(slope),
        "resident_bytes_first": memory[0],
        "resident_bytes_last": memory[-1],
        "resident_bytes_most": max(memory),
        "seconds_up_to": {int(point) * FIRST: float(total[point - 1]) for point in points},
    }


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def progress(what: str, share: float, started: float) -> None:
    print(f"{what}: {share:.0%}, {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)


def surroundings() -> dict[str, str]:
    """What a figure is worth little without."""
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=Path(__file__).parent, capture_output=True, text=True
    )
    cpu = Path("/proc/cpuinfo")
    lines = cpu.read_text().splitlines() if cpu.exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": names[0] if names else platform.processor(),
        "torch": torch.__version__,
        "bytenet": __version__,
        "commit": described.stdout.strip() or "no git",
    }


def lengths_table(result: dict[str, Any]) -> str:
    lengths = result["models"][0]["ms_per_character"]
    lines = [
        f"CPU-milliseconds a character, averaged up to length N; chunks' medians over rounds: {result['rounds']}\n",
        f"| network | parameters | {' | '.join(f'{length:,}' for length in lengths)} | shape |",
        f"|---|---{'|---' * len(lengths)}|---|",
    ]
    for model in result["models"]:
        costs = " | ".join(f"{cost:.2f}" for cost in model["ms_per_character"].values())
        lines.append(f"| {model['name']} | {model['parameters'] / 1e6:.2f}M | {costs} | {model['shape']} |")
    return "\n".join(lines)


def flatness_table(result: dict[str, Any]) -> str:
    first, last = result["resident_bytes_first"] / 2**20, result["resident_bytes_last"] / 2**20
    return f"""\
| ByteNet, {result["shape"]}, {result["parameters"]:,} parameters | {result["characters"]:,} characters |
|---|---|
| CPU-milliseconds a character, first tenth | {result["first_tenth_ms_per_character"]:.3f} |
| last tenth | {result["last_tenth_ms_per_character"]:.3f} |
| last to first | {result["last_to_first"]:.3f} |
| texts that begin anew at those moments: beside the first tenth | {result["first_tenth_ms_anew"]:.3f} |
| beside the last tenth | {result["last_tenth_ms_anew"]:.3f} |
| last to first, each against those | {result["last_to_first_beside_anew"]:.3f} |
| slope of log time against log length | {result["log_log_slope"]:.4f} |
| resident memory after {FIRST} characters, MiB | {first:.1f} |
| after the last, MiB | {last:.1f} |"""


if __name__ == "__main__":
    main()
