"""Recipes: what is right is read, what is wrong is named in one line."""

from pathlib import Path

import pytest

from bytenet.config import load_recipe, save_recipe
from bytenet.model import LanguageModelConfig, TranslatorConfig
from bytenet.model.translator import UnfoldingConfig, UnfoldingFit

RECIPES = sorted((Path(__file__).parent.parent / "recipes").glob("*.toml"))
TRANSLATOR = """
[model]
kind = "translator"
inner_channels = 16
[model.encoder]
num_blocks = 2
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    file = tmp_path / "recipe.toml"
    file.write_text(TRANSLATOR)
    return file


@pytest.mark.parametrize("file", RECIPES, ids=lambda file: file.stem)
def test_every_shipped_recipe_loads_and_is_written_back_as_it_was(file, tmp_path):
    recipe = load_recipe(file)
    assert recipe.description
    save_recipe(recipe, tmp_path / "again.toml")
    assert load_recipe(tmp_path / "again.toml") == recipe


def test_a_description_survives_being_written(recipe, tmp_path):
    described = load_recipe(recipe, ['description="a \\"b\\" \\\\ ü\\n"'])
    save_recipe(described, tmp_path / "again.toml")
    assert load_recipe(tmp_path / "again.toml") == described


def test_the_papers_language_model():
    model = load_recipe(RECIPES[0].parent / "enwik8-paper.toml").model
    assert isinstance(model, LanguageModelConfig)
    assert (model.inner_channels, model.decoder.num_blocks, model.decoder.kernel_width) == (512, 30, 3)
    assert (model.decoder.block, model.dropout, model.vocabulary.symbols) == ("multiplicative", 0.1, 205)
    assert model.decoder.block_dilations == (1, 2, 4, 8, 16) * 6


def test_the_papers_translator():
    model = load_recipe(RECIPES[0].parent / "wmt14-en-de-paper.toml").model
    assert isinstance(model, TranslatorConfig)
    assert (model.inner_channels, model.unfolding.a, model.unfolding.b, model.unfolding.multiple) == (800, 1.2, 0, 50)
    assert (model.source_vocabulary.symbols, model.target_vocabulary.symbols) == (296, 323)
    for stack in (model.encoder, model.decoder):
        assert (stack.block, stack.kernel_width, stack.block_dilations) == ("relu", 3, (1, 2, 4, 8, 16) * 6)


def test_an_override_wins_over_the_file(recipe):
    model = load_recipe(
        recipe, ["model.inner_channels = 24", "model.decoder.block=multiplicative", "model.dropout=0"]
    ).model
    assert (model.inner_channels, model.decoder.block, model.dropout) == (24, "multiplicative", 0.0)


@pytest.mark.parametrize(
    ("overrides", "unfolding"),
    [
        ([], UnfoldingConfig()),
        (["model.unfolding=fit"], UnfoldingFit()),
        (["model.unfolding.kind=fit", "model.unfolding.coverage=0.9"], UnfoldingFit(coverage=0.9)),
        (["model.unfolding=fit", "model.unfolding.multiple=8"], UnfoldingFit(multiple=8)),
        (['model.unfolding={kind = "fit", multiple = 8}'], UnfoldingFit(multiple=8)),
        (["model.unfolding={a = 1.5, multiple = 8}", "model.unfolding=fit"], UnfoldingFit(multiple=8)),
        (["model.unfolding=fit", "model.unfolding={a = 1.5}"], UnfoldingConfig(a=1.5)),
    ],
)
def test_a_word_for_a_table_is_its_kind(recipe, overrides, unfolding, tmp_path):
    read = load_recipe(recipe, overrides)
    assert read.model.unfolding == unfolding
    save_recipe(read, tmp_path / "again.toml")
    assert load_recipe(tmp_path / "again.toml") == read


def test_what_is_set_after_a_kind_must_go_with_it(recipe):
    with pytest.raises(ValueError, match=r"model\.unfolding\.a: unknown key"):
        load_recipe(recipe, ["model.unfolding.a=1.5", "model.unfolding=fit", "model.unfolding.a=2"])


@pytest.mark.parametrize(
    ("override", "problem"),
    [
        ("model.inner_chanels=3", "model.inner_chanels: unknown key (did you mean model.inner_channels?)"),
        ("model.num_blocks=3", "model.num_blocks: unknown key (did you mean model.encoder.num_blocks?)"),
        ("modle.x=3", "modle: unknown key (did you mean model?)"),
        ("model.inner_channels=wide", 'model.inner_channels: must be a whole number, not "wide"'),
        ("model.inner_channels=1.5", "model.inner_channels: must be a whole number, not 1.5"),
        ("model.inner_channels=true", "model.inner_channels: must be a whole number, not true"),
        ("model.inner_channels=1", "model.inner_channels: must be at least 2, not 1"),
        ("model.dropout=1", "model.dropout: must be at least 0 and less than 1, not 1.0"),
        ("model.encoder.kernel_width=2", "model.encoder.kernel_width: must be odd to be centred, not 2"),
        ("model.encoder.num_blocks=0", "model.encoder.num_blocks: must be at least 1, not 0"),
        ("model.decoder.dilations=[1, 0]", "model.decoder.dilations: must be at least 1, not 0"),
        ("model.decoder.dilations=[]", "model.decoder.dilations: must name at least one dilation"),
        ("model.decoder.dilations=[1, 0.5]", "model.decoder.dilations[1]: must be a whole number, not 0.5"),
        ("model.decoder.dilations=1", "model.decoder.dilations: must be a list, not 1"),
        ("model.decoder.block=relo", 'model.decoder.block: must be one of "relu", "multiplicative", not "relo"'),
        ("model.decoder.second_unit=true", 'model.decoder.second_unit: needs block = "multiplicative"'),
        ("model.decoder.second_unit=1", "model.decoder.second_unit: must be true or false, not 1"),
        ("model.decoder=3", "model.decoder: must be a table of keys, not 3"),
        ("model.kind=rnn", 'model.kind: must be one of "language-model", "translator", '),
        ("model=3", 'model.kind: is missing: one of "language-model", "translator"'),
        ("model.unfolding.a=nan", "model.unfolding.a: must be a positive number, not nan"),
        ("model.unfolding.multiple=0", "model.unfolding.multiple: must be at least 1, not 0"),
        ("model.unfolding=3", "model.unfolding: must be a table of keys, not 3"),
        ("model.unfolding=fitt", 'model.unfolding.kind: must be one of "fit", not "fitt"'),
        (
            'model.unfolding={kind = "fit", coverage = 0}',
            "model.unfolding.coverage: must be more than 0 and at most 1, not 0.0",
        ),
        ('model.unfolding={kind = "fit", b = 1}', "model.unfolding.b: unknown key"),
        ("model.multiple=3", "model.multiple: unknown key (did you mean model.unfolding.multiple?)"),
        (
            "model.source_vocabulary.symbols=257",
            "model.source_vocabulary.symbols: must be at most 256 for bytes, not 257",
        ),
        ("description=3", "description: must be a string, not 3"),
    ],
)
def test_a_wrong_override_is_named(recipe, override, problem):
    with pytest.raises(ValueError) as error:  # noqa: PT011
        load_recipe(recipe, [override])
    assert str(error.value).startswith(f"{recipe} (--set {override}): {problem}")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("override", ["model", "=3", "model..x=3", "model.inner_channels.x=3"])
def test_an_override_that_is_none(recipe, override):
    with pytest.raises(ValueError, match=r"^--set "):
        load_recipe(recipe, [override])


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "model: is missing"),
        (b"[model", "not TOML: "),
        (b"# \xff", "not UTF-8 at byte 2"),
        (
            TRANSLATOR.encode() + b"num_bloks = 3",
            "model.encoder.num_bloks: unknown key (did you mean model.encoder.num_blocks?)",
        ),
    ],
)
def test_a_wrong_file_is_named(recipe, content, problem):
    recipe.write_bytes(content)
    with pytest.raises(ValueError) as error:  # noqa: PT011
        load_recipe(recipe)
    assert str(error.value).startswith(f"{recipe}: {problem}")
    assert "\n" not in str(error.value)
