"""`bytenet compare` as a user meets it."""

import json
import time

import pytest

from bytenet.evaluation.comparison import comparing


def test_a_folder_that_holds_something_is_left_alone(run, tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    for out in (tmp_path, tmp_path / "mine.txt"):
        status, printed, err = run("compare", "--out", out)
        assert (status, printed, err.count("\n")) == (2, "", 1)
        assert "exists; another --out begins a new comparison" in err
    assert (tmp_path / "mine.txt").read_text() == "mine"


def test_what_is_known_when_it_is_interrupted_is_written(run, tmp_path, monkeypatch):
    def counted(results, talk):
        for row in results["rows"]:
            row["parameters"] = 77

    def interrupted(results, plan, talk):
        raise KeyboardInterrupt

    monkeypatch.setattr(comparing, "measure_properties", counted)
    monkeypatch.setattr(comparing, "measure_clock", interrupted)
    status, out, err = run("compare", "--out", tmp_path / "new" / "folder")
    assert (status, out) == (130, "")
    assert "table.md" in err
    results = json.loads((tmp_path / "new" / "folder" / "results.json").read_text())
    assert {row["parameters"] for row in results["rows"]} == {77}
    assert "| ByteNet | 77 | – |" in (tmp_path / "new" / "folder" / "table.md").read_text()


@pytest.mark.slow
def test_the_quick_form(run, tmp_path):
    begun = time.process_time()
    status, out, err = run("compare", "--quick", "--out", tmp_path / "compare", "--json")
    assert status == 0, err
    assert time.process_time() - begun < 60  # of this process; training is in others
    results = json.loads(out)
    for row in results["rows"]:
        assert row["tasks"]["copy"]["by_length"]["4"]["exact"] > 0.5, row["name"]
    assert "The quick form" in (tmp_path / "compare" / "table.md").read_text()
