"""Recipes: TOML in, frozen dataclasses out, and back.

A recipe is checked as a whole before anything runs (tables.py). One that begins with a model (`training.begins_with`)
has that model's network and search, but for the keys that it names itself.
"""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bytenet.data.config import DataConfig
from bytenet.decoding.config import DecodingConfig
from bytenet.model import ModelConfig
from bytenet.model_folder import find_named, load_decoding_config, load_model_config
from bytenet.tables import Reader, to_table, toml_lines
from bytenet.training.config import TrainingConfig


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One file a run."""

    description: str = ""
    """What the run is for, in a sentence."""
    model: ModelConfig
    """The network; its `kind` says which other keys there are."""
    data: DataConfig | None = None
    """What it learns from; its `kind` says which other keys there are."""
    training: TrainingConfig = TrainingConfig()
    """How it learns."""
    decoding: DecodingConfig = DecodingConfig()
    """How the model wants to be used."""


def load_recipe(file: Path, overrides: Iterable[str] = ()) -> Recipe:
    """Read a recipe's file; each override is `a.b=value` and wins over the file."""
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise ValueError(f"{file}: not UTF-8 at byte {error.start}") from None
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{file}: not TOML: {error}") from None
    reader = Reader(str(file))
    for override in overrides:
        reader.override(table, override)
    training = table.get("training")
    if isinstance(training, dict) and training.get("begins_with"):
        table = _merged(_begun_table(training["begins_with"], reader), table)
    return reader.read(Recipe, table)


def save_recipe(recipe: Recipe, file: Path) -> None:
    """Write a recipe with every key, so that the run stays what it was when defaults change."""
    file.write_text("\n".join(toml_lines(to_table(recipe))) + "\n", encoding="utf-8")


def _begun_table(name: Any, reader: Reader) -> dict[str, Any]:
    """What a recipe takes from the model that it begins with."""
    try:
        folder = find_named(str(name))
        return {"model": to_table(load_model_config(folder)), "decoding": to_table(load_decoding_config(folder))}
    except ValueError as error:
        raise reader.error("training.begins_with", str(error)) from None


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Both tables' keys, down to the deepest; the upper one's where they differ."""
    merged = below | above
    for key in below.keys() & above.keys():
        if isinstance(below[key], dict) and isinstance(above[key], dict):
            merged[key] = _merged(below[key], above[key])
    return merged
