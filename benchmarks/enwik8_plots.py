"""The two pictures of a language model's run: bits against time, and bits against context.

    python benchmarks/enwik8_plots.py time docs/images/enwik8-time.svg "25 minutes=runs/enwik8-fast" "seed 1=runs/seed1"
    python benchmarks/enwik8_plots.py context docs/images/enwik8-context.svg "enwik8-fast=runs/context.json"

A run is given as LABEL=FOLDER, of which `metrics.jsonl` is read; a context as LABEL=FILE, which is what
`bytenet evaluate MODEL --bits FILE --context 8 --context 16 ... --json` printed.
"""

import json
import sys
from pathlib import Path

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from bytenet.training.metrics import METRICS, read_metrics

COLOURS = ["#b2182b", "#2166ac", "#1b7837", "#ef8a62", "#762a83"]
PAPER = 1.31  # bits a byte of the test split, Table 3 of the paper


def main() -> None:
    what, out, *given = sys.argv[1:]
    sources = [(label, Path(path)) for label, _, path in (each.partition("=") for each in given)]
    figure = Figure(figsize=(8, 4.6), layout="constrained")
    axes = figure.subplots()
    match what:
        case "time":
            draw_time(axes, sources)
        case "context":
            draw_context(axes, sources)
        case _:
            sys.exit(f"{what}: one of time and context")
    axes.grid(which="major", color="#dddddd", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="upper right")
    with rc_context({"svg.hashsalt": "enwik8"}):  # the same figures make the same file
        figure.savefig(out, metadata={"Date": None})


def draw_time(axes: Axes, runs: list[tuple[str, Path]]) -> None:
    """Training as a thin line, validation as points."""
    lowest, highest = PAPER, PAPER
    for (label, run), colour in zip(runs, COLOURS, strict=False):
        lines = read_metrics(run / METRICS)
        training = [(line["seconds"] / 60, line["bits"]) for line in lines if "bits" in line]
        validation = [(line["seconds"] / 60, line["validation_bits"]) for line in lines if "validation_bits" in line]
        axes.plot(*zip(*training, strict=True), color=colour, linewidth=0.6, alpha=0.35)
        axes.plot(*zip(*validation, strict=True), color=colour, marker="o", markersize=4, label=f"{label}, validation")
        lowest = min(lowest, *(bits for _, bits in training), *(bits for _, bits in validation))
        highest = max(highest, validation[0][1])
    paper_line(axes)
    axes.set(xlabel="minutes", ylabel="bits a byte", ylim=(lowest - 0.03, min(highest, lowest + 1) + 0.1))
    axes.set_title("enwik8 on one H200; thin: training batches", loc="left", fontsize=10)


def draw_context(axes: Axes, results: list[tuple[str, Path]]) -> None:
    for (label, file), colour in zip(results, COLOURS, strict=False):
        points = {int(context): bits for context, bits in json.loads(file.read_text())["bits_per_symbol"].items()}
        contexts = sorted(points)
        axes.plot(contexts, [points[c] for c in contexts], color=colour, marker="o", markersize=4, label=label)
    axes.set(xscale="log", xlabel="bytes of context", ylabel="bits a byte")
    axes.set_xticks(contexts, [f"{context:,}" for context in contexts])
    axes.xaxis.set_minor_locator(NullLocator())
    paper_line(axes)
    axes.set_title("enwik8, test split: what context is worth", loc="left", fontsize=10)


def paper_line(axes: Axes) -> None:
    axes.axhline(PAPER, color="#7f7f7f", linewidth=1, linestyle="--", label="the paper's 1.31 (test)")


if __name__ == "__main__":
    main()
