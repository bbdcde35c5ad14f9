"""What `describe` says is what the networks are."""

from pathlib import Path

import pytest
import torch
from hypothesis import given
from torch.utils.flop_counter import FlopCounterMode

from bytenet.config import load_recipe
from bytenet.describe import STATE_ITEM_BYTES, count_parameters, describe
from tests.model.strategies import language_models, random_sources, random_tokens, translators

RECIPES = Path(__file__).parent.parent / "recipes"


def test_the_papers_language_model():
    description = describe(load_recipe(RECIPES / "enwik8-paper.toml").model)
    assert description["parameters"] == pytest.approx(127e6, rel=0.01)
    assert description["receptive_field"] == 373
    assert description["decoder"]["num_blocks"] == 30


def test_the_papers_translator():
    description = describe(load_recipe(RECIPES / "wmt14-en-de-paper.toml").model)
    assert description["parameters"] == pytest.approx(269e6, rel=0.02)
    assert (description["encoder"]["num_blocks"], description["decoder"]["num_blocks"]) == (30, 30)


def test_a_translator_that_is_yet_to_be_fitted():
    given, fit = (load_recipe(RECIPES / "pairs.toml", overrides).model for overrides in ([], ["model.unfolding=fit"]))
    before, after = describe(given), describe(fit)
    assert before.pop("unfolding") == {"a": 1.2, "b": 8.0, "multiple": 8, "stretch": 1.0}
    assert after.pop("unfolding") == {"kind": "fit", "coverage": 0.99, "multiple": 8}
    assert before == after


@given(language_models())
def test_a_language_models_numbers(model):
    description = describe(model.config)
    assert description["parameters"] == count_parameters(model) == sum(description["parameters_by_part"].values())
    state = model.start(3)
    numbers = sum(history[0].numel() for history in state.histories)
    tokens = 0 if state.tokens is None else state.tokens[0].nbytes
    assert description["state_bytes_per_row"] == numbers * STATE_ITEM_BYTES + tokens
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(random_tokens(3, 7), state)
    assert description["flops_per_character"]["decoding"] * 3 * 7 == counter.get_total_flops()


@given(translators())
def test_a_translators_numbers(model):
    description = describe(model.config)
    assert description["parameters"] == count_parameters(model) == sum(description["parameters_by_part"].values())
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        state = model.start(random_sources([9, 9]))
    positions = model.unfolding.read_length(9)
    assert description["flops_per_source_position"]["encoding"] * 2 * positions == counter.get_total_flops()
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(random_tokens(2, 7), state)
    assert description["flops_per_character"]["decoding"] * 2 * 7 == counter.get_total_flops()
