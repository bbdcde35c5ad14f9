"""The command line: parse, call, print.

Results go to stdout, talk to stderr; a user's mistake is one line and exit code 2.
"""

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from bytenet import __version__

app = typer.Typer(
    help="Sequence models that read and write characters in linear time.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a key of the recipe, such as model.inner_channels=64."),
]


def main() -> None:
    """Run the command; `BYTENET_TRACEBACK=1` shows where in the code a mistake was noticed."""
    try:
        status = app(standalone_mode=False)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # the reader of a pipe has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:
        message = _mistake(error)
        if message is None or os.environ.get("BYTENET_TRACEBACK"):
            raise
        print(f"bytenet: {message}", file=sys.stderr)
        sys.exit(2)
    sys.exit(status or 0)


def _mistake(error: Exception) -> str | None:
    """One line about a user's mistake; None for a fault of the program."""
    if hasattr(error, "format_message"):  # what the command line's parser raises
        hint = getattr(getattr(error, "ctx", None), "command_path", "bytenet")
        return f"{error.format_message().rstrip('.')} (see {hint} --help)"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, ValueError | OSError):
        return " ".join(str(error).split())
    return None


@app.callback(invoke_without_command=True)
def version(
    context: typer.Context,
    show: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False,
) -> None:
    if show:
        print(f"bytenet {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command()
def describe(
    model: Annotated[Path, typer.Argument(metavar="RECIPE_OR_MODEL", help="A recipe's file or a model's folder.")],
    overrides: Overrides = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say what a network is: parameters, receptive field, blocks, state, cost a character."""
    from bytenet.config import load_recipe
    from bytenet.describe import describe
    from bytenet.model_folder import load_model_config

    if model.is_dir():
        if overrides:
            raise ValueError(f"{model}: --set changes a recipe, and this is a model's folder")
        config = load_model_config(model)
    else:
        config = load_recipe(model, overrides or ()).model
    description = describe(config)
    if as_json:
        print(json.dumps(description))
    else:
        _print_description(str(model), description)


def _print_description(name: str, description: dict[str, Any]) -> None:
    table = Table(title=f"{name}: {description['kind']}", show_header=False, title_justify="left")
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    table.add_row("parameters", f"{description['parameters']:,}")
    for part, count in description["parameters_by_part"].items():
        table.add_row(f"  {part}", f"{count:,}")
    for side in ("encoder", "decoder"):
        if side in description:
            table.add_row(side, _stack_line(description[side], description["inner_channels"]))
    table.add_row("receptive field", f"{description['receptive_field']} target characters, exact")
    if "encoder" in description:
        beside = description["encoder"]["receptive_field"] // 2
        table.add_row(
            "  encoder", f"{description['encoder']['receptive_field']} source characters, {beside} to each side"
        )
        unfolding = description["unfolding"]
        line = (
            f"{unfolding['a']:g} · (source length to the next multiple of {unfolding['multiple']}) + {unfolding['b']:g}"
        )
        table.add_row("unfolding", line)
        table.add_row("representation", f"{description['representation_bytes_per_position']:,} bytes a position")
        costs = description["flops_per_source_position"]
        table.add_row("FLOPs a source position", f"{costs['training']:,} in training, {costs['encoding']:,} to encode")
    table.add_row("state", f"{description['state_bytes_per_row']:,} bytes a row, in float32")
    costs = description["flops_per_character"]
    table.add_row("FLOPs a character", f"{costs['training']:,} in training, {costs['decoding']:,} in decoding")
    Console().print(table)


def _stack_line(stack: dict[str, Any], inner_channels: int) -> str:
    """Blocks and dilations; a scheme that repeats is printed once."""
    dilations, number = stack["dilations"], stack["num_blocks"]
    period = next(n for n in range(1, number + 1) if dilations == (dilations[:n] * number)[:number])
    scheme = ", ".join(map(str, dilations[:period])) + (", repeated" if period < number else "")
    width = stack["kernel_width"]
    return f"{number} {stack['block']} blocks, d = {inner_channels}, kernel width {width}, dilations {scheme}"
