"""Many sources: each is translated once and as if it stood alone, whatever it is searched together with."""

import itertools
import math
import random

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bytenet.decoding import translation
from bytenet.decoding.batching import batches, padded
from bytenet.decoding.beam_search import BeamConfig, Hypothesis, beam_search
from bytenet.decoding.engine import choose_engine
from bytenet.decoding.translation import search_all, sentence_cost
from bytenet.model import Translator, TranslatorConfig
from bytenet.model.blocks import StackConfig
from bytenet.model.translator import UnfoldingConfig
from bytenet.vocabulary import END, PAD
from tests.model.strategies import FIRST_TOKEN, VOCABULARY, in_double

CONFIG = BeamConfig(beam=3, n_best=2)
items = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 20)), max_size=40)


@given(items, st.integers(0, 60), st.integers(1, 9))
def test_batches_hold_everything_once_and_keep_within_the_budget(items, budget, most):
    lengths, costs = [length for length, _ in items], [cost for _, cost in items]
    found = batches(lengths, lambda i: costs[i], budget, most)
    assert sorted(i for batch in found for i in batch) == list(range(len(items)))
    for batch in found:
        assert 1 <= len(batch) <= most
        assert sum(costs[i] for i in batch) <= budget or len(batch) == 1


@given(items, st.integers(0, 60), st.integers(1, 9))
def test_the_batch_with_the_first_index_comes_first(items, budget, most):
    found = batches([length for length, _ in items], lambda i: items[i][1], budget, most)
    first = [min(batch) for batch in found]
    assert first == sorted(first)
    assert first[:1] == [0][: len(items)]


@given(st.lists(st.integers(0, 30)), st.integers(1, 9))
def test_batches_are_full_and_of_similar_lengths(lengths, most):
    found = batches(lengths, lambda i: 1, most, most)
    assert len(found) == math.ceil(len(lengths) / most)
    spans = sorted((min(of_batch), max(of_batch)) for of_batch in ([lengths[i] for i in batch] for batch in found))
    assert all(one[1] <= other[0] for one, other in itertools.pairwise(spans))


@given(st.lists(st.lists(st.integers(FIRST_TOKEN, 9), max_size=9), min_size=1, max_size=5))
def test_texts_are_filled_up_with_padding(rows):
    longest = max(map(len, rows))
    together = padded([np.array(row, dtype=np.int32) for row in rows])
    assert together.dtype == torch.int64
    assert together.tolist() == [row + [PAD] * (longest - len(row)) for row in rows]


def small_translator() -> Translator:
    stack = StackConfig(num_blocks=3, dilations=(1, 2, 4))
    config = TranslatorConfig(
        source_vocabulary=VOCABULARY,
        target_vocabulary=VOCABULARY,
        inner_channels=16,
        encoder=stack,
        decoder=stack,
        unfolding=UnfoldingConfig(multiple=5),
    )
    model = in_double(config, seed=3).float()
    with torch.no_grad():
        model.decoder.head.logits.bias[END] += 1
    return model


