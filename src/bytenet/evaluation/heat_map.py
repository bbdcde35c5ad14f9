"""Fig. 6, its pictures: an explanation as PNG, as SVG, or as a page that needs nothing but itself."""

import json
import unicodedata
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bytenet.evaluation.explanation import Explanation, HeatMap

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

ENDINGS = (".png", ".svg", ".html")
PAGE = Path(__file__).with_name("heat_map.html")
SPACE, CIRCLE, MORE = "␣", "◌", "…"
LONGEST_LABEL = 24
WIDEST = 2  # letters of a label that stands upright over its column
FEW = 30  # rows or columns: so many have large cells
LARGE_CELL, SMALL_CELL = 0.26, 0.13  # inches; labels in the small ones have 7 points
LABEL_HEIGHT, LETTER_WIDTH = 0.7, 0.65  # of a cell; of the height
GAP = 0.7  # inches between two heat maps, labels not counted
BAR_GAP, BAR_WIDTH, BAR_HEIGHT = 0.15, 0.13, 3.0  # inches: of the bar of colours
OUT_OF_SIGHT = "#ececec"
GAMMA = 0.5  # of the colours where there are many: small shares can be seen, too
DPI, MOST_PIXELS = 110, 12_000  # to a side


def check_file(file: Path) -> None:
    """Before anything is computed for it."""
    if file.suffix.lower() not in ENDINGS:
        raise ValueError(f"{file}: heat maps are written to files that end in {', '.join(ENDINGS)}")
    if not file.parent.is_dir():
        raise ValueError(f"{file}: there is no folder {file.parent}")


def save_heat_maps(explanation: Explanation, file: Path) -> str:
    """Write the heat maps in the format that the file's name ends with; returns the characters it shows as boxes."""
    check_file(file)
    if file.suffix.lower() == ".html":
        file.write_text(page(explanation), encoding="utf-8")
        return ""
    _save_figure(draw(explanation), file)
    return without_glyph(explanation) if file.suffix.lower() == ".png" else ""


def panels(explanation: Explanation) -> list[tuple[str, HeatMap]]:
    """The heat maps with what their rows are, the upper one first."""
    from_source, from_target = explanation.from_source, explanation.from_target
    if from_source is None:
        return [("text before", from_target)]
    return [("source", from_source), ("target before", from_target)]


def has_few(explanation: Explanation) -> bool:
    """Whether there are so few words that cells can be large, and that shares are not small."""
    return max(len(labels) for _, found in panels(explanation) for labels in (found.inputs, found.outputs)) <= FEW


def gamma(explanation: Explanation) -> float:
    return 1.0 if has_few(explanation) else GAMMA


def shown(label: str) -> str:
    """A label that can be seen: spaces behind a word left out, others as a sign, what cannot be printed escaped."""
    kept = label.rstrip() or label
    signs = [character if character.isprintable() else ascii(character)[1:-1] for character in kept]
    text = "".join(SPACE if sign == " " else sign for sign in signs)
    if unicodedata.category(text[0]).startswith("M"):
        text = CIRCLE + text
    return text if len(text) <= LONGEST_LABEL else text[: LONGEST_LABEL - 1] + MORE


# Figures


def draw(explanation: Explanation) -> "Figure":
    """One heat map above the other, with cells of a size that labels can be read at."""
    from matplotlib.figure import Figure  # here: it takes a second that not every command should take

    maps = panels(explanation)
    outputs = [shown(output) for output in explanation.from_target.outputs]
    cell = LARGE_CELL if has_few(explanation) else SMALL_CELL
    gap = GAP + LETTER_WIDTH * LABEL_HEIGHT * cell * max(map(len, outputs))
    heights = [cell * len(found.inputs) for _, found in maps]
    width, height = cell * len(outputs), sum(heights) + gap * (len(maps) - 1)
    figure = Figure(figsize=(width, height))  # of the heat maps alone: saving adds what their labels need
    bottom = height
    for (what, found), own_height in zip(maps, heights, strict=True):
        bottom -= own_height
        axes = figure.add_axes((0, bottom / height, 1, own_height / height))
        bar_height = min(own_height, BAR_HEIGHT)
        bar_bottom = bottom + own_height - bar_height
        bar = figure.add_axes((1 + BAR_GAP / width, bar_bottom / height, BAR_WIDTH / width, bar_height / height))
        image = _draw_map(axes, found, explanation, 72 * LABEL_HEIGHT * cell)
        axes.set_ylabel(what)
        figure.colorbar(image, cax=bar, label="share")
        bottom -= gap
    return figure


def _draw_map(axes: "Axes", found: HeatMap, explanation: Explanation, font_size: float) -> "AxesImage":
    from matplotlib import colormaps
    from matplotlib.colors import PowerNorm

    shares = np.ma.masked_equal(found.shares, 0)  # out of sight, such as all that comes later
    colours = colormaps["YlGnBu"].with_extremes(bad=OUT_OF_SIGHT)
    scale = PowerNorm(gamma(explanation), vmin=0, vmax=found.shares.max() or 1.0)
    image = axes.imshow(shares, cmap=colours, norm=scale, aspect="auto", interpolation="none")
    inputs, outputs = ([shown(label) for label in labels] for labels in (found.inputs, found.outputs))
    style: dict[str, Any] = {"fontsize": font_size, "parse_math": False}  # a dollar is a dollar
    axes.set_xticks(range(len(outputs)), outputs, **style)
    axes.set_yticks(range(len(inputs)), inputs, **style)
    axes.tick_params(length=0, labeltop=True, labelbottom=False)
    for label in axes.get_xticklabels():
        label.set_rotation(90 if explanation.by == "word" or len(label.get_text()) > WIDEST else 0)
    axes.set_title("output", fontsize="medium")
    axes.spines[:].set_visible(False)
    return image


def _save_figure(figure: "Figure", file: Path) -> None:
    import matplotlib

    dpi = min(DPI, MOST_PIXELS / max(figure.get_size_inches()))
    with matplotlib.rc_context({"svg.fonttype": "none"}), warnings.catch_warnings():  # in SVG, text stays text
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(file, format=file.suffix[1:].lower(), dpi=dpi, bbox_inches="tight", pad_inches=0.15)


def without_glyph(explanation: Explanation) -> str:
    """The characters of all labels that the figures' font lacks; browsers find another font for them."""
    from matplotlib.font_manager import FontProperties, findfont, get_font

    font = get_font(findfont(FontProperties()))
    labels = {label for _, found in panels(explanation) for label in (*found.inputs, *found.outputs)}
    return "".join(sorted(sign for sign in set("".join(map(shown, labels))) if not font.get_char_index(ord(sign))))


# Page


def page(explanation: Explanation) -> str:
    """HTML that asks no other host for anything."""
    maps = [
        {
            "title": f"How each output (a column) depends on the {what} (rows)",
            "inputs": [shown(label) for label in found.inputs],
            "outputs": [shown(label) for label in found.outputs],
            "shares": [[float(f"{share:.4g}") for share in row] for row in found.shares],
        }
        for what, found in panels(explanation)
    ]
    data = json.dumps({"upright": 0 if explanation.by == "word" else WIDEST, "gamma": gamma(explanation), "maps": maps})
    return PAGE.read_text(encoding="utf-8").replace("DATA", data.replace("<", "\\u003c"))  # no text ends the script
