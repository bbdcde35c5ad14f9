"""explain as a user meets it: a table, JSON or pictures, mistakes in one line."""

import json
from pathlib import Path

import pytest

from bytenet import save_model
from tests.test_pipeline import LETTERS, language_model, translator


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    save_model(translator(end=2.0), [LETTERS] * 2, folder / "pairs")
    save_model(language_model(), [LETTERS], folder / "text")
    return {name: folder / name for name in ("pairs", "text")}


def test_a_line_an_output(run, models):
    status, out, err = run("explain", "abc de", "--model", models["pairs"], "--target", "ab c")
    assert (status, err) == (0, "")
    rows = [line.split("\t") for line in out.splitlines()]
    assert [row[0] for row in rows] == ["ab", "c", "■"]
    for _, of_source, of_target in rows:
        assert {entry.split()[0] for entry in of_source.split(", ")} <= {"abc", "de"}
        assert {entry.split()[0] for entry in of_target.split(", ")} <= {"▸", "ab", "c"}


def test_the_translation_is_explained(run, models):
    _, translation, _ = run("translate", "abc", "--model", models["pairs"])
    _, out, _ = run("explain", "abc", "--model", models["pairs"], "--json")
    found = json.loads(out)
    assert "".join(found["from_source"]["outputs"]).removesuffix("■") == translation.removesuffix("\n")
    assert [sum(column) for column in zip(*found["from_source"]["shares"], strict=True)] == pytest.approx(
        [1] * len(found["from_source"]["outputs"])
    )


@pytest.mark.parametrize("ending", ["png", "html"])
def test_a_language_models_text_is_drawn(run, models, tmp_path, ending):
    file = tmp_path / f"map.{ending}"
    status, out, err = run("explain", "ab cd", "--model", models["text"], "--out", file, "--by", "character")
    assert (status, err) == (0, f"{file}: drawn\n")
    assert [line.split("\t")[0] for line in out.splitlines()] == ["a", "b", "␣", "c", "d"]
    assert file.stat().st_size > 1000


def test_unknown_symbols_are_counted(run, models):
    status, _, err = run("explain", "aX", "--model", models["pairs"], "--target", "a")
    assert (status, err) == (0, "text 1: unknown to the model: 1 of 2 symbols\n")


@pytest.mark.parametrize(
    ("model", "arguments", "message"),
    [
        ("pairs", [], "Missing argument 'TEXT'"),
        ("pairs", [""], "the source is empty"),
        ("text", [""], "the text is empty"),
        ("pairs", ["a" * 20_000], "the source has 20,000 symbols, and at most 500 can be explained"),
        ("pairs", ["a", "--target", "a" * 501], "the target has 501 symbols"),
        ("pairs", ["a", "--out", "map.gif"], "map.gif: heat maps are written to files that end in"),
        ("pairs", ["a", "--out", "missing/map.png"], "there is no folder missing"),
        ("pairs", ["a\udcff"], "text: not UTF-8"),
        ("pairs", ["a", "--target", "\udcff"], "--target: not UTF-8"),
        ("pairs", ["a", "--by", "letter"], "letter"),
        ("text", ["a", "--target", "b"], "a language model explains a text and takes no target"),
    ],
)
def test_a_mistake_is_one_line(run, models, model, arguments, message):
    status, out, err = run("explain", *arguments, "--model", models[model])
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert message in err
