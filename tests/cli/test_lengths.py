"""`bytenet lengths` as a user meets it: numbers on stdout, a picture, mistakes in one line."""

import json

import pytest

from tests.data.strategies import write

PAIRS = [
    ("a dog", "ein Hund"),
    ("yes", "ja"),
    ("the small birds sing", "die kleinen Vögel singen"),
    ("cheers", "Prost"),
]
TSV = "".join(f"{source}\t{target}\n" for source, target in PAIRS)


@pytest.mark.parametrize("packed", ["", ".xz"])
@pytest.mark.parametrize(("unit", "size"), [("characters", len), ("bytes", lambda text: len(text.encode()))])
def test_numbers_of_a_file(run, tmp_path, unit, size, packed):
    file = write(tmp_path, f"pairs.tsv{packed}", TSV)
    options = ["--bytes"] if unit == "bytes" else []
    status, out, err = run("lengths", file, "--json", "--coverage", "0.75", *options)
    result = json.loads(out)
    assert (status, err) == (0, "")
    lengths = [(size(source), size(target)) for source, target in PAIRS]
    assert result["pairs"] == 4
    assert result["mean_target"] == sum(target for _, target in lengths) / 4
    covered = [result["a"] * source + result["b"] > target for source, target in lengths]
    assert sum(covered) / 4 == result["coverage"] >= 0.75
    assert result["paper_coverage"] == sum(1.2 * source > target for source, target in lengths) / 4
    assert result["paper_padded_coverage"] == 1  # 60 positions for each
    assert f"data:pairs.tsv{packed}|unit:{unit}|coverage:0.75|multiple:1" in result["signature"]


def test_a_fit_to_padded_sources(run, tmp_path):
    file = write(tmp_path, "pairs.tsv", TSV)
    result = json.loads(run("lengths", file, "--json", "--coverage", "1", "--multiple", "10")[1])
    assert (result["coverage"], result["multiple"]) == (1, 10)
    positions = [result["a"] * (20 if len(source) > 10 else 10) + result["b"] for source, _ in PAIRS]
    assert all(held > len(target) for held, (_, target) in zip(positions, PAIRS, strict=True))


@pytest.mark.parametrize(
    ("tsv", "name", "magic"),
    [
        pytest.param(TSV, "plot.png", b"\x89PNG", id="png"),
        pytest.param("one\tpair\n", "plot.SVG", b"<?xml", id="svg-of-one-pair"),
    ],
)
def test_a_picture_is_drawn_as_its_name_says(run, tmp_path, name, magic, tsv):
    status, out, _ = run("lengths", write(tmp_path, "pairs.tsv", tsv), "--out", tmp_path / name)
    assert status == 0
    assert "correlation" in out
    assert (tmp_path / name).read_bytes().startswith(magic)


def test_where_all_sources_have_one_length_the_correlation_is_undefined(run, tmp_path):
    file = write(tmp_path, "pairs.tsv", "one\teins\ntwo\tzwei\n\tnothing\n\nsix\tsechs\n")
    status, out, err = run("lengths", file, "--json")
    assert status == 0
    assert json.loads(out)["correlation"] is None
    assert json.loads(out)["pairs"] == 3
    assert "dropped 2 of 5 pairs: an empty side" in err
    assert "correlation is undefined" in err
    assert "undefined" in run("lengths", file)[1]


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("", [], "pairs.tsv: empty"),
        ("\n\t\n", [], "no pair is left; dropped 2 of 2 pairs: an empty side"),
        ("a\tb\nno tab\n", [], "line 2: no tab between a source and a target"),
        (b"a\tb\n\xff\tc\n", [], "line 2: not UTF-8"),
        (TSV, ["--out", "plot.jpg"], "plot.jpg: a picture's name ends in .png or .svg"),
        (TSV, ["--out", "missing/plot.png"], "missing/plot.png: No such file or directory"),
        (TSV, ["--coverage", "1.5"], "coverage must be more than 0 and at most 1, not 1.5"),
        (TSV, ["--coverage", "0"], "coverage must be more than 0 and at most 1, not 0.0"),
        (TSV, ["--multiple", "0"], "multiple must be at least 1, not 0"),
        (TSV, ["--coverge", "1"], "--coverge"),
    ],
)
def test_a_mistake_is_one_line(run, tmp_path, content, options, message):
    status, out, err = run("lengths", write(tmp_path, "pairs.tsv", content), *options)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert run("lengths", tmp_path / "missing.tsv")[0] == 2
