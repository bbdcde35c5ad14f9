"""Greedy decoding: the most probable next token, as if the whole prefix were read anew at every step."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from bytenet.decoding.greedy import greedy, until_end
from bytenet.model import Translator
from bytenet.vocabulary import BEGIN, END
from tests.model.strategies import random_sources, random_tokens, translators

source_lengths = st.lists(st.integers(0, 9), min_size=1, max_size=4)
# Random models seldom write END by themselves: how much likelier it is made.
bonuses = st.sampled_from([-50.0, 0.0, 0.5, 1.0, 1.5, 50.0])


def favour_end(model: Translator, bonus: float) -> Translator:
    with torch.no_grad():
        model.decoder.head.logits.bias[END] += bonus
    return model


@torch.no_grad()
def by_reading_again(model: Translator, source: Tensor, max_length: int) -> list[int]:
    """source (S,), without padding -> what is written, by reading the whole prefix at each step"""
    written: list[int] = []
    while len(written) < max_length:
        logits, _ = model(torch.tensor([[BEGIN, *written]]), model.start(source[None], [len(source)]))
        token = int(logits[0, -1].argmax())
        if token == END:
            break
        written.append(token)
    return written


@given(translators(), source_lengths, bonuses, st.integers(0, 12))
def test_greedy_equals_reading_everything_again_at_each_step(model, lengths, bonus, max_length):
    model, sources = favour_end(model, bonus), random_sources(lengths)
    expected = [by_reading_again(model, row[:length], max_length) for row, length in zip(sources, lengths, strict=True)]
    written = greedy(model, sources, lengths, max_length)
    assert written == expected
    assert all(len(row) <= max_length and END not in row for row in written)


@given(translators(), source_lengths, bonuses)
def test_batch_mates_change_nothing(model, lengths, bonus):
    model, sources = favour_end(model, bonus), random_sources(lengths)
    alone = [greedy(model, row[None, :n], [n], 10)[0] for row, n in zip(sources, lengths, strict=True)]
    assert greedy(model, sources, lengths, 10) == alone


@given(translators(), source_lengths)
def test_a_row_ends_with_end_or_at_the_longest_that_is_allowed(model, lengths):
    sources = random_sources(lengths)
    assert greedy(favour_end(model, 1e3), sources, lengths, 10) == [[] for _ in lengths]
    assert [len(row) for row in greedy(favour_end(model, -2e3), sources, lengths, 10)] == [10 for _ in lengths]


@given(translators(), bonuses, st.integers(0, 8))
def test_what_is_allowed_to_be_longer_begins_the_same(model, bonus, max_length):
    model, source = favour_end(model, bonus), random_tokens(3, 7)
    short, long = greedy(model, source, [7] * 3, max_length), greedy(model, source, [7] * 3, max_length + 4)
    assert short == [row[:max_length] for row in long]


@given(translators())
def test_no_step_is_made_after_the_last_row_has_ended(model):
    calls: list[Tensor] = []
    model.register_forward_pre_hook(lambda _, inputs: calls.append(inputs[0]))
    greedy(favour_end(model, 1e3), random_tokens(3, 5), [5] * 3, 10)
    assert [call.tolist() for call in calls] == [[[BEGIN]] * 3]


@given(translators())
def test_an_empty_batch_and_no_length_are_nothing(model):
    assert greedy(model, random_tokens(0, 5), [], 10) == []
    assert greedy(model, random_tokens(2, 5), [5, 5], 0) == [[], []]


@given(st.lists(st.integers(0, 4)))
def test_what_follows_the_first_end_is_left_out(tokens):
    before: list[int] = []
    for token in tokens:
        if token == END:
            break
        before.append(token)
    assert until_end(tokens) == before
