"""Pictures of what was measured; PNG or SVG, as a file's name says."""

from pathlib import Path

import numpy as np

from bytenet.evaluation.lengths import PAPER_LINE, Lengths
from bytenet.model.translator import UnfoldingConfig

PICTURES = (".png", ".svg")
SHOWN = 0.999  # of the sources, and of the targets: a few very long ones would squeeze all others into a corner


def check_picture(file: Path) -> None:
    if file.suffix.lower() not in PICTURES:
        raise ValueError(f"{file}: a picture's name ends in {' or '.join(PICTURES)}")


def draw_lengths(file: Path, lengths: Lengths, fitted: UnfoldingConfig, *, unit: str) -> None:
    """Fig. 5: source against target lengths, how many pairs have them, the fitted line and the paper's."""
    from matplotlib import colormaps, colors, rc_context  # here: it takes a second that not every command should take
    from matplotlib.figure import Figure

    check_picture(file)
    longest = 1.05 * max(np.quantile(lengths.source, SHOWN), np.quantile(lengths.target, SHOWN)) + 1
    figure = Figure(figsize=(6.4, 6), layout="constrained")
    axes = figure.subplots()
    blues = colors.ListedColormap(colormaps["Blues"](np.linspace(0.35, 1, 128)))  # a lone pair is seen on white
    density = axes.hexbin(
        lengths.source, lengths.target, gridsize=90, extent=(0, longest, 0, longest), mincnt=1, linewidths=0.1,
        norm=colors.LogNorm(), cmap=blues,
    )  # fmt: skip
    figure.colorbar(density, ax=axes, label="pairs", shrink=0.8, format="{x:,.0f}")
    sources = np.arange(1, longest)
    for unfolding, name, style in ((fitted, "fitted", "-"), (PAPER_LINE, "the paper's", "--")):
        padded = np.array([unfolding.padded_length(int(source)) for source in sources])
        label = f"{name}: {_formula(unfolding)}, covers {lengths.coverage(unfolding):.1%}"
        axes.plot(sources, unfolding.a * padded + unfolding.b, style, color="#b2182b", linewidth=1.4, label=label)
    axes.set_title(_title(lengths, longest), loc="left", fontsize=10)
    axes.set(xlabel=f"source, {unit}", ylabel=f"target, {unit}", xlim=(0, longest), ylim=(0, longest), aspect="equal")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower left", frameon=False, fontsize=9)  # inside, it would hide pairs
    kind = file.suffix.lower().removeprefix(".")
    with rc_context({"svg.hashsalt": "lengths"}):  # the same lengths make the same file
        figure.savefig(file, format=kind, dpi=120, metadata={"Date": None} if kind == "svg" else None)


def _formula(unfolding: UnfoldingConfig) -> str:
    source = "source" if unfolding.multiple == 1 else f"(source to multiples of {unfolding.multiple})"
    return f"{unfolding.a:.4g} · {source}" + (f" + {unfolding.b:.4g}" if unfolding.b else "")


def _title(lengths: Lengths, longest: float) -> str:
    correlation, pairs = lengths.correlation(), len(lengths.source)
    outside = int((np.maximum(lengths.source, lengths.target) > longest).sum())
    return (
        ("correlation undefined" if correlation is None else f"correlation {correlation:.4f}")
        + f", {pairs:,} {'pair' if pairs == 1 else 'pairs'}"
        + (f"; {outside:,} beyond the axes" if outside else "")
    )
