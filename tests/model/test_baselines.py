"""Every row of Table 1 stands behind the same seam: one source, one text, however they are read."""

import math
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from bytenet.config import Recipe, load_recipe, save_recipe
from bytenet.data.config import DigitsConfig
from bytenet.decoding.beam_search import BeamConfig, beam_search
from bytenet.decoding.engine import choose_engine
from bytenet.describe import describe
from bytenet.evaluation.files import file_exact
from bytenet.model import AnyTranslator, RecurrentTranslatorConfig
from bytenet.model.baselines.rctm import Rctm2Config
from bytenet.model.baselines.transformer import TransformerConfig
from bytenet.model.blocks import StackConfig
from bytenet.model.state import tensors_of
from bytenet.model.translator import UnfoldingConfig
from bytenet.model_folder import load_model, save_model
from bytenet.pipeline import load
from bytenet.training.config import TrainingConfig
from bytenet.training.optimizers import build_optimizers
from bytenet.training.trainer import train
from bytenet.vocabulary import BEGIN, PAD, Characters, VocabularyConfig
from tests.model.strategies import VOCABULARY, in_double, random_sources, random_tokens, table_1

RECIPES = Path(__file__).parent.parent.parent / "recipes"
ROWS = table_1(
    source_vocabulary=VOCABULARY,
    target_vocabulary=VOCABULARY,
    inner_channels=6,
    unfolding=UnfoldingConfig(a=1.0, b=1.0, multiple=3),
)
ONE_VECTOR = {"RCTM 1", "RNN Enc-Dec"}  # stands for any source
every_row = pytest.mark.parametrize("row", ROWS)


@cache
def model_of(row: str) -> AnyTranslator:
    return in_double(ROWS[row])


def read(model: AnyTranslator, source: Tensor, tokens: Tensor) -> Tensor:
    with torch.no_grad():
        logits, _ = model(tokens, model.start(source))
    return logits


@every_row
def test_any_split_of_the_target_gives_the_same_logits(row):
    """Also past the end of the representation, and with parts of nothing."""
    model = model_of(row)
    source, tokens = random_sources([5, 3]), random_tokens(2, 10)
    whole = read(model, source, tokens)
    for sizes in ([1] * 10, [4, 0, 6]):
        state, parts = model.start(source), []
        for part in torch.split(tokens, sizes, dim=1):
            logits, state = model(part, state)
            parts.append(logits)
        torch.testing.assert_close(torch.cat(parts, dim=1), whole)


@every_row
@pytest.mark.parametrize("position", [0, 5])
def test_a_token_changes_no_earlier_logit(row, position):
    model = model_of(row)
    source, tokens = random_sources([5, 3]), random_tokens(2, 7)
    other = tokens.clone()
    other[:, position] = BEGIN
    before, after = read(model, source, tokens), read(model, source, other)
    torch.testing.assert_close(before[:, :position], after[:, :position], rtol=0, atol=1e-12)
    assert (before[:, position:] - after[:, position:]).abs().amax(dim=(1, 2)).min() > 1e-9


@every_row
def test_batch_mates_and_padding_change_nothing(row):
    model = model_of(row)
    lengths = [6, 0, 3]
    source, tokens = random_sources(lengths), random_tokens(3, 8)
    together = read(model, source, tokens)
    for number, length in enumerate(lengths):
        alone = read(model, source[number : number + 1, :length], tokens[number : number + 1])
        torch.testing.assert_close(together[number : number + 1], alone)
    torch.testing.assert_close(read(model, F.pad(source, (0, 5), value=PAD), tokens), together)


@every_row
def test_select_equals_reading_again(row):
    model = model_of(row)
    rows = torch.tensor([2, 0, 0, 1, 2])
    source, tokens, more = random_sources([5, 3, 4]), random_tokens(3, 4), random_tokens(len(rows), 5)
    _, state = model(tokens, model.start(source))
    before = [tensor.clone() for tensor in tensors_of(state)]
    chosen = state.select(rows).compact()
    assert (chosen.dtype, chosen.device) == (torch.float64, source.device)
    selected, _ = model(more, chosen)
    again = read(model, source[rows], torch.cat([tokens[rows], more], dim=1))[:, 4:]
    torch.testing.assert_close(selected, again)
    assert all(torch.equal(a, b) for a, b in zip(before, tensors_of(state), strict=True))


