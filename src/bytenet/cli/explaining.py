"""`explain`."""

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from bytenet.cli.lines import check_utf8
from bytenet.cli.options import Device, Json, Precision, open_model, say
from bytenet.cli.writing import ModelName, Remarks
from bytenet.talk import Talk

STRONGEST = 3  # inputs of an output that are printed


def explain(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="A source; for a language model, the text itself.")],
    target: Annotated[
        str | None, typer.Option(help="What is explained.", show_default="the model's translation")
    ] = None,
    model: ModelName = "en-de",
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the heat maps, too: .png, .svg or .html.")
    ] = None,
    by: Annotated[Literal["word", "character"], typer.Option(help="What a row and a column is.")] = "word",
    precision: Precision = None,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Show what each output depends on, by gradients: on the source, and on the target before it.

    A source or a target has at most 500 symbols. A line is: output, the strongest inputs of the source, those of the
    target, with tabs between.
    """
    from bytenet.evaluation.heat_map import check_file, panels, save_heat_maps, shown

    check_utf8(text, "text")
    check_utf8(target or "", "--target")
    if out is not None:
        check_file(out)
    loaded = open_model(model, device, precision)
    talk = Talk(quiet=False)
    with talk.bar("explaining", total=None):
        found = loaded.explain(text, target, by, watch=lambda done, all_: talk.count(done, all_, "outputs"))
    Remarks().about(loaded, 1, text, None)
    if as_json:
        print(json.dumps({"model": model, **found.to_json()}))
    else:
        for number, output in enumerate(found.from_target.outputs):
            strongest = [heat_map.strongest(number, STRONGEST) for _, heat_map in panels(found)]
            columns = [", ".join(f"{shown(name)} {share:.0%}" for name, share in inputs) for inputs in strongest]
            print(shown(output), *columns, sep="\t")
    if out is not None:
        boxes = save_heat_maps(found, out)
        say(f"{out}: drawn" + (f"; its font lacks {boxes}, which .svg and .html show" if boxes else ""))
