"""The report: cells beside the paper's, marks where they differ, dashes where nothing was measured."""

import json
from dataclasses import asdict

from bytenet.evaluation.comparison.comparing import FULL, agreement, first_facts
from bytenet.evaluation.comparison.report import markdown, write_report
from bytenet.evaluation.comparison.rows import ROWS, Cells, cells


def empty() -> dict:
    return {
        "rows": [first_facts(row) for row in ROWS],
        "plan": asdict(FULL),
        "machine": {"processor": "abacus", "processors": 2, "load": [0.5, 0.4, 0.3]},
        "versions": {"bytenet": "1", "torch": "2"},
        "seconds": 61.2,
    }


def filled() -> dict:
    results = empty()
    for row in results["rows"]:
        paths = {name: {"cell": "T", "formula": "0.5 T", "error": 0} for name in ("source", "target", "nearest")}
        accuracy = {str(length): {"exact": 0.5, "digits": 0.75} for length in FULL.lesson.lengths}
        measured = cells("S² + T", "no", "T", "T")
        row |= {
            "parameters": 1234,
            "operations": {"1": 3, "S": 20, "T": 5000, "S²": 0.5},
            "exponents": {"source": 2.0, "target": 1.0, "both": 1.987},
            "numbers": {"5": 100, "9": 140},
            "paths": paths,
            "gradients": {"agree": True},
            "measured": asdict(measured),
            "agrees": agreement(Cells(**row["paper"]), measured),
            "clock": {
                name: {"lengths": [16], "costs": [0.1], "exponent": None} for name in ("source", "target", "both")
            },
            "tasks": {
                task: {"by_length": accuracy, "exact_with_beam": 0.25, "seconds": 33.3} for task in ("copy", "reverse")
            },
        }
    return results


def line_of(text: str, heading: str, name: str) -> list[str]:
    part = text.partition(f"## {heading}")[2].partition("##")[0]
    (line,) = (line for line in part.splitlines() if line.startswith(f"| {name} |"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_each_cell_stands_beside_the_papers():
    text = markdown(filled())
    assert line_of(text, "Properties", "RCTM 1") == [
        "RCTM 1", "CNN, RNN", "S² + T; S² + T", "no; no", "S; T (0.5 T) ≠", "T; T (0.5 T)", "where paths are",
    ]  # fmt: skip
    assert "ST; S² + T ≠" in line_of(text, "Properties", "Grid LSTM")
    assert "Transformer (not in the paper)" in text
    assert line_of(text, "Exponents", "RCTM 1") == [
        "RCTM 1", "1,234", "10", "20 S + 5,000 T + 0 S²", "2.00", "1.00", "1.99", "–", "–", "–",
    ]  # fmt: skip
    assert line_of(text, "Accuracy: copy", "ByteNet") == ["ByteNet", *["50%"] * 11, "25%", "33 s"]


def test_what_was_not_measured_is_a_dash():
    text = markdown(empty())
    assert line_of(text, "Properties", "ByteNet")[2:] == ["cS + cT; –", "yes; –", "c; –", "c; –", "–"]
    assert set(line_of(text, "Accuracy: reverse", "ByteNet")[1:]) == {"–"}


def test_files(tmp_path):
    results = filled()
    write_report(results, tmp_path)
    assert json.loads((tmp_path / "results.json").read_text()) == json.loads(json.dumps(results))
    assert (tmp_path / "table.md").read_text() == markdown(results)
    for name in ("time.png", "accuracy.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


def test_constants_agree_whatever_they_are_called():
    measured = cells("S + T", "yes", "constant", "constant")
    assert all(agreement(cells("cS + cT", "yes", "c", "c"), measured).values())
    assert all(agreement(cells("S + T", "yes", "1", "1"), measured).values())
    assert agreement(cells("ST", "no", "S", "T"), measured) == dict.fromkeys(asdict(measured), False)
