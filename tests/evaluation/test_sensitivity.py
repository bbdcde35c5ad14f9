"""How much outputs depend on inputs: against finite differences, and exactly nothing out of sight."""

import pytest
import torch
from hypothesis import given, settings
from torch import Tensor, nn

from bytenet.evaluation import sensitivity
from bytenet.evaluation.sensitivity import private_copy, sensitivities, token_shares
from bytenet.model import LanguageModel, LanguageModelConfig, Model, Translator, TranslatorConfig
from bytenet.model.blocks import StackConfig
from bytenet.model.ngrams import NgramConfig, Ngrams, rows_ending
from bytenet.model.translator import UnfoldingConfig
from tests.model.strategies import NGRAMS, VOCABULARY, in_double, language_models, random_tokens, translators

STACK = StackConfig(num_blocks=2, dilations=(1, 2))
EPSILON = 1e-6
few = settings(max_examples=8)


def translator(**changes: object) -> Translator:
    config = {"encoder": STACK, "decoder": STACK, "unfolding": UnfoldingConfig(multiple=4)} | changes
    return in_double(
        TranslatorConfig(source_vocabulary=VOCABULARY, target_vocabulary=VOCABULARY, inner_channels=6, **config)
    )


def language_model(**changes: object) -> LanguageModel:
    return in_double(LanguageModelConfig(vocabulary=VOCABULARY, inner_channels=6, **({"decoder": STACK} | changes)))


def measured(model: Model, source: Tensor | None, read: Tensor, wanted: Tensor, embedding: nn.Module) -> Tensor:
    """(positions, outputs): norms of gradients by finite differences, a row for each nudge of a channel."""
    positions = len(read) if source is None or embedding is model.decoder.embedding else len(source)
    channels = 2 * model.config.inner_channels
    nudges = EPSILON * torch.eye(positions * channels, dtype=torch.float64).view(-1, positions, channels)

    def logits(sign: int) -> Tensor:
        def nudge(module: nn.Module, arguments: object, vectors: Tensor) -> Tensor:
            changed = vectors.clone()
            changed[:, :positions] += sign * nudges
            return changed

        hook = embedding.register_forward_hook(nudge)
        rows = len(nudges)
        state = model.start(rows) if source is None else model.start(source.expand(rows, -1), [len(source)] * rows)
        found, _ = model(read.expand(rows, -1), state)
        hook.remove()
        return found[:, torch.arange(len(wanted)), wanted]

    with torch.no_grad():
        slopes = (logits(1) - logits(-1)) / (2 * EPSILON)
    return slopes.view(positions, channels, -1).norm(dim=1).cpu()


@pytest.mark.parametrize("conditioning", ["add", "concatenate"])
def test_a_translators_magnitudes_are_slopes(conditioning):
    model = translator(conditioning=conditioning)
    source, read, wanted = random_tokens(3, 6)
    by_source, by_target = sensitivities(model, source, read, wanted)
    exact = {"rtol": 1e-5, "atol": 1e-8}
    torch.testing.assert_close(by_source, measured(model, source, read, wanted, model.encoder.embedding), **exact)
    torch.testing.assert_close(by_target, measured(model, source, read, wanted, model.decoder.embedding), **exact)


@pytest.mark.parametrize("ngrams", NGRAMS)
def test_a_language_models_magnitudes_are_slopes(ngrams):
    """With n-grams, of the whole vector at a position, which is then divided among tokens: nothing is lost."""
    model = language_model(ngrams=ngrams)
    read, wanted = random_tokens(2, 9)
    by_source, found = sensitivities(model, None, read, wanted)
    slopes = measured(model, None, read, wanted, model.decoder.embedding)
    assert by_source.shape == (0, 9)
    torch.testing.assert_close(found.sum(dim=0), slopes.sum(dim=0), rtol=1e-5, atol=1e-8)
    if not ngrams.num_tables:
        torch.testing.assert_close(found, slopes, rtol=1e-5, atol=1e-8)


@given(language_models())
@few
def test_what_a_language_model_cannot_see_has_nothing(model):
    length = model.config.receptive_field + 3
    read, wanted = random_tokens(2, length)
    _, found = sensitivities(model, None, read, wanted)
    age = torch.arange(length)[None] - torch.arange(length)[:, None]  # of the input (row) at the output (column)
    in_sight = ((age >= 0) & (age < model.config.receptive_field)).cpu()
    assert not found[~in_sight].any()
    assert found.diagonal().all()


