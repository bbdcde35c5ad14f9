"""What a run says of itself: metrics.jsonl, a curve, TensorBoard if it is installed."""

import contextlib
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bytenet.evaluation.bits import Bits
from bytenet.talk import Talk
from bytenet.training.checkpoint import Progress as RunProgress

METRICS, CURVE, TENSORBOARD = "metrics.jsonl", "loss.png", "tensorboard"


class Metrics:
    """The record of one run, of which only the first process writes."""

    def __init__(self, run: Path, *, since_step: int, tensorboard: bool = False) -> None:
        """What is on record beyond `since_step` is dropped: those steps are made again."""
        self.file = run / METRICS
        lines = [line for line in read_metrics(self.file) if line["step"] <= since_step]
        temporary = self.file.with_suffix(".partial")
        temporary.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="ascii")
        temporary.replace(self.file)
        self.tensorboard = open_tensorboard(run / TENSORBOARD) if tensorboard else None

    def add(self, step: int, **values: float) -> None:
        line = {"step": step, **values}
        with self.file.open("a", encoding="ascii") as file:
            file.write(json.dumps(line) + "\n")
        if self.tensorboard is not None:
            for name, value in values.items():
                self.tensorboard.add_scalar(name, value, step)

    def draw(self) -> None:
        """The curve of bits against steps, training and validation."""
        draw_curve(read_metrics(self.file), self.file.with_name(CURVE))


def read_metrics(file: Path) -> list[dict[str, Any]]:
    """Every whole line; a run that was killed may have left half a one."""
    lines = []
    if file.exists():
        for line in file.read_text(encoding="ascii").splitlines():
            with contextlib.suppress(ValueError):
                lines.append(json.loads(line))
    return lines


def draw_curve(lines: list[dict[str, Any]], file: Path) -> None:
    from matplotlib.figure import Figure  # here: it takes a second that not every command should take

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.add_subplot()
    highest = 0.0
    for name, label, marker in (("bits", "training", ""), ("validation_bits", "validation", "o")):
        points = [(line["step"], line[name]) for line in lines if name in line]
        if points:
            axes.plot(*zip(*points, strict=True), label=label, marker=marker, markersize=4, linewidth=1)
            values = sorted(value for _, value in points)
            highest = max(highest, values[int(0.95 * (len(values) - 1))])
    if highest:
        axes.set_ylim(0, 1.15 * highest)
        axes.legend(loc="upper right")
    axes.set_xlabel("step")
    axes.set_ylabel("bits a symbol")
    axes.grid(alpha=0.3)
    temporary = file.with_name(f".{file.name}")
    figure.savefig(temporary, format="png", dpi=120)
    os.replace(temporary, file)


def open_tensorboard(folder: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ValueError('training.tensorboard needs an extra: pip install "bytenet[tensorboard]"') from None
    return SummaryWriter(folder)  # type: ignore[no-untyped-call,unused-ignore]


@dataclass(frozen=True)
class StepResult:
    """One step, over all processes."""

    bits: float
    characters: int
    flops: int
    """0: not known."""


class Meter:
    """Adds up steps and reports them every so many."""

    def __init__(self, metrics: Metrics | None, talk: Talk, *, peak: float | None) -> None:
        """`peak` is the FLOP/s of the hardware, where they are known."""
        self.metrics, self.talk, self.peak = metrics, talk, peak
        self.steps: list[StepResult] = []
        self.since = time.perf_counter()
        self.validation = ""

    def count(self, result: StepResult) -> None:
        self.steps.append(result)

    def report(self, progress: RunProgress, share_done: float, learning_rate: float) -> None:
        seconds = time.perf_counter() - self.since
        values = {
            "bits": sum(step.bits for step in self.steps) / len(self.steps),
            "learning_rate": learning_rate,
            "characters_per_second": sum(step.characters for step in self.steps) / seconds,
            "seconds": progress.seconds,
        }
        state = (
            f"step {progress.step:,}: {values['bits']:.4f} bits, {values['characters_per_second']:,.0f} characters/s"
        )
        flops = sum(step.flops for step in self.steps)
        if self.peak and flops:
            values["share_of_peak"] = flops / seconds / self.peak
            state += f", {values['share_of_peak']:.0%} of peak"
        if self.metrics:
            self.metrics.add(progress.step, **values)
        self.talk.update(share_done, state + self.validation)
        self.start_anew()

    def validated(self, progress: RunProgress, bits: Bits) -> None:
        self.validation = f"; validation {bits.per_symbol:.4f}"
        if self.metrics:
            self.metrics.add(progress.step, validation_bits=bits.per_symbol, seconds=progress.seconds)
        self.talk.say(f"step {progress.step:,}: validation {bits.per_symbol:.4f} bits a symbol")
        self.start_anew()

    def start_anew(self) -> None:
        """Forget what was counted; what else took time since is nobody's speed."""
        self.steps, self.since = [], time.perf_counter()
