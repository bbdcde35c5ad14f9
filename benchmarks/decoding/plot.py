"""What the next character costs against how many stand before it.

    python benchmarks/decoding/plot.py runs/decoding/lengths.json

Draws what `cost.py lengths --out` measured again, beside the file: .svg and .png.
"""

import json
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

NUM_POINTS = 24  # a line; chunks between two of them are averaged
ROW = 0.055  # the height of a label, as a share of the axis
COLOURS = {"ByteNet": ["#b2182b", "#ef8a62", "#7f7f7f"], "": ["#2166ac", "#1b7837", "#66bd63", "#762a83"]}


def main() -> None:
    source = Path(sys.argv[1])
    draw(json.loads(source.read_text()), source.with_suffix(""))


def draw(result: dict[str, Any], stem: Path) -> None:
    """Writes stem.svg and stem.png."""
    figure = Figure(figsize=(9, 5.2), layout="constrained")
    axes = figure.subplots()
    colours = {kind: iter(palette) for kind, palette in COLOURS.items()}
    ends = []
    for model in result["models"]:
        ours = model["name"].startswith("ByteNet")
        colour = next(colours["ByteNet" if ours else ""])
        positions, costs = thinned(np.array(model["ms_by_chunk"]), result["chunk"])
        axes.plot(positions, costs, color=colour, linewidth=2.4 if ours else 1.6)
        ends.append((costs[-1], model["name"], colour))
    axes.set(xscale="log", yscale="log", xlabel="characters before", ylabel="CPU-milliseconds for one character")
    for axis, ticks in (
        (axes.xaxis, 2.0 ** np.arange(2, 20)),
        (axes.yaxis, np.outer(10.0 ** np.arange(-2, 6), (1, 2, 5))),
    ):
        low, high = axis.get_view_interval()
        axis.set_ticks([tick for tick in ticks.flat if low <= tick <= high], minor=False)
        axis.set_major_formatter("{x:,g}")
        axis.set_minor_locator(NullLocator())
    axes.grid(which="major", color="#dddddd", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(
        f"Decoding, 10 million parameters each, {result['processor']}, one thread, float32, batch 1",
        loc="left",
        fontsize=10,
    )
    label(axes, positions[-1], ends)
    with rc_context({"svg.hashsalt": "decoding"}):  # the same figures make the same file
        figure.savefig(stem.with_suffix(".svg"), metadata={"Date": None})
    figure.savefig(stem.with_suffix(".png"), dpi=150)


def thinned(costs: np.ndarray, chunk: int) -> tuple[list[float], list[float]]:
    """Positions evenly spaced in their logarithm, and the mean cost around each."""
    edges = np.unique(np.geomspace(1, len(costs) + 1, NUM_POINTS + 1).round().astype(int)) - 1
    parts = list(pairwise(edges))
    return [(first + last) / 2 * chunk for first, last in parts], [costs[first:last].mean() for first, last in parts]


def label(axes: Any, position: float, ends: list[tuple[float, str, str]]) -> None:
    """Names at the ends of the lines, moved apart upwards where they would overlap."""
    low, high = np.log(axes.get_ylim())
    previous = -np.inf
    for cost, name, colour in sorted(ends):
        height = max((np.log(cost) - low) / (high - low), previous + ROW)
        axes.annotate(
            name,
            (position, cost),
            xytext=(1.02, height),
            textcoords="axes fraction",
            va="center",
            color=colour,
            fontsize=9,
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": colour,
                "linewidth": 0.7,
                "shrinkA": 0,
                "shrinkB": 2,
                "relpos": (0, 0.5),
            },
        )
        previous = height


if __name__ == "__main__":
    main()