def random_texts(number: int) -> tuple[list[np.ndarray], list[int]]:
    """Sources of many lengths, and limits."""
    numbers = np.random.default_rng(1)
    sources = [
        numbers.integers(FIRST_TOKEN, VOCABULARY.size, length, dtype=np.int32)
        for length in numbers.integers(1, 30, number)
    ]
    return sources, [4 + len(source) // 4 for source in sources]


def search(model: Translator, sources: list[np.ndarray], limits: list[int], **options) -> list[list[Hypothesis]]:
    engine = choose_engine(model)
    found = list(search_all(model, engine, sources, limits, CONFIG, **options))
    assert sorted(number for number, _ in found) == list(range(len(sources)))
    return [hypotheses for _, hypotheses in sorted(found, key=lambda result: result[0])]


def texts(found: list[list[Hypothesis]]) -> list[list[tuple[list[int], bool]]]:
    return [[(one.tokens, one.ended) for one in hypotheses] for hypotheses in found]


@torch.no_grad()
def one_by_one(model: Translator, sources: list[np.ndarray], limits: list[int]) -> list[list[Hypothesis]]:
    device, engine = next(model.parameters()).device, choose_engine(model)
    found = []
    for source, limit in zip(sources, limits, strict=True):
        state = model.start(torch.from_numpy(source).long()[None].to(device))
        ((_, hypotheses),) = beam_search(engine, state, [limit], CONFIG)
        found.append(hypotheses)
    return found


def test_neither_the_batch_size_nor_the_order_changes_a_translation():
    model, (sources, limits) = small_translator(), random_texts(60)
    expected = one_by_one(model, sources, limits)
    assert sum(row[0].ended for row in expected) > 5
    assert len({tuple(row[0].tokens) for row in expected}) > 20
    shuffled = random.Random(1).sample(range(60), 60)
    for batch in (1, 7, 64):
        found = search(model, sources, limits, batch=batch)
        assert texts(found) == texts(expected)
        for row, other in zip(found, expected, strict=True):
            likelihoods = [[one.log_likelihood for one in hypotheses] for hypotheses in (row, other)]
            assert np.allclose(*likelihoods, atol=1e-4)
    for batch in (7, None):
        again = search(model, [sources[i] for i in shuffled], [limits[i] for i in shuffled], batch=batch)
        assert texts(again) == [texts(expected)[i] for i in shuffled]


def test_the_first_source_is_in_the_first_batch():
    model, (sources, limits) = small_translator(), random_texts(20)
    numbers = [number for number, _ in search_all(model, choose_engine(model), sources, limits, CONFIG, batch=4)]
    assert 0 in numbers[:4]


def test_no_sources_are_no_translations(monkeypatch):
    monkeypatch.setattr(translation, "free_memory", lambda _: 0)
    assert search(small_translator(), [], []) == []


def test_little_memory_makes_small_batches_and_the_same_translations(monkeypatch):
    model, (sources, limits) = small_translator(), random_texts(20)
    expected = texts(search(model, sources, limits))
    cost = sentence_cost(model, CONFIG, None)
    costs = {len(source): cost(len(source), limit) for source, limit in zip(sources, limits, strict=True)}
    started: list[list[int]] = []
    start = model.start

    def watched(source, lengths, **options):
        started.append(lengths)
        return start(source, lengths, **options)

    monkeypatch.setattr(model, "start", watched)
    for share in (1, 4, 16):
        started.clear()
        free = share * max(costs.values())
        monkeypatch.setattr(translation, "free_memory", lambda _, free=free: free)
        assert texts(search(model, sources, limits)) == expected
        assert sorted(length for lengths in started for length in lengths) == sorted(map(len, sources))
        assert all(len(lengths) == 1 or sum(costs[length] for length in lengths) <= free / 4 for lengths in started)
    assert 1 < len(started) < 10


@pytest.mark.parametrize("dtype", [None, torch.float64])
def test_a_source_too_long_for_memory_is_a_mistake(monkeypatch, dtype):
    model, (sources, limits) = small_translator(), random_texts(20)
    cost = sentence_cost(model, CONFIG, dtype)
    needed = max(cost(len(source), limit) for source, limit in zip(sources, limits, strict=True))
    monkeypatch.setattr(translation, "free_memory", lambda _: needed - 1)
    found = search_all(model, choose_engine(model), sources, limits, CONFIG, dtype=dtype)
    with pytest.raises(ValueError, match=rf"^a source of {max(map(len, sources))} symbols needs .*\Z") as raised:
        next(found)
    assert "\n" not in str(raised.value)


@given(st.integers(1, 300), st.integers(1, 300), st.integers(1, 12))
def test_what_costs_more_memory_is_reckoned_to_cost_more(length, limit, beam):
    model = small_translator()
    config = BeamConfig(beam=beam)
    cost = sentence_cost(model, config, None)
    assert 0 < cost(length, limit) < cost(length + 5, limit)
    assert cost(length, limit) < cost(length, limit + 1)
    assert cost(length, limit) < sentence_cost(model, BeamConfig(beam=beam + 1), None)(length, limit)
    assert sentence_cost(model, config, torch.bfloat16)(length, limit) < cost(length, limit)
