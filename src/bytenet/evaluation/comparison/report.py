"""The measured table as Markdown and JSON; what was not measured is a dash."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bytenet.evaluation.comparison import Results
from bytenet.evaluation.comparison.cost import DIRECTIONS
from bytenet.evaluation.comparison.forms import CONSTANT
from bytenet.evaluation.comparison.plots import draw_accuracy, draw_time
from bytenet.evaluation.comparison.tasks import BEAM, TASKS

DASH = "–"
DIFFERENT = "≠"


def write_report(results: Results, out: Path) -> None:
    (out / "results.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    (out / "table.md").write_text(markdown(results), encoding="utf-8")
    draw_time(out / "time.png", results)
    draw_accuracy(out / "accuracy.png", results)


def markdown(results: Results) -> str:
    """All tables, one after the other."""
    parts = [
        "# Table 1, measured",
        conditions(results),
        "## Properties\nThe paper's cell, then ours; S and T are the lengths of source and target. Paths are those of "
        f"the farthest pair of an input and an output, in layer steps. {DIFFERENT}: they differ.",
        properties_table(results["rows"]),
        "## Exponents\nOf the cost of reading a source and a target, where one of them or both grow.",
        exponents_table(results["rows"]),
        *(part for task in TASKS for part in accuracy_part(results, task)),
    ]
    return "\n\n".join(parts) + "\n"


def conditions(results: Results) -> str:
    lesson, machine, versions = results["plan"]["lesson"], results["machine"], results["versions"]
    kind = "The quick form: rough numbers, little training." if results["plan"]["quick"] else "The full form."
    return (
        f"{kind} Training: {lesson['steps']:,} steps on strings of up to {lesson['max_length']} digits. "
        f"bytenet {versions['bytenet']}, torch {versions['torch']}, {machine['processors']} processors "
        f"({machine['processor']}), load {machine['load'][0]:.1f} at the beginning; {results['seconds']:,.0f} s in all."
    )


def properties_table(rows: Sequence[Results]) -> str:
    titles = ["model", "Net_S, Net_T", "Time", "RP", "Path_S", "Path_T", "gradients"]
    words = {True: "where paths are", False: f"{DIFFERENT} paths"}
    return table(
        titles,
        [
            [
                name_of(row),
                row["networks"],
                *(cell_of(row, column) for column in ("time", "resolution", "path_source", "path_target")),
                words.get(found(row, "gradients", "agree"), DASH),
            ]
            for row in rows
        ],
    )


def name_of(row: Results) -> str:
    return str(row["name"]) + ("" if row["stated"] else " (not in the paper)")


def cell_of(row: Results, column: str) -> str:
    """The paper's and ours; a path with its numbers."""
    paper = row["paper"][column]
    if "measured" not in row:
        return f"{paper}; {DASH}"
    measured = row["measured"][column]
    if column.startswith("path"):
        formula = row["paths"][column.removeprefix("path_")]["formula"]
        measured = formula if measured == CONSTANT else f"{measured} ({formula})" if formula != measured else measured
    return f"{paper}; {measured}" + ("" if row["agrees"][column] else f" {DIFFERENT}")


def exponents_table(rows: Sequence[Results]) -> str:
    titles = ["model", "parameters", "numbers a source token", "operations"]
    titles += [f"{how}: {name}" for how in ("counted", "clock") for name in DIRECTIONS]
    return table(
        titles,
        [
            [
                name_of(row),
                shown(found(row, "parameters"), "{:,}"),
                numbers_per_token(row),
                operations(row),
                *(shown(found(row, "exponents", name), "{:.2f}") for name in DIRECTIONS),
                *(shown(found(row, "clock", name, "exponent"), "{:.2f}") for name in DIRECTIONS),
            ]
            for row in rows
        ],
    )


def numbers_per_token(row: Results) -> str:
    if "numbers" not in row:
        return DASH
    (shorter, few), *_, (longer, many) = row["numbers"].items()
    return f"{(many - few) / (int(longer) - int(shorter)):.0f}"


def operations(row: Results) -> str:
    """The counted polynomial, without its constant."""
    terms = row.get("operations", {})
    return " + ".join(f"{value:,.0f} {name}" for name, value in terms.items() if name != "1") or DASH


def accuracy_part(results: Results, task: str) -> list[str]:
    lesson = results["plan"]["lesson"]
    lengths = [str(length) for length in lesson["lengths"]]
    longest = lesson["max_length"]
    words = (
        f"## Accuracy: {task}\nOf up to {lesson['strings']} strings of each length, not learnt from, how many are "
        f"written exactly by greedy decoding; lengths above {longest} were never trained on."
    )
    rows = [
        [
            name_of(row),
            *(shown(found(row, "tasks", task, "by_length", length, "exact"), "{:.0%}") for length in lengths),
            shown(found(row, "tasks", task, "exact_with_beam"), "{:.0%}"),
            shown(found(row, "tasks", task, "seconds"), "{:.0f} s"),
        ]
        for row in results["rows"]
    ]
    return [words, table(["model", *lengths, f"{longest}, beam {BEAM}", "training"], rows)]


def found(row: Any, *keys: str) -> Any:
    """None for what an interrupted run has not measured."""
    for key in keys:
        row = row.get(key, {})
    return None if row == {} else row


def shown(value: Any, pattern: str) -> str:
    return DASH if value is None else pattern.format(value)


def table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
