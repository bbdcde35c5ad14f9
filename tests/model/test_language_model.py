"""The language model and its seam: reading in parts, in batches or anew makes no difference."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from bytenet.model import LanguageModel, LanguageModelConfig, State
from bytenet.model.blocks import StackConfig
from bytenet.model.ngrams import NgramConfig
from tests.model.strategies import VOCABULARY, in_double, language_models, random_tokens


def read(model: LanguageModel, tokens: Tensor) -> Tensor:
    logits, _ = model(tokens, model.start(len(tokens)))
    return logits


@given(language_models(), st.integers(0, 11))
def test_a_token_changes_no_earlier_logit(model, position):
    tokens = random_tokens(2, 12)
    other = tokens.clone()
    other[:, position] = VOCABULARY.size - 1 - (tokens[:, position] - 3)  # the same range, mirrored
    other[:, position] += (other[:, position] == tokens[:, position]).long()
    before, after = read(model, tokens), read(model, other)
    assert torch.equal(before[:, :position], after[:, :position])
    assert not torch.allclose(before[:, position], after[:, position])


@given(language_models(), st.data())
def test_any_split_of_a_text_gives_the_same_logits(model, data):
    tokens = random_tokens(2, 24)
    cuts = sorted(data.draw(st.lists(st.integers(0, 24), max_size=6)))
    state, parts = model.start(2), []
    for begin, end in zip([0, *cuts], [*cuts, 24], strict=True):
        logits, state = model(tokens[:, begin:end], state)
        parts.append(logits)
    torch.testing.assert_close(torch.cat(parts, dim=1), read(model, tokens))


@given(language_models())
def test_one_token_at_a_time_gives_the_same_logits(model):
    tokens = random_tokens(2, 24)
    state, steps = model.start(2), []
    for position in range(24):
        logits, state = model(tokens[:, position : position + 1], state)
        steps.append(logits)
    torch.testing.assert_close(torch.cat(steps, dim=1), read(model, tokens))


@given(language_models(), st.lists(st.integers(0, 2), min_size=1, max_size=5))
def test_select_equals_reading_again(model, rows):
    tokens, more = random_tokens(3, 10), random_tokens(len(rows), 4)
    rows = torch.tensor(rows)
    _, state = model(tokens, model.start(3))
    selected, _ = model(more, state.select(rows))
    again = read(model, torch.cat([tokens[rows], more], dim=1))[:, 10:]
    torch.testing.assert_close(selected, again)


@given(language_models())
def test_batch_mates_change_nothing(model):
    tokens = random_tokens(5, 12)
    torch.testing.assert_close(read(model, tokens)[2:3], read(model, tokens[2:3]))
    strangers = random_tokens(5, 12)
    strangers[2] = tokens[2]
    assert torch.equal(read(model, tokens)[2], read(model, strangers)[2])


@given(language_models())
def test_what_follows_a_text_changes_nothing_before_it(model):
    """Padding on the right: the logits of a text are those of the text alone."""
    tokens = random_tokens(2, 9)
    padded = torch.nn.functional.pad(tokens, (0, 6))
    torch.testing.assert_close(read(model, padded)[:, :9], read(model, tokens))


@given(language_models())
def test_two_texts_in_a_row_do_not_touch_each_other(model):
    first, second = random_tokens(2, 9), random_tokens(2, 9)
    fresh = read(model, second)
    read(model, first)
    assert torch.equal(read(model, second), fresh)


@given(language_models())
def test_a_state_is_a_value(model):
    """Reading on from a state leaves it as it was: one prompt serves many continuations."""
    _, state = model(random_tokens(2, 9), model.start(2))
    copies = [history.clone() for history in state.histories]
    more = random_tokens(2, 5)
    once, _ = model(more, state)
    model(random_tokens(2, 7), state)
    twice, _ = model(more, state)
    assert torch.equal(once, twice)
    assert all(torch.equal(a, b) for a, b in zip(state.histories, copies, strict=True))


@given(language_models(), st.integers(1, 200))
def test_a_state_has_constant_size(model, length):
    """What is kept does not grow with the text; with it the cost of the next character would grow."""
    _, state = model(random_tokens(1, length), model.start(1))
    shapes = [(1, reach, model.config.inner_channels) for reach in model.config.decoder.reaches]
    assert [tuple(history.shape) for history in state.histories] == shapes
    reach = model.config.ngrams.reach
    assert state.tokens is None if reach == 0 else tuple(state.tokens.shape) == (1, reach)


@pytest.mark.parametrize("place", ["head", "blocks", "n-grams"])
@given(model=language_models())
def test_dropout_is_off_in_evaluation_and_on_in_training(place, model):
    dropped = {
        "head": {"dropout": 0.5},
        "blocks": {"decoder": replace(model.config.decoder, dropout=0.5)},
        "n-grams": {"ngrams": NgramConfig(sizes=(2, 3), rows=11, channels=3, dropout=0.5)},
    }
    model = in_double(replace(model.config, **({"dropout": 0.0} | dropped[place])))
    tokens = random_tokens(2, 9)
    assert torch.equal(read(model, tokens), read(model, tokens))
    model.train()
    assert not torch.equal(read(model, tokens), read(model, tokens))


def receptive_field_by_gradient(model: LanguageModel, length: int) -> int:
    """How far back the last logits depend on the embedding of a token, by gradients that are not zero."""
    # several texts, because a ReLU may close a path for one of them
    embedded = torch.randn(8, length, 2 * model.config.inner_channels, dtype=torch.float64, requires_grad=True)
    x, _ = model.decoder.blocks(embedded, model.start(8).histories)
    model.decoder.head(x)[:, -1].sum().backward()
    seen = (embedded.grad != 0).any(dim=-1).any(dim=0).nonzero()
    return length - int(seen.min())


@given(language_models())
def test_receptive_field_by_gradient_is_the_configs(model):
    expected = model.config.decoder.receptive_field
    assert receptive_field_by_gradient(model, expected + 10) == expected


@given(language_models())
def test_what_lies_before_the_receptive_field_changes_nothing(model):
    field = model.config.receptive_field
    tokens = random_tokens(2, field + 6)
    other = torch.cat([random_tokens(2, 6), tokens[:, 6:]], dim=1)
    torch.testing.assert_close(read(model, tokens)[:, -1], read(model, other)[:, -1])


@pytest.mark.parametrize("block", ["relu", "multiplicative"])
def test_the_papers_receptive_field_is_373(block):
    config = LanguageModelConfig(vocabulary=VOCABULARY, inner_channels=16, decoder=StackConfig(block=block))
    assert config.decoder.receptive_field == 373
    assert receptive_field_by_gradient(in_double(config), 400) == 373


@pytest.mark.parametrize("block", ["relu", "multiplicative"])
def test_the_state_decides_the_precision(block):
    config = LanguageModelConfig(vocabulary=VOCABULARY, inner_channels=32, decoder=StackConfig(block=block))
    model = in_double(config).float()
    tokens = random_tokens(2, 20)
    exact = read(model, tokens)
    logits, state = model(tokens, model.start(2, dtype=torch.bfloat16))
    assert logits.dtype == torch.float32
    assert state.dtype == torch.bfloat16
    assert not torch.equal(logits, exact)
    torch.testing.assert_close(logits, exact, atol=0.1 * exact.std().item(), rtol=0.1)


def test_a_selected_row_may_stand_several_times_or_never():
    state = State((torch.arange(6.0).view(3, 2, 1),))
    assert state.select(torch.tensor([2, 0, 2])).histories[0][:, 0, 0].tolist() == [4, 0, 4]
