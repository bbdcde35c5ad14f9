"""`compare`."""

from pathlib import Path
from typing import Annotated

import typer

from bytenet.cli.options import Json
from bytenet.talk import Talk


def compare(
    out: Annotated[Path, typer.Option(help="The folder for tables, numbers, plots and the trained models.")] = Path(
        "runs/compare"
    ),
    quick: Annotated[
        bool, typer.Option("--quick", help="Shorter texts and little training: two minutes, and rough numbers.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Measure the paper's Table 1: ten models by time, resolution, paths, and what they learn."""
    import json

    from bytenet.evaluation.comparison.comparing import FULL, QUICK
    from bytenet.evaluation.comparison.comparing import compare as measure
    from bytenet.evaluation.comparison.report import markdown

    results = measure(out, QUICK if quick else FULL, Talk(quiet=False))
    print(json.dumps(results) if as_json else markdown(results), end="\n" if as_json else "")
