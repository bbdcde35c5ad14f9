"""The translator: stacking, dynamic unfolding, and that a sentence is translated as if it stood alone."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor

from bytenet.model import Translator, TranslatorConfig
from bytenet.model.blocks import StackConfig
from bytenet.model.translator import UnfoldingConfig, UnfoldingFit, represent
from bytenet.vocabulary import PAD
from tests.model.strategies import VOCABULARY, in_double, random_sources, random_tokens, translators

source_lengths = st.lists(st.integers(1, 15), min_size=1, max_size=4)


def read(model: Translator, source: Tensor, tokens: Tensor) -> Tensor:
    logits, _ = model(tokens, model.start(source))
    return logits


@pytest.mark.parametrize(
    ("length", "unfolded"), [(0, 60), (1, 60), (49, 60), (50, 60), (51, 120), (100, 120), (350, 420), (1001, 1260)]
)
def test_the_papers_unfolding(length, unfolded):
    """Padded to the next multiple of 50, then 20% more: once."""
    assert UnfoldingConfig().unfolded_length(length) == unfolded


def test_a_translator_needs_an_unfolding_that_is_known():
    with pytest.raises(ValueError, match="yet to be fitted"):
        Translator(TranslatorConfig(inner_channels=4, unfolding=UnfoldingFit()))


@given(translators(), source_lengths)
def test_a_representation_has_the_length_of_its_own_source(model, lengths):
    unfolding = model.unfolding
    ahead = model.start(random_sources(lengths)).ahead
    for representation, length in zip(ahead, lengths, strict=True):
        padded = math.ceil(length / unfolding.multiple) * unfolding.multiple
        expected = math.ceil(unfolding.a * padded + unfolding.b - 1e-6)
        assert representation[:expected].any(dim=1).all()
        assert not representation[expected:].any()
    assert ahead.shape[1] == max(unfolding.unfolded_length(length) for length in lengths)


@given(translators(), st.integers(1, 15), st.sampled_from([0.7, 1.15, 2.0]))
def test_a_stretched_representation_repeats_positions_or_leaves_some_out(model, length, stretch):
    """Position i of it is position i / stretch of what the encoder makes of the source."""
    source, width = random_sources([length]), 2 * length
    exact = UnfoldingConfig(a=1e-9, b=width, multiple=length, stretch=stretch)
    plain = UnfoldingConfig(a=1e-9, b=exact.read_length(length), multiple=length)
    stretched, whole = (represent(model.encoder, unfolding, source, [length], None) for unfolding in (exact, plain))
    assert stretched.shape[1] == width
    for position in range(width):
        assert torch.equal(stretched[:, position], whole[:, math.floor(position / stretch)])


@pytest.mark.parametrize("name", ["a", "stretch"])
def test_a_factor_is_a_positive_number(name):
    for wrong in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match=f"^{name} must be a positive number"):
            UnfoldingConfig(**{name: wrong})


@given(translators(), source_lengths)
def test_batch_mates_and_padding_change_nothing(model, lengths):
    source, tokens = random_sources(lengths), random_tokens(len(lengths), 20)
    together = read(model, source, tokens)
    for row, length in enumerate(lengths):
        alone = read(model, source[row : row + 1, :length], tokens[row : row + 1])
        torch.testing.assert_close(together[row : row + 1], alone)
    padded = torch.nn.functional.pad(source, (0, 9), value=PAD)
    torch.testing.assert_close(read(model, padded, tokens), together)


@given(translators(), source_lengths)
def test_given_lengths_are_the_counted_ones(model, lengths):
    source = random_sources(lengths)
    assert torch.equal(model.start(source).ahead, model.start(source, lengths).ahead)


@given(translators(), source_lengths)
def test_a_source_is_unfolded_in_training_as_in_use(model, lengths):
    source = random_sources(lengths)
    assert torch.equal(model.train().start(source).ahead, model.eval().start(source).ahead)


@given(translators(), st.integers(0, 11))
def test_a_token_changes_no_earlier_logit(model, position):
    source, tokens = random_sources([7, 4]), random_tokens(2, 12)
    other = tokens.clone()
    other[:, position] = PAD
    before, after = read(model, source, tokens), read(model, source, other)
    assert torch.equal(before[:, :position], after[:, :position])
    assert not torch.allclose(before[:, position], after[:, position])


@given(translators(), st.data())
def test_any_split_of_the_target_gives_the_same_logits(model, data):
    """Also past the end of the representation, where most of these 40 positions lie."""
    source, tokens = random_sources([7, 4]), random_tokens(2, 40)
    cuts = sorted(data.draw(st.lists(st.integers(0, 40), max_size=6)))
    state, parts = model.start(source), []
    for begin, end in zip([0, *cuts], [*cuts, 40], strict=True):
        logits, state = model(tokens[:, begin:end], state)
        parts.append(logits)
    torch.testing.assert_close(torch.cat(parts, dim=1), read(model, source, tokens))


@given(translators())
def test_unfolding_past_the_end_equals_zeros_joined(model):
    source, tokens = random_sources([7, 4]), random_tokens(2, 60)
    state = model.start(source)
    assume(state.ahead.shape[1] < 60)
    zeros = torch.zeros(2, 60, state.ahead.shape[2], dtype=torch.float64)
    joined, _ = model(tokens, replace(state, ahead=torch.cat([state.ahead, zeros], dim=1)))
    assert torch.equal(read(model, source, tokens), joined)


@given(translators(), st.lists(st.integers(0, 2), min_size=1, max_size=5))
def test_select_equals_reading_again(model, rows):
    source, tokens, more = random_sources([7, 4, 9]), random_tokens(3, 10), random_tokens(len(rows), 8)
    rows = torch.tensor(rows)
    _, state = model(tokens, model.start(source))
    selected, _ = model(more, state.select(rows))
    again = read(model, source[rows], torch.cat([tokens[rows], more], dim=1))[:, 10:]
    torch.testing.assert_close(selected, again)


@given(translators())
def test_two_sentences_in_a_row_do_not_touch_each_other(model):
    first, second, tokens = random_sources([9, 5]), random_sources([7, 8]), random_tokens(2, 12)
    fresh = read(model, second, tokens)
    read(model, first, random_tokens(2, 12))
    assert torch.equal(read(model, second, tokens), fresh)


@given(translators())
def test_the_encoder_sees_as_far_to_the_right_as_to_the_left(model):
    side = (model.config.encoder.receptive_field - 1) // 2
    length = 2 * side + 7
    middle = side + 3
    embedded = torch.randn(8, length, 2 * model.config.inner_channels, dtype=torch.float64, requires_grad=True)
    representation, _ = model.encoder.blocks(embedded, [None] * len(model.encoder.blocks))
    representation[:, middle].sum().backward()
    seen = (embedded.grad != 0).any(dim=-1).any(dim=0).nonzero()
    assert (int(seen.min()), int(seen.max())) == (middle - side, middle + side)


@given(translators())
def test_every_source_character_reaches_the_representation(model):
    """Unless some are left out by design: by a smaller a, or by a stretch below 1."""
    assume(1 <= model.unfolding.stretch <= model.unfolding.a)
    source = random_sources([9])
    before = model.start(source).ahead
    for position in range(9):
        other = source.clone()
        other[0, position] = PAD + 3 if source[0, position] != PAD + 3 else PAD + 4
        assert not torch.equal(model.start(other).ahead, before)


def test_padding_is_read_as_a_symbol_of_its_own():
    """The paper pads with "special characters": padding has an embedding, and an unknown character has another."""
    model = in_double(TranslatorConfig(source_vocabulary=VOCABULARY, target_vocabulary=VOCABULARY, inner_channels=8))
    ahead = model.start(random_sources([5])).ahead
    assert ahead.shape[1] == 60
    assert ahead.any(dim=2).all()


def test_an_empty_source_is_padding_alone():
    model = in_double(TranslatorConfig(source_vocabulary=VOCABULARY, target_vocabulary=VOCABULARY, inner_channels=8))
    empty = torch.empty(1, 0, dtype=torch.long)
    assert model.start(empty).ahead.shape[1] == 60
    torch.testing.assert_close(model.start(torch.full((1, 3), PAD)).ahead, model.start(empty).ahead)


@pytest.mark.parametrize("conditioning", ["add", "concatenate"])
def test_the_source_reaches_the_target(conditioning):
    config = TranslatorConfig(
        source_vocabulary=VOCABULARY,
        target_vocabulary=VOCABULARY,
        inner_channels=8,
        encoder=StackConfig(num_blocks=2),
        decoder=StackConfig(num_blocks=2),
        conditioning=conditioning,
    )
    model = in_double(config)
    tokens = random_tokens(1, 10)
    assert not torch.allclose(read(model, random_tokens(1, 9), tokens), read(model, random_tokens(1, 9), tokens))