@every_row
def test_gradients_reach_every_parameter(row):
    """All but one: that by which an encoder goes on to columns that no decoder reads."""
    model = model_of(row)
    logits, _ = model(random_tokens(3, 8), model.start(random_sources([7, 6, 7])))
    (logits * torch.randn_like(logits)).sum().backward()
    unreached = {name for name, parameter in model.named_parameters() if not parameter.grad.any()}
    assert unreached == ({"encoder.blocks.forwards.0.units.weight_hh_l0"} if row == "RNN Enc-Dec" else set())


@every_row
def test_every_source_token_changes_the_logits(row):
    model = model_of(row)
    source, tokens = random_sources([6]), random_tokens(1, 9)
    others = source.repeat(6, 1)
    others[range(6), range(6)] = BEGIN
    changes = read(model, others, tokens.expand(6, -1)) - read(model, source, tokens)
    assert changes.abs().amax(dim=(1, 2)).min() > 1e-9


@every_row
def test_the_state_decides_the_precision(row):
    model = in_double(ROWS[row]).float()
    source, tokens = random_sources([5, 3]), random_tokens(2, 6)
    with torch.no_grad():
        exact, _ = model(tokens, model.start(source))
        rough, state = model(tokens, model.start(source, dtype=torch.bfloat16))
    assert (state.dtype, rough.dtype) == (torch.bfloat16, torch.float32)
    assert not torch.equal(rough, exact)
    torch.testing.assert_close(rough.softmax(-1), exact.softmax(-1), atol=0.1, rtol=0)


@every_row
def test_the_same_beam_search_decodes_it(row):
    """Greedy search is the most probable token, step by step; a wide beam finds nothing less likely."""
    model = model_of(row)
    source, limits = random_sources([4, 2]), [6, 4]
    found = {}
    for beam in (1, 4):
        search = beam_search(choose_engine(model), model.start(source), limits, BeamConfig(beam=beam))
        found[beam] = {number: best for number, (best, *_) in search}
    for number, greedy in found[1].items():
        tokens = torch.tensor([[BEGIN, *greedy.tokens]])
        probable = read(model, source[number : number + 1], tokens)[0, :, 2:].argmax(dim=-1) + 2
        assert probable[: len(greedy.tokens)].tolist() == greedy.tokens
        if greedy.ended and found[4][number].ended:
            assert found[4][number].log_likelihood >= greedy.log_likelihood - 1e-9


@every_row
def test_a_recipe_and_a_models_folder_bring_it_back(row, tmp_path):
    recipe = Recipe(model=ROWS[row])
    save_recipe(recipe, tmp_path / "recipe.toml")
    assert load_recipe(tmp_path / "recipe.toml") == recipe
    model, vocabularies = in_double(recipe.model), [Characters("123456789")] * 2
    save_model(model, vocabularies, tmp_path / "model")
    loaded, _ = load_model(tmp_path / "model", device=next(model.parameters()).device)
    assert loaded.config == model.config
    for name, weight in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], weight), name
    source, tokens = random_sources([5]), random_tokens(1, 4)
    torch.testing.assert_close(read(loaded, source, tokens), read(model, source, tokens))


@every_row
def test_it_is_described(row):
    description = describe(ROWS[row])
    expected = sum(parameter.numel() for parameter in model_of(row).parameters())
    assert description["parameters"] == sum(description["parameters_by_part"].values()) == expected


def numbers_of(row: str, length: int) -> int:
    """How many numbers stand for a source of this length before the target begins."""
    state = model_of(row).start(random_sources([length]))
    return sum(tensor.numel() for tensor in tensors_of(state) if tensor.is_floating_point())


@every_row
def test_the_resolution_of_the_source_is_preserved_where_table_1_says_so(row):
    """Column RP: what stands for the source grows with it, or it is one vector for all."""
    assert (numbers_of(row, 9) > numbers_of(row, 3)) == (row not in ONE_VECTOR)


