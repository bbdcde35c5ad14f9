"""`lengths`."""

from pathlib import Path
from typing import Annotated

import typer

from bytenet.cli.options import Json, print_result, say
from bytenet.talk import Talk


def lengths(
    file: Annotated[Path, typer.Argument(metavar="FILE.tsv", help="Pairs: source, tab, target; plain, .gz or .xz.")],
    out: Annotated[Path | None, typer.Option(metavar="PICTURE", help="Draw them; .png or .svg.")] = None,
    coverage: Annotated[
        float, typer.Option(help="The share of targets that a · source + b is to be greater than.")
    ] = 0.99,
    multiple: Annotated[
        int, typer.Option(help="Fit to sources padded to a multiple of this, as model.unfolding.multiple pads them.")
    ] = 1,
    in_bytes: Annotated[
        bool, typer.Option("--bytes", help="Count bytes, for a model with a vocabulary of bytes.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Say how the lengths of sources and targets go together, and which a and b unfolding should have."""
    from bytenet.evaluation.files import Unit, file_lengths, read_lengths
    from bytenet.evaluation.lengths import fit_unfolding
    from bytenet.evaluation.plots import check_picture, draw_lengths
    from bytenet.model.translator import UnfoldingFit

    unit: Unit = "bytes" if in_bytes else "characters"
    asked = UnfoldingFit(coverage=coverage, multiple=multiple)
    if out is not None:
        check_picture(out)
    talk = Talk(quiet=False)
    with talk.bar("reading", total=None):
        found, notes = read_lengths(file, unit=unit, watch=lambda pairs: talk.count(pairs, None, "pairs"))
    for note in notes:
        say(note)
    fitted = fit_unfolding(found, asked)
    if out is not None:
        draw_lengths(out, found, fitted, unit=unit)
    result = file_lengths(file, found, asked, fitted, unit=unit)
    if result["correlation"] is None:
        say("the correlation is undefined: all sources, or all targets, have one length")
    print_result(result, as_json=as_json)
