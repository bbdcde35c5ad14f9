"""Is resuming exact? Kill a run at random moments, resume it each time, and compare it with one that was left alone.

    python tests/kills.py [--kills 20] [--processes 1 2] [--kinds language-model translator] [--seed 0]

SIGKILL to every process of the run, so that nothing can be cleaned up. The moments lie anywhere: while starting up,
while training, while saving. Weights must come out bit-equal, and the metrics too.
"""

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bytenet.config import save_recipe
from bytenet.training.metrics import read_metrics
from tests.training.runs import KINDS, same_weights, small_recipe


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=1500)
    arguments = parser.parse_args()
    equal = True
    for processes in arguments.processes:
        for kind in arguments.kinds:
            with tempfile.TemporaryDirectory() as folder:
                equal &= check(kind, processes, Path(folder), arguments)
    return 0 if equal else 1


def check(kind: str, processes: int, folder: Path, arguments: argparse.Namespace) -> bool:
    steps, kills = arguments.steps, arguments.kills
    recipe = small_recipe(
        kind, folder, steps=steps, save_every=max(2, steps // 100), evaluate_every=max(2, steps // 10)
    )
    save_recipe(recipe, folder / "recipe.toml")
    starting = seconds_to_the_first_step(start(folder / "whole", processes, resume=False), folder / "whole")

    generator = random.Random(arguments.seed)
    equal, left, number = True, kills, 0
    while left and equal:  # a run that is done before the last kill is followed by another
        run, reached, number = folder / f"killed-{number}", [0], number + 1
        while left:
            process = start(run, processes, resume=(run / "recipe.toml").exists())
            if generator.random() < 0.2:  # while it starts
                time.sleep(starting * generator.random())
            else:
                wait_for_step(
                    process, run, min(steps - 1, reached[-1] + generator.randint(1, 2 * steps // (kills + 1)))
                )
                time.sleep(generator.uniform(0.0, 0.05))
            if process.poll() is not None:
                break
            kill(process, run)
            left -= 1
            reached.append(last_step(run))
        start(run, processes, resume=(run / "recipe.toml").exists()).wait()
        equal = all(same_weights(folder / "whole" / name, run / name) for name in ("last", "best"))
        equal &= losses(folder / "whole") == losses(run)
        verdict = "bit-equal" if equal else "DIFFERENT"
        print(
            f"{kind}, {processes} process(es): killed {len(reached) - 1} times, at steps {reached[1:]}: {verdict}",
            flush=True,
        )
    return equal


def kill(process: subprocess.Popen[bytes], run: Path) -> None:
    """Every process that was started for a run; torchrun's children are in groups of their own."""
    process.kill()
    process.wait()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # gone meanwhile
            if os.fsencode(run) in (folder / "cmdline").read_bytes().split(b"\0"):
                os.kill(int(folder.name), signal.SIGKILL)


def seconds_to_the_first_step(process: subprocess.Popen[bytes], run: Path) -> float:
    """Of a run that is left alone, to its end."""
    begin = time.monotonic()
    wait_for_step(process, run, 1)
    first = time.monotonic()
    process.wait()
    return first - begin


def wait_for_step(process: subprocess.Popen[bytes], run: Path, step: int) -> None:
    while process.poll() is None and last_step(run) < step:
        time.sleep(0.01)


def last_step(run: Path) -> int:
    return max((line["step"] for line in read_metrics(run / "metrics.jsonl")), default=0)


def start(run: Path, processes: int, *, resume: bool) -> subprocess.Popen[bytes]:
    """`bytenet train` in a group of processes of its own."""
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node", str(processes), "--master-port", free_port()]
    command = [sys.executable, *(launcher if processes > 1 else []), "-m", "bytenet", "train"]
    command += [
        str(run.parent / "recipe.toml"),
        "--out",
        str(run),
        "--device",
        "cpu",
        *(["--resume"] if resume else []),
    ]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    with (run.parent / "log").open("ab") as log:
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)


def free_port() -> str:
    import socket

    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        return str(opened.getsockname()[1])


def losses(run: Path) -> list[tuple[int, float]]:
    lines = read_metrics(run / "metrics.jsonl")
    return [(line["step"], line.get("bits", line.get("validation_bits"))) for line in lines]


if __name__ == "__main__":
    sys.exit(main())
