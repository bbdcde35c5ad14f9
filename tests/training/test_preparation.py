"""What a model takes from the corpus before the first step: the a and b of its unfolding, where a recipe asks so."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bytenet.config import Recipe, load_recipe
from bytenet.data.config import PairsConfig
from bytenet.data.encoding import EncodedCorpus, encode_corpus
from bytenet.decoding.config import DecodingConfig
from bytenet.evaluation.lengths import Lengths, fit_unfolding
from bytenet.model import Translator
from bytenet.model.ngrams import NgramConfig
from bytenet.model.translator import UnfoldingConfig, UnfoldingFit
from bytenet.model_folder import load_model, save_model
from bytenet.talk import Talk
from bytenet.training.preparation import fit_lengths, fit_names, fit_vocabularies
from bytenet.training.trainer import train
from bytenet.vocabulary import VocabularyConfig
from tests.training.runs import small_recipe

FIT = UnfoldingFit(coverage=0.9, multiple=4)
QUIET = Talk(quiet=True)


def fitting_recipe(folder: Path, **model: object) -> Recipe:
    """Targets are three characters longer than sources, in characters of two bytes."""
    file = folder / "pairs.tsv"
    file.write_text("".join(f"{'1' * n}\t{'é' * (n + 3)}\n" for n in range(1, 40)), encoding="utf-8")
    recipe = small_recipe("translator", folder, steps=2)
    data = PairsConfig(train=(str(file),), validation=(str(file),))
    return replace(recipe, data=data, model=replace(recipe.model, **({"unfolding": FIT} | model)))


def encoded(recipe: Recipe, folder: Path) -> EncodedCorpus:
    return encode_corpus(recipe.data, recipe.model.vocabulary_configs, folder / "cache")


@pytest.mark.parametrize(("kind", "size"), [("characters", 1), ("bytes", 2)])
def test_the_fit_is_to_the_tokens_of_the_recipes_own_vocabularies(tmp_path, kind, size):
    recipe = fitting_recipe(tmp_path, target_vocabulary=VocabularyConfig(kind=kind, symbols=20))
    fitted = fit_lengths(recipe, encoded(recipe, tmp_path), QUIET, begun=None)
    source = np.arange(1, 40)
    unfolding = fit_unfolding(Lengths(source, size * (source + 3)), FIT)
    assert fitted == replace(recipe, model=replace(recipe.model, unfolding=unfolding))


def test_what_a_recipe_gives_is_not_fitted(tmp_path):
    recipe = fitting_recipe(tmp_path, unfolding=UnfoldingConfig(a=1.5, b=2.0, multiple=4))
    assert fit_lengths(recipe, encoded(recipe, tmp_path), QUIET, begun=None) is recipe


def test_a_run_that_has_begun_keeps_its_unfolding(tmp_path):
    """Even where the pairs would ask for another by now, or the last checkpoint is damaged."""
    recipe, begun = fitting_recipe(tmp_path), UnfoldingConfig(a=1.5, b=2.0, multiple=4)
    corpus = encoded(recipe, tmp_path)
    assert fit_lengths(recipe, corpus, QUIET, begun=tmp_path).model.unfolding != begun  # there is no checkpoint yet
    model = Translator(replace(fit_vocabularies(recipe.model, corpus.vocabularies), unfolding=begun))
    for name in ("last", "previous"):
        save_model(model, corpus.vocabularies, tmp_path / name)
    assert fit_lengths(recipe, corpus, QUIET, begun=tmp_path).model.unfolding == begun
    (tmp_path / "last" / "config.json").write_text("damaged")
    assert fit_lengths(recipe, corpus, QUIET, begun=tmp_path).model.unfolding == begun


def test_names_are_those_of_the_sources_where_a_recipe_recases_and_names_none(tmp_path):
    recipe = fitting_recipe(tmp_path, source_vocabulary=VocabularyConfig(kind="characters", symbols=40))
    file = tmp_path / "pairs.tsv"
    file.write_text("".join(f"In {n} I saw Ada and a bear.\tso\n" for n in range(10, 30)), encoding="utf-8")
    corpus = encoded(recipe, tmp_path)
    assert fit_names(recipe, corpus) is recipe
    for names in ((), ("EU",)):
        asked = replace(recipe, decoding=DecodingConfig(recase=True, names=names))
        assert fit_names(asked, corpus).decoding == replace(asked.decoding, names=names or ("I", "Ada"))


def test_a_run_is_fitted_once_and_resumed_by_its_own_recipe(tmp_path, capsys):
    recipe, run = fitting_recipe(tmp_path), tmp_path / "run"
    train(replace(recipe, training=replace(recipe.training, steps=1)), run)
    found = load_model(run)[0].unfolding
    values = f"unfolding: a = {found.a}, b = {found.b}, multiple = 4"
    assert f"{values}, fitted to the training pairs: longer than " in capsys.readouterr().err
    asked = load_recipe(run / "recipe.toml")
    assert asked.model.unfolding == FIT
    train(replace(asked, training=recipe.training), run, resume=True)
    assert f"{values}, as the run began with" in capsys.readouterr().err
    assert load_model(run)[0].unfolding == found


def test_words_are_parted_by_what_the_vocabularies_say(tmp_path):
    words, none = NgramConfig(words=4, rows=8, channels=2), NgramConfig()
    recipe = fitting_recipe(tmp_path, source_ngrams=words, target_ngrams=none)
    corpus = encoded(recipe, tmp_path)
    fitted = fit_vocabularies(recipe.model, corpus.vocabularies)
    assert fitted.source_ngrams == replace(words, separators=corpus.vocabularies[0].separators())
    assert fitted.target_ngrams == none
