"""`train` and `data`."""

from pathlib import Path
from typing import Annotated

import typer

from bytenet.cli.options import Device, Overrides, say

data_app = typer.Typer(help="Public corpora.", no_args_is_help=False)


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
        say(f"stopped after step {step:,}; resume with: bytenet train {run / 'recipe.toml'} --out {run} --resume")
        raise typer.Exit(128 + outcome.stopped_by)
    best = outcome.progress.best_bits
    say(
        f"done after step {step:,}" + (f", {best:.4f} bits a symbol at best in validation" if best else "") + f": {run}"
    )


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