@given(translators())
@few
def test_what_a_translator_cannot_see_has_nothing(model):
    config = model.config
    source, (read, wanted) = random_tokens(1, 9)[0], random_tokens(2, 20)
    by_source, by_target = sensitivities(model, source, read, wanted)
    side = (config.encoder.receptive_field - 1) // 2
    longest, word = max(*config.source_ngrams.sizes, 1, 1), max(config.source_ngrams.words, 1)
    before, after = side + max(longest // 2, word - 1), side + max((longest - 1) // 2, word - 1)
    for output in range(20):
        assert not by_target[: max(0, output - config.receptive_field + 1), output].any()
        assert not by_target[output + 1 :, output].any()
        first = max(0, output - config.decoder.receptive_field + 1)
        last = min(output, config.unfolding.unfolded_length(9) - 1)
        stood_on = [config.unfolding.source_position(position) for position in range(first, last + 1)]
        near = [-before <= place - position <= after for position in stood_on for place in range(9)]
        in_sight = torch.tensor(near, dtype=torch.bool, device="cpu").view(-1, 9).any(dim=0)
        assert not by_source[~in_sight, output].any()


def test_an_output_far_behind_the_representation_depends_on_no_source():
    model = translator(unfolding=UnfoldingConfig(a=1.0, multiple=1))
    source, (read, wanted) = random_tokens(1, 4)[0], random_tokens(2, 15)
    by_source, by_target = sensitivities(model, source, read, wanted)
    in_sight = 4 + model.config.decoder.receptive_field - 1
    assert by_source[:, :in_sight].any(dim=0).all()
    assert not by_source[:, in_sight:].any()
    assert by_target.any(dim=0).all()


def test_how_many_outputs_share_a_forward_pass_does_not_matter(monkeypatch):
    model = translator()
    source, read, wanted = random_tokens(3, 10)
    expected = sensitivities(model, source, read, wanted)
    for outputs in (1, 3, 10):
        monkeypatch.setattr(sensitivity, "PREFIX", outputs)
        for found, same in zip(sensitivities(model, source, read, wanted), expected, strict=True):
            torch.testing.assert_close(found, same)


def test_the_model_is_left_as_it_was():
    """Also while it is trained, and its dropout does not count."""
    model = translator(dropout=0.5, decoder=StackConfig(num_blocks=2, dropout=0.5))
    source, read, wanted = random_tokens(3, 5)
    expected = sensitivities(model, source, read, wanted)
    with torch.no_grad():
        found = sensitivities(model.train(), source, read, wanted)
    assert all(torch.equal(*both) for both in zip(found, expected, strict=True))
    assert model.training
    assert all(parameter.requires_grad and parameter.grad is None for parameter in model.parameters())
    assert not any(module._forward_hooks for module in model.modules())


def test_a_private_copy_takes_no_memory():
    model = translator()
    same = zip(model.parameters(), private_copy(model).parameters(), strict=True)
    assert all(mine.data_ptr() == theirs.data_ptr() and not theirs.requires_grad for mine, theirs in same)


def test_progress_is_told():
    seen = []
    model = language_model()
    sensitivities(model, None, *random_tokens(2, 4), watch=lambda done, all_: seen.append((done, all_)))
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


# N-grams


def test_a_vector_is_divided_among_its_tokens():
    own = torch.tensor([[3.0, 0.0]] * 4)
    parts = torch.tensor([[[0.0, 1.0], [0.0, 0.0]]] * 3 + [[[0.0, 1.0], [2.0, 0.0]]])  # of bigrams and trigrams
    expected = [
        [1, 0, 0, 0],  # nothing is before the first token
        [1 / 8, 7 / 8, 0, 0],
        [0, 1 / 8, 7 / 8, 0],
        [0, 2 / 18, 2 / 18 + 1 / 12, 3 / 6 + 1 / 12 + 2 / 18],
    ]
    up_to = torch.ones(4, 4, dtype=torch.bool).tril()
    found = token_shares(own, parts, [up_to & ~up_to.tril(-size) for size in (2, 3)])
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64))


def test_a_vector_of_an_encoder_is_divided_among_the_tokens_around_it():
    own, parts = torch.tensor([[3.0, 0.0]] * 3), torch.tensor([[[0.0, 1.0]]] * 3)  # of trigrams
    expected = [
        [3 / 4 + 1 / 8, 1 / 8, 0],
        [1 / 12, 3 / 4 + 1 / 12, 1 / 12],
        [0, 1 / 8, 3 / 4 + 1 / 8],
    ]
    around = torch.tensor([[1, 1, 0], [1, 1, 1], [0, 1, 1]], dtype=torch.bool)
    torch.testing.assert_close(token_shares(own, parts, [around]), torch.tensor(expected, dtype=torch.float64))


@pytest.mark.parametrize("config", [config for config in NGRAMS if config.num_tables])
def test_the_parts_of_n_grams_add_up(config):
    ngrams = Ngrams(config, 8).double()
    rows = rows_ending(random_tokens(2, config.reach + 7), config)
    parts = ngrams.parts(rows)
    assert parts.shape == (2, 7, config.num_tables, 8)
    torch.testing.assert_close(parts.sum(dim=2), ngrams(rows, torch.float64))


def test_a_token_counts_in_all_n_grams_that_hold_it():
    """The blocks see one position; what comes from further back comes by n-grams."""
    narrow = StackConfig(num_blocks=1, kernel_width=1)
    model = language_model(decoder=narrow, ngrams=NgramConfig(sizes=(2, 4), rows=64, channels=4))
    _, found = sensitivities(model, None, *random_tokens(2, 8))
    for output in range(8):
        assert found[max(0, output - 3) : output + 1, output].all()
        assert not found[: max(0, output - 3), output].any()


@pytest.mark.parametrize("centred", [False, True])
def test_a_token_counts_in_the_word_that_holds_it(centred):
    words = NgramConfig(words=4, separators=(9,), rows=64, channels=4)
    narrow = StackConfig(num_blocks=1, kernel_width=1)
    if centred:
        model = translator(encoder=narrow, decoder=narrow, source_ngrams=words)
    else:
        model = language_model(decoder=narrow, ngrams=words)
    text = torch.tensor([3, 4, 9, 5, 6, 7])
    by_source, found = sensitivities(model, text if centred else None, text, text)
    word = [0, 0, 1, 2, 2, 2]
    for output in range(6):
        for place in range(6):
            same = word[place] == word[output]
            if centred:
                assert bool(by_source[place, output]) == same
            else:
                assert bool(found[place, output]) == (same and place <= output)
