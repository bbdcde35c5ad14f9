"""Runs that begin with a model: its weights, its vocabularies, its network and its search, with other data."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from bytenet.config import Recipe, load_recipe, save_recipe
from bytenet.decoding.config import DecodingConfig
from bytenet.model_folder import (
    load_decoding_config,
    load_model,
    load_model_config,
    load_vocabularies,
    load_weights,
    save_model,
)
from bytenet.training.trainer import train
from tests.training.runs import same_weights, small_recipe

SEARCH = DecodingConfig(beam=3, languages=("xx", "yy"))


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    """A translator of digits."""
    folder = tmp_path_factory.mktemp("base")
    recipe = small_recipe("translator", folder)
    train(replace(recipe, decoding=SEARCH), folder / "run")
    return folder / "run"


def further(folder: Path, base: Path, *overrides: str, pairs: str = "12\t21\n34\t43\n") -> Recipe:
    """A recipe's file without [model], read."""
    (folder / "pairs.tsv").write_text(pairs * 20, encoding="utf-8")
    file = folder / "further.toml"
    file.write_text(
        f'[data]\nkind = "pairs"\ntrain = "{folder / "pairs.tsv"}"\nvalidation = "{folder / "pairs.tsv"}"\n'
        f'[training]\nbegins_with = "{base}"\nsteps = 6\nbatch_characters = 300\nsave_every = 3\nevaluate_every = 3\n'
        'learning_rate = 0.01\noptimizer = "muon"\nlookahead = 1\n'
    )
    return load_recipe(file, overrides)


def test_the_first_weights_the_network_and_the_search_are_the_models(base, tmp_path):
    rates = ("training.learning_rate=1e-12", "training.matrix_learning_rate=1e-12", "training.steps=1")
    recipe = further(tmp_path, base, *rates)
    assert (recipe.model, recipe.decoding) == (load_model_config(base), SEARCH)
    train(recipe, tmp_path / "run")
    before, after = load_weights(base / "best"), load_weights(tmp_path / "run" / "last")
    assert before.keys() == after.keys()
    for name, tensor in before.items():
        torch.testing.assert_close(after[name], tensor, atol=1e-9, rtol=0)
    assert load_vocabularies(tmp_path / "run") == load_vocabularies(base)
    assert load_decoding_config(tmp_path / "run") == SEARCH


def test_keys_that_a_recipe_names_are_its_own(base, tmp_path):
    recipe = further(tmp_path, base, "model.dropout=0.5", "model.encoder.dropout=0.25", "decoding.beam=7")
    model = load_model_config(base)
    assert recipe.model == replace(model, dropout=0.5, encoder=replace(model.encoder, dropout=0.25))
    assert recipe.decoding == replace(SEARCH, beam=7)


def test_it_learns_from_the_new_data_and_resumes_to_the_bit(base, tmp_path):
    recipe = further(tmp_path, base)
    train(recipe, tmp_path / "whole")
    assert not same_weights(base / "best", tmp_path / "whole" / "last")
    train(replace(recipe, training=replace(recipe.training, steps=3)), tmp_path / "parts")
    again = load_recipe(tmp_path / "parts" / "recipe.toml", ["training.steps=6"])
    assert again == recipe
    train(again, tmp_path / "parts", resume=True)
    for name in ("last", "best"):
        assert same_weights(tmp_path / "whole" / name, tmp_path / "parts" / name)


def test_symbols_that_the_model_does_not_know_are_counted(base, tmp_path, capsys):
    train(further(tmp_path, base, "training.steps=1", pairs="1x\tä1\n"), tmp_path / "run")
    assert f"train: 40 of 80 symbols are unknown to {base}" in capsys.readouterr().err
    train(further(tmp_path, base, "training.steps=1"), tmp_path / "other")
    assert "unknown" not in capsys.readouterr().err


def test_a_model_stored_in_int8_will_do(base, tmp_path):
    save_model(*load_model(base), tmp_path / "packed", precision="int8")
    train(further(tmp_path, tmp_path / "packed", "training.steps=1"), tmp_path / "run")
    assert all(tensor.dtype == torch.float32 for tensor in load_weights(tmp_path / "run" / "last").values())


def test_the_built_in_model_has_a_recipe_to_go_on_from_it(tmp_path):
    recipe = further(tmp_path, Path("text"), 'data.kind="text"', "data.window=40", "data.context=8")
    assert recipe.model.vocabulary.symbols == 256
    save_recipe(recipe, tmp_path / "again.toml")
    assert load_recipe(tmp_path / "again.toml") == recipe


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (['training.begins_with="nowhere"'], "training.begins_with: nowhere: neither a folder nor a built-in model"),
        (["training.begins_with=7"], "training.begins_with: 7: neither a folder nor a built-in model"),
        (["model.inner_chanels=9"], "model.inner_chanels: unknown key .did you mean model.inner_channels"),
    ],
)
def test_a_mistake_is_named_when_the_recipe_is_read(base, tmp_path, overrides, message):
    with pytest.raises(ValueError, match=message):
        further(tmp_path, base, *overrides)


def test_another_network_is_refused_before_the_first_step(base, tmp_path):
    recipe = further(tmp_path, base, "model.inner_channels=16")
    with pytest.raises(ValueError, match=r"the shape of .*leave out of \[model\] what the network is"):
        train(recipe, tmp_path / "run")


def test_a_damaged_model_is_refused(base, tmp_path):
    save_model(*load_model(base), tmp_path / "damaged")
    recipe = further(tmp_path, tmp_path / "damaged")
    weights = tmp_path / "damaged" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(ValueError, match="cut short or altered"):
        train(recipe, tmp_path / "run")
