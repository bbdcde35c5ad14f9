"""Heat maps as files: whole, readable, and with nothing from elsewhere."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from bytenet.evaluation.explanation import BEGIN_LABEL, END_LABEL, Explanation, HeatMap
from bytenet.evaluation.heat_map import draw, page, save_heat_maps, shown

SOURCE, TARGET = ("pay ", "$3 ", "& ", "$4 ", "中"), ("</script> ", "<b>", "\t")


def explanation(source: tuple[str, ...] | None = SOURCE, target: tuple[str, ...] = TARGET) -> Explanation:
    generator = np.random.default_rng(0)
    outputs = (*target, END_LABEL)

    def heat_map(inputs: tuple[str, ...]) -> HeatMap:
        values = np.triu(generator.random((len(inputs), len(outputs))))
        return HeatMap(inputs=inputs, outputs=outputs, magnitudes=values)

    return Explanation(
        by="word",
        from_source=None if source is None else heat_map(source),
        from_target=heat_map((BEGIN_LABEL, *target)),
    )


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("word ", "word"),
        ("word\n\n", "word"),
        (" ", "␣"),
        ("  ", "␣␣"),
        ("\t", r"\t"),
        ("\n", r"\n"),
        ("\x1b", r"\x1b"),
        ("\u200b", r"\u200b"),
        ("\ud800", r"\ud800"),
        ("\\", "\\"),
        ("ä", "ä"),
        ("\u0308", "◌\u0308"),
        ("x" * 24, "x" * 24),
        ("x" * 25, "x" * 23 + "…"),
        (END_LABEL, END_LABEL),
    ],
)
def test_every_label_can_be_seen(label, expected):
    assert shown(label) == expected


def test_a_picture_is_written(tmp_path):
    boxes = save_heat_maps(explanation(), tmp_path / "map.PNG")
    assert (tmp_path / "map.PNG").read_bytes().startswith(b"\x89PNG")
    assert boxes == "中"


def test_text_stays_text_in_svg(tmp_path):
    assert save_heat_maps(explanation(), tmp_path / "map.svg") == ""
    texts = {element.text for element in ElementTree.parse(tmp_path / "map.svg").iter() if element.tag.endswith("text")}
    assert {*map(shown, (*SOURCE, *TARGET)), BEGIN_LABEL, END_LABEL} <= texts


def test_long_labels_are_turned_lest_they_overlap():
    upright = {"a": 0, r"\t": 0, r"\x1b": 90, END_LABEL: 0}
    for by, expected in (("character", upright), ("word", dict.fromkeys(upright, 90))):
        figure = draw(replace(explanation(target=("a", "\t", "\x1b")), by=by))
        for axes in figure.axes[::2]:  # beside each heat map there is a bar of colours
            labels = {label.get_text(): label.get_rotation() for label in axes.get_xticklabels()}
            assert labels == expected


class Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.data, self.inside, self.tags = "", False, []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.inside = ("id", "data") in attrs

    def handle_endtag(self, tag: str) -> None:
        self.inside = False

    def handle_data(self, data: str) -> None:
        self.data += data if self.inside else ""


def test_a_page_holds_all_values_and_asks_nobody(tmp_path):
    found = explanation()
    save_heat_maps(found, tmp_path / "map.html")
    text = (tmp_path / "map.html").read_text(encoding="utf-8")
    parsed = Page()
    parsed.feed(text)
    assert parsed.tags.count("script") == 2  # no label is taken for a tag
    assert "b" not in parsed.tags
    assert not re.search(r"//\w|src=|href=|@import|url\(", text.replace(parsed.data, ""))
    for heat_map, drawn in zip((found.from_source, found.from_target), json.loads(parsed.data)["maps"], strict=True):
        assert drawn["inputs"] == list(map(shown, heat_map.inputs))
        assert drawn["outputs"] == list(map(shown, heat_map.outputs))
        np.testing.assert_allclose(drawn["shares"], heat_map.shares, rtol=1e-3)


def test_a_language_model_has_one_heat_map():
    assert page(explanation(source=None)).count('"shares"') == 1


def test_a_map_of_many_characters_is_no_larger_than_a_picture_may_be(tmp_path):
    from PIL import Image

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr("bytenet.evaluation.heat_map.MOST_PIXELS", 600)
        save_heat_maps(explanation(tuple("abcde" * 8), tuple("ab")), tmp_path / "map.png")
    with Image.open(tmp_path / "map.png") as picture:
        assert 600 <= max(picture.size) < 900  # its labels come on top


@pytest.mark.parametrize("name", ["map.jpg", "map", "map.html.gz", ".png"])
def test_another_ending_is_refused(tmp_path, name):
    with pytest.raises(ValueError, match=r"end in \.png, \.svg, \.html"):
        save_heat_maps(explanation(), tmp_path / name)


def test_a_missing_folder_is_named():
    with pytest.raises(ValueError, match="there is no folder missing"):
        save_heat_maps(explanation(), Path("missing") / "map.png")


def test_few_cells_have_colours_by_their_shares_and_many_show_small_shares_too():
    few, many = explanation(), explanation(target=("a ",) * 40)
    for found, faint in ((few, 0.1), (many, 0.1**0.5)):
        image = draw(found).axes[0].images[0]
        assert image.norm(0.1 * image.norm.vmax) == pytest.approx(faint)
