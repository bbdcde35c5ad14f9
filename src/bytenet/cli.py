"""The command line: parse, call, print.

Results go to stdout, talk to stderr; a user's mistake is one line and exit code 2.
"""

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

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

data_app = typer.Typer(help="Public corpora.", no_args_is_help=False)
app.add_typer(data_app, name="data")

Precision = Literal["float32", "bfloat16", "float64"]
Device = Annotated[str | None, typer.Option(metavar="DEVICE", help="cpu, cuda, ... [default: a GPU if there is one]")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A model's folder or a run's.")]
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
    if isinstance(error, ValueError | OSError | FloatingPointError):
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
    as_json: Json = False,
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


@app.command()
def train(
    recipe: Annotated[Path, typer.Argument(metavar="RECIPE", help="A recipe's file.")],
    out: Annotated[Path | None, typer.Option(help="The run's folder. [default: runs/ and the recipe's name]")] = None,
    overrides: Overrides = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the run's last checkpoint.")] = False,
    device: Device = None,
) -> None:
    """Train a model; its folder is then a model for every other command."""
    from bytenet.config import load_recipe
    from bytenet.training.trainer import train

    run = out or Path("runs") / recipe.stem
    outcome = train(load_recipe(recipe, overrides or ()), run, resume=resume, device=device)
    step = outcome.progress.step
    if outcome.stopped_by:
        _say(f"stopped after step {step:,}; resume with: bytenet train {run / 'recipe.toml'} --out {run} --resume")
        raise typer.Exit(128 + outcome.stopped_by)
    best = outcome.progress.best_bits
    _say(
        f"done after step {step:,}" + (f", {best:.4f} bits a symbol at best in validation" if best else "") + f": {run}"
    )


@app.command()
def evaluate(
    model: Model,
    bits: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Bits a byte and a character of a text, or of a TSV's targets.")
    ] = None,
    exact: Annotated[
        Path | None, typer.Option(metavar="FILE.tsv", help="The share of targets that greedy decoding writes exactly.")
    ] = None,
    chunk: Annotated[
        int, typer.Option(min=1, help="How much of a text is read at once; the result is the same.")
    ] = 65_536,
    precision: Annotated[Precision | None, typer.Option(help="[default: that of the weights]")] = None,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Measure a model on a file: exactly, with full context."""
    import torch

    from bytenet.device import choose_device
    from bytenet.evaluation.files import file_bits, file_exact
    from bytenet.model import Translator
    from bytenet.model_folder import load_model

    if bits is None and exact is None:
        raise ValueError("nothing to evaluate: --bits FILE or --exact FILE.tsv")
    loaded, vocabularies = load_model(model, device=choose_device(device))
    result: dict[str, Any] = {}
    if bits is not None:
        dtype = getattr(torch, precision) if precision else None
        result |= file_bits(loaded, vocabularies, bits, chunk=chunk, dtype=dtype)
    if exact is not None:
        if not isinstance(loaded, Translator):
            raise ValueError(f"{model}: --exact is for translators, and this is a language model")
        result |= file_exact(loaded, vocabularies, exact)
    if as_json:
        print(json.dumps(result))
    else:
        for name, value in result.items():
            print(f"{name:<20} {value:.6g}" if isinstance(value, float) else f"{name:<20} {value}")


@data_app.command("list")
def list_data() -> None:
    """Name the public corpora that can be fetched."""
    from bytenet.data.corpora import CORPORA

    for corpus in CORPORA.values():
        print(f"{corpus.name:<14} {corpus.description}\n{'':<14} {corpus.licence}; {corpus.home}")


@data_app.command("get")
def get_data(
    name: Annotated[str, typer.Argument(help="As `bytenet data list` has it.")],
    out: Annotated[Path, typer.Option(help="The folder to put it into.")] = Path("data"),
    home: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Fetch from a mirror.")] = None,
) -> None:
    """Fetch a public corpus; an interrupted fetch goes on where it stopped."""
    from bytenet.data.corpora import get

    for file in get(name, out, home=home):
        print(file)


def _say(line: str) -> None:
    print(line, file=sys.stderr)


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
