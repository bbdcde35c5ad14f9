"""Pictures of the comparison."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bytenet.evaluation.comparison import Results
from bytenet.evaluation.comparison.cost import ROWS, cost_of
from bytenet.evaluation.comparison.tasks import TASKS

COLOURS = {
    "RCTM 1": "#c7a76c",
    "RCTM 2": "#8c6d31",
    "RNN Enc-Dec": "#999999",
    "RNN Enc-Dec Att": "#555555",
    "Grid LSTM": "#e07b39",
    "Extended Neural GPU": "#b2182b",
    "Recurrent ByteNet, RNN": "#7fb8da",
    "Recurrent ByteNet, CNN": "#3a86c8",
    "ByteNet": "#08306b",
    "Transformer": "#2a9d55",
}
MARKERS = "osv^D*Xph<"
COUNTED_LENGTHS = 2 ** np.arange(4, 15)


def styles(results: Results) -> Iterator[tuple[Results, dict[str, Any]]]:
    """Each row with its look: the same in every picture, ByteNets in blue."""
    for row, marker in zip(results["rows"], MARKERS, strict=True):
        width = 2.2 if row["name"] == "ByteNet" else 1.2
        look = {"color": COLOURS[row["name"]], "marker": marker, "markersize": 4.5, "linewidth": width}
        yield row, look | {"label": row["name"]}


def draw_time(file: Path, results: Results) -> None:
    """Cost against length, source and target of the same length: operations counted, and seconds."""
    from matplotlib.figure import Figure  # here: it takes a second that not every command should take

    figure = Figure(figsize=(11, 5), layout="constrained")
    counted, clock = figure.subplots(1, 2)
    for row, look in styles(results):
        if "operations" in row:
            costs = [cost_of(row["operations"], int(n), int(n)) / n for n in COUNTED_LENGTHS]
            counted.plot(COUNTED_LENGTHS, costs, **look)
        if "clock" in row:
            points = row["clock"]["both"]
            per_token = np.array(points["costs"]) / np.array(points["lengths"]) * 1e6 / ROWS
            clock.plot(points["lengths"], per_token, **look)
    counted.set(ylabel="operations for each target token", title="counted")
    clock.set(ylabel="microseconds for each target token", title=f"by the clock: one thread, {ROWS} texts at once")
    for axes in (counted, clock):
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xlabel("tokens of the source, and of the target")
        finish(axes)
    save(figure, file, counted)


def draw_accuracy(file: Path, results: Results) -> None:
    """Strings written exactly, and digits in their place, against length."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 8), layout="constrained")
    panels = figure.subplots(2, 2, sharex=True, sharey=True)
    longest, lengths = (results["plan"]["lesson"][key] for key in ("max_length", "lengths"))
    for (measure, words), row_of_panels in zip(
        (("exact", "strings written exactly"), ("digits", "digits in their place")), panels, strict=True
    ):
        for task, axes in zip(TASKS, row_of_panels, strict=True):
            for row, look in styles(results):
                found = row.get("tasks", {}).get(task)
                if found:
                    axes.plot(lengths, [value[measure] for value in found["by_length"].values()], **look)
            axes.axvspan(0, longest + 0.5, color="#000000", alpha=0.06, linewidth=0)
            axes.set(title=f"{task}: {words}", ylim=(-0.03, 1.03), xlim=(lengths[0] - 0.5, None), xticks=lengths)
            axes.set_xlabel("digits (grey: lengths that were trained on)")
            axes.yaxis.set_major_formatter("{x:.0%}")
            finish(axes)
    save(figure, file, panels[0, 0])


def finish(axes: Any) -> None:
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)


def save(figure: Any, file: Path, labelled: Any) -> None:
    handles, labels = labelled.get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False, fontsize=9)
    figure.savefig(file, dpi=110)
