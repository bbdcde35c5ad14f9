"""What several commands share."""

import json
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from bytenet.pipeline import Pipeline

MODELS_OWN = "as the model's recipe has it"

Precision = Annotated[
    Literal["float32", "bfloat16", "float64"] | None,
    typer.Option(help="Of the activations.", show_default="on a GPU bfloat16 to write, else that of the weights"),
]
Device = Annotated[
    str | None, typer.Option(metavar="DEVICE", help="cpu, cuda, ...", show_default="a GPU if there is one")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Beam = Annotated[
    int | None,
    typer.Option(min=1, help="Hypotheses that are followed at once; 1 is greedy.", show_default=MODELS_OWN),
]
LengthPenalty = Annotated[
    float | None,
    typer.Option(
        min=0,
        help="Divide log-likelihoods by ((5 + length) / 6) to this power; 0: do not.",
        show_default=MODELS_OWN,
    ),
]
MaxLength = Annotated[
    int | None, typer.Option(min=1, help="Of a translation, in symbols.", show_default="by the source's length")
]
Batch = Annotated[int | None, typer.Option(min=1, help="Texts at once.", show_default="what memory allows")]
Split = Annotated[
    int | None,
    typer.Option(
        min=0,
        help="Sentence by sentence, at most so many characters at a time; 0: lines as they are.",
        show_default=MODELS_OWN,
    ),
]
Recase = Annotated[
    bool | None,
    typer.Option(
        "--recase/--no-recase",
        help="Read what is in capitals, or begins with a small letter, as a sentence, too; take the likelier.",
        show_default=MODELS_OWN,
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a key of the recipe, such as model.inner_channels=64."),
]


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def print_result(result: dict[str, Any], *, as_json: bool) -> None:
    """Numbers on stdout: as JSON, or one a line."""
    if as_json:
        print(json.dumps(result))
        return
    lines = list(_flat(result))
    width = max(20, *(len(name) for name, _ in lines))
    for name, value in lines:
        shown = "undefined" if value is None else f"{value:.6g}" if isinstance(value, float) else value
        print(f"{name:<{width}} {shown}")


def _flat(result: dict[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Signatures are a table in the table."""
    for name, value in result.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{name}.")
        else:
            yield path + name, value


def open_model(name: str, device: str | None, precision: str | None) -> "Pipeline":
    import torch

    from bytenet.device import choose_threads
    from bytenet.pipeline import load

    loaded = load(name, device=device, precision=getattr(torch, precision) if precision else None)
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(choose_threads(loaded.model))
    return loaded
