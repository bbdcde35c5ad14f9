"""`train`, `pack` and `data`."""

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from bytenet.cli.options import Device, Json, Overrides, say

data_app = typer.Typer(help="Public corpora, and pairs kept apart for testing.", no_args_is_help=False)


def train(
    recipe: Annotated[Path, typer.Argument(metavar="RECIPE", help="A recipe's file.")],
    out: Annotated[
        Path | None, typer.Option(help="The run's folder.", show_default="runs/ and the recipe's name")
    ] = None,
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


def pack(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A run's folder or a model's, or a built-in model.")],
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where to put the model by itself.")],
    precision: Annotated[
        Literal["float32", "bfloat16", "int8"],
        typer.Option(help="Of the stored weights; bfloat16 takes half the space, int8 a quarter."),
    ] = "bfloat16",
    shard_megabytes: Annotated[
        int, typer.Option(min=1, help="No file of weights larger than this, unless a single tensor is.")
    ] = 2000,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change how it is searched, such as decoding.beam=8."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a model by itself, without what training needs: to ship, or to hand on."""
    from bytenet.model_folder import find_named, load_decoding_config, load_model, save_model

    packed = find_named(model)
    decoding = load_decoding_config(packed, overrides or ())
    loaded, vocabularies = load_model(packed)
    save_model(
        loaded, vocabularies, folder,
        decoding=decoding, precision=precision, shard_bytes=shard_megabytes * 10**6,
    )  # fmt: skip
    sizes = [file.stat().st_size for file in folder.iterdir()]
    result = {"folder": str(folder), "precision": precision, "files": len(sizes), "bytes": sum(sizes)}
    print(json.dumps(result) if as_json else f"{folder}: {sum(sizes):,} bytes")


@data_app.command("list")
def list_data() -> None:
    """Name the public corpora that can be fetched."""
    from bytenet.data.corpora import CORPORA

    for corpus in CORPORA.values():
        print(f"{corpus.name:<14} {corpus.description}\n{'':<14} {corpus.licence}; {corpus.home}")
        if corpus.then:
            print(f"{'':<14} then: {corpus.then}")


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


@data_app.command("hold-out")
def hold_out_pairs(
    file: Annotated[Path, typer.Argument(metavar="FILE.tsv", help="Source, tab, target; plain, .gz or .xz.")],
    out: Annotated[Path, typer.Option(help="The folder for train.tsv and test.tsv.")],
    pairs: Annotated[int, typer.Option(help="How many to hold out, of different sources.")] = 1000,
    seed: Annotated[int, typer.Option(help="Another seed holds out others.")] = 0,
) -> None:
    """Keep pairs apart for testing; no source among them is left to train on."""
    from bytenet.data.holding_out import hold_out

    held_out = hold_out(file, out, pairs, seed=seed)
    print(f"{out}: {held_out.train:,} pairs to train on, {held_out.test:,} to test, {held_out.dropped:,} dropped")