def flops_of(row: str, source: int, target: int) -> int:
    """Of the matrix products, from the source to the last logit."""
    model = model_of(row)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        model(random_tokens(1, target), model.start(random_sources([source])))
    return counter.get_total_flops()


QUADRATIC = {
    "RCTM 1": {"SS"},
    "RCTM 2": {"SS"},
    "RNN Enc-Dec Att": {"ST"},
    "Grid LSTM": {"ST"},
    "Extended Neural GPU": {"SS", "ST"},
    "Transformer": {"SS", "ST", "TT"},
}
"""The terms of column Time that are not linear; an RCTM 2 of n-grams has none, whatever Table 1 says."""


@every_row
def test_the_time_is_that_of_table_1(row):
    """Counted: a cost that is a polynomial of both lengths has just the terms that its differences show."""
    cost = {(s, t): flops_of(row, s, t) for s, t in [(3, 1), (6, 1), (9, 1), (3, 2), (3, 3), (6, 2)]}
    terms = {
        "SS": cost[9, 1] - 2 * cost[6, 1] + cost[3, 1],
        "TT": cost[3, 3] - 2 * cost[3, 2] + cost[3, 1],
        "ST": cost[6, 2] - cost[6, 1] - cost[3, 2] + cost[3, 1],
    }
    assert {name for name, term in terms.items() if term} == QUADRATIC.get(row, set())


def test_it_trains_translates_and_scores(tmp_path):
    """By the same loop and the same pipeline, which know no kind but "translator" by name."""
    digits = VocabularyConfig(kind="characters", symbols=10)
    recipe = Recipe(
        model=replace(ROWS["Transformer"], source_vocabulary=digits, target_vocabulary=digits, dropout=0.1),
        data=DigitsConfig(max_length=5, pairs=40, validation_pairs=5),
        training=TrainingConfig(steps=2, batch_characters=100, log_every=1, save_every=2),
    )
    train(recipe, tmp_path / "run", device=torch.get_default_device())
    trained = load(tmp_path / "run")
    assert trained.translates
    assert trained.translate("123", beam=1) == "".join(trained.stream("123"))
    best = next(trained.translations(["123"], beam=3, max_length=6))[0]
    (score,) = trained.score([("123", best.text)])
    ended = -best.log_likelihood / math.log(2)
    assert score.bits == pytest.approx(ended, rel=1e-4) if best.ended else score.bits > ended


def test_muon_is_for_blocks():
    model, config = in_double(ROWS["Transformer"]), TrainingConfig(optimizer="muon")
    with pytest.raises(ValueError, match=r"^training.optimizer = \"muon\" is for blocks"):
        build_optimizers(model, config)
    build_optimizers(in_double(ROWS["Recurrent ByteNet, CNN and RNN"]), config)


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (lambda: Rctm2Config(ngram=-1), "ngram must be at least 0, not -1"),
        (lambda: TransformerConfig(inner_channels=9), "heads must divide the 18 channels, not 4"),
        (lambda: TransformerConfig(layers=0), "layers must be at least 1, not 0"),
        (lambda: RecurrentTranslatorConfig(encoder=StackConfig(kernel_width=2)), "encoder.kernel_width must be odd"),
    ],
)
def test_a_wrong_value_is_named(wrong, problem):
    with pytest.raises(ValueError, match=f"^{problem}"):
        wrong()


@pytest.mark.slow
@every_row
def test_it_learns_to_copy_digits(row, tmp_path):
    """By the recipe for all of them, which asks no more than one vector can hold."""
    recipe = load_recipe(RECIPES / "compare-copy.toml")
    shared = {name: getattr(recipe.model, name) for name in ("source_vocabulary", "target_vocabulary", "unfolding")}
    model = table_1(inner_channels=32, **shared)[row]
    steps = recipe.training.steps if row in {*ONE_VECTOR, "Transformer"} else 400  # which is enough for the others
    recipe = replace(recipe, model=model, training=replace(recipe.training, steps=steps))
    train(recipe, tmp_path / "run", device=torch.get_default_device())
    loaded, vocabularies = load_model(tmp_path / "run")
    assert file_exact(loaded, vocabularies, tmp_path / "run" / "cache" / "validation.tsv")["exact"] > 0.9
