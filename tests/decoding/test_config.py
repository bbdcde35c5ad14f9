"""What a model asks for: checked where it is written, taken where the user says nothing."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bytenet.config import load_recipe, save_recipe
from bytenet.decoding.beam_search import BeamConfig
from bytenet.decoding.config import DecodingConfig

beams, penalties = st.integers(1, 20), st.floats(0, 3)


@given(beams, penalties, st.none() | beams, st.none() | penalties)
def test_what_is_asked_for_wins_over_what_the_model_says(own_beam, own_penalty, beam, penalty):
    own = DecodingConfig(beam=own_beam, length_penalty=own_penalty)
    expected = BeamConfig(
        beam=own_beam if beam is None else beam, length_penalty=own_penalty if penalty is None else penalty
    )
    assert own.beam_config(beam=beam, length_penalty=penalty) == expected


def test_a_model_that_says_nothing_is_searched_as_in_the_paper():
    assert DecodingConfig().beam_config() == BeamConfig(beam=12, length_penalty=0.0)


def test_too_many_translations_are_told_from_the_beam_that_is_meant():
    own = DecodingConfig(beam=3)
    assert own.beam_config(n_best=3).n_best == own.beam_config(beam=5, n_best=3).n_best == 3
    with pytest.raises(ValueError, match=r"^n_best must be from 1 to the model's beam of 3, not 4; or name a beam$"):
        own.beam_config(n_best=4)
    with pytest.raises(ValueError, match=r"^n_best must be from 1 to the beam of 2, not 4$"):
        own.beam_config(beam=2, n_best=4)
    assert own.beam_config(beam=4, n_best=4).n_best == 4


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    file = tmp_path / "recipe.toml"
    file.write_text('[model]\nkind = "translator"\n\n[decoding]\nbeam = 3\nlength_penalty = 1\n')
    return file


def test_a_recipe_says_it_and_it_is_written_back(recipe, tmp_path):
    assert load_recipe(recipe).decoding == DecodingConfig(beam=3, length_penalty=1.0)
    save_recipe(load_recipe(recipe), tmp_path / "again.toml")
    assert load_recipe(tmp_path / "again.toml").decoding == DecodingConfig(beam=3, length_penalty=1.0)


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ("beam=0", "must be at least 1, not 0"),
        ("beam=2.5", "must be a whole number, not 2.5"),
        ("beam=wide", 'must be a whole number, not "wide"'),
        ("length_penalty=-0.5", "must be finite and at least 0, not -0.5"),
        ("length_penalty=nan", "must be finite and at least 0, not nan"),
        ("length_penalty=inf", "must be finite and at least 0, not inf"),
    ],
)
def test_what_cannot_be_is_one_line_with_the_keys_name(recipe, wrong, problem):
    with pytest.raises(ValueError, match="decoding") as raised:
        load_recipe(recipe, [f"decoding.{wrong}"])
    key = wrong.partition("=")[0]
    assert str(raised.value) == f"{recipe} (--set decoding.{wrong}): decoding.{key}: {problem}"
