"""Beam search: what a slow one with lists finds, and with a beam that is wide enough, the best there is."""

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from bytenet.decoding.beam_search import BeamConfig, Hypothesis, beam_search
from bytenet.decoding.engine import Engine, PlainEngine, choose_engine
from bytenet.model import Translator
from bytenet.vocabulary import BEGIN, END, PAD, VocabularyConfig
from tests.model.strategies import in_double, random_sources, random_tokens, translators

source_lengths = st.lists(st.integers(0, 9), min_size=1, max_size=4)
# Random models seldom write END by themselves: how much likelier it is made.
bonuses = st.sampled_from([-50.0, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 50.0])
penalties = st.sampled_from([0.0, 0.3, 1.0, 2.5])
engines = st.sampled_from([PlainEngine, choose_engine, lambda model: FillingUp(choose_engine(model))])


@st.composite
def beam_configs(draw: st.DrawFn) -> BeamConfig:
    beam = draw(st.integers(1, 5))
    return BeamConfig(beam=beam, n_best=draw(st.integers(1, beam)), length_penalty=draw(penalties))


@st.composite
def small_translators(draw: st.DrawFn) -> Translator:
    """Of so few symbols that all texts can be tried."""
    vocabulary = VocabularyConfig(kind="characters", symbols=draw(st.sampled_from([2, 3])))
    config = replace(draw(translators()).config, target_vocabulary=vocabulary)
    return in_double(config, seed=draw(st.integers(0, 999)))


def favour_end(model: Translator, bonus: float) -> Translator:
    with torch.no_grad():
        model.decoder.head.logits.bias[END] += bonus
    return model


def search(
    model: Translator,
    sources: Tensor,
    lengths: list[int],
    limits: list[int],
    config: BeamConfig,
    make: Callable[[Translator], Engine] = choose_engine,
) -> list[list[Hypothesis]]:
    """What is found for each source; that it is handed out exactly once."""
    with torch.no_grad():
        state = model.start(sources, lengths)
    found = list(beam_search(make(model), state, limits, config))
    assert sorted(row for row, _ in found) == list(range(len(limits)))
    return [hypotheses for _, hypotheses in sorted(found, key=lambda result: result[0])]


def alone(sources: Tensor, lengths: list[int]) -> Iterator[Tensor]:
    """Each source (1, S) without padding."""
    return (row[None, :length] for row, length in zip(sources, lengths, strict=True))


@torch.no_grad()
def read(model: Translator, source: Tensor, texts: list[list[int]]) -> Tensor:
    """source (1, S), texts of one length T -> log-probabilities (n, T + 1, V) before each token and after the last"""
    tokens = torch.tensor([[BEGIN, *text] for text in texts])
    start = model.start(source, [source.shape[1]]).select(torch.zeros(len(texts), dtype=torch.long))
    logits, _ = model(tokens, start)
    return logits.log_softmax(-1)


def likelihood(model: Translator, source: Tensor, tokens: list[int], *, ended: bool) -> float:
    """Of a text, by one parallel reading."""
    table = read(model, source, [tokens])[0]
    return float(sum(table[i, token] for i, token in enumerate([*tokens, END] if ended else tokens)))


def greedy(model: Translator, source: Tensor, limit: int) -> tuple[list[int], bool]:
    """What is written and whether it ended, by reading the whole prefix at each step."""
    written: list[int] = []
    for _ in range(limit):
        token = END + int(read(model, source, [written])[0, -1, END:].argmax())
        if token == END:
            return written, True
        written.append(token)
    return written, False


def score(total: float, length: int, config: BeamConfig) -> float:
    """`length` counts END."""
    return total / ((5 + length) / 6) ** config.length_penalty


def slow_beam_search(model: Translator, source: Tensor, limit: int, config: BeamConfig) -> list[Hypothesis]:
    """With lists, reading every prefix again, and always up to the limit."""
    live: list[tuple[list[int], float]] = [([], 0.0)]
    ended: list[Hypothesis] = []
    for _ in range(limit):
        tables = read(model, source, [tokens for tokens, _ in live])[:, -1].tolist()
        continued = [
            (tokens, token, total + table[token])
            for (tokens, total), table in zip(live, tables, strict=True)
            for token in range(END, len(table))
        ]
        continued.sort(key=lambda one: -one[2])
        ended += [Hypothesis(tokens, total, True) for tokens, token, total in continued[: config.beam] if token == END]
        live = [([*tokens, token], total) for tokens, token, total in continued if token != END][: config.beam]
    if not ended:
        tokens, total = live[0]
        return [Hypothesis(tokens, total, False)]
    ended.sort(key=lambda one: -score(one.log_likelihood, len(one.tokens) + 1, config))
    return ended[: config.n_best]


def assert_same(found: list[Hypothesis], expected: list[Hypothesis]) -> None:
    assert [(one.tokens, one.ended) for one in found] == [(one.tokens, one.ended) for one in expected]
    for one, other in zip(found, expected, strict=True):
        assert math.isclose(one.log_likelihood, other.log_likelihood, rel_tol=1e-9, abs_tol=1e-9)


@given(translators(), source_lengths, bonuses, beam_configs(), engines, st.data())
@settings(max_examples=40)
def test_it_finds_what_a_slow_search_without_early_exit_finds(model, lengths, bonus, config, make, data):
    """So the exit changes nothing, nor do sentences that are done and leave the batch earlier than others."""
    model, sources = favour_end(model, bonus), random_sources(lengths)
    limits = data.draw(st.lists(st.integers(0, 12), min_size=len(lengths), max_size=len(lengths)))
    found = search(model, sources, lengths, limits, config, make)
    for source, limit, hypotheses in zip(alone(sources, lengths), limits, found, strict=True):
        assert_same(hypotheses, slow_beam_search(model, source, limit, config))


@given(translators(), st.sampled_from([0.5, 1.0, 1.5, 2.0, 3.0]), st.sampled_from([2.5, 5.0]), st.integers(1, 2))
@settings(max_examples=10)
def test_with_a_length_penalty_it_waits_for_longer_ones_that_may_still_win(model, bonus, penalty, n_best):
    model, sources = favour_end(model, bonus), random_tokens(3, 7)
    config = BeamConfig(beam=3, n_best=n_best, length_penalty=penalty)
    found = search(model, sources, [7] * 3, [12] * 3, config)
    for source, hypotheses in zip(alone(sources, [7] * 3), found, strict=True):
        assert_same(hypotheses, slow_beam_search(model, source, 12, config))


@given(small_translators(), st.integers(1, 9), bonuses, st.integers(1, 4), st.integers(1, 12), penalties)
def test_a_wide_beam_finds_the_best_of_all_texts(model, length, bonus, limit, n_best, penalty):
    vocabulary = model.config.target_vocabulary.size
    model, source = favour_end(model, bonus), random_tokens(1, length)
    source = source.clamp(max=vocabulary - 1)
    beam = max(n_best, (vocabulary - END) ** limit)
    config = BeamConfig(beam=beam, n_best=n_best, length_penalty=penalty)
    everything: list[Hypothesis] = []
    for size in range(limit):
        texts = [list(text) for text in itertools.product(range(END + 1, vocabulary), repeat=size)]
        for text, table in zip(texts, read(model, source, texts).tolist(), strict=True):
            total = sum(table[i][token] for i, token in enumerate([*text, END]))
            everything.append(Hypothesis(text, total, True))
    everything.sort(key=lambda one: -score(one.log_likelihood, len(one.tokens) + 1, config))
    (found,) = search(model, source, [length], [limit], config)
    assert_same(found, everything[:n_best])


@given(translators(), source_lengths, bonuses, engines, st.data())
def test_a_beam_of_one_is_greedy(model, lengths, bonus, make, data):
    model, sources = favour_end(model, bonus), random_sources(lengths)
    limits = data.draw(st.lists(st.integers(0, 12), min_size=len(lengths), max_size=len(lengths)))
    found = search(model, sources, lengths, limits, BeamConfig(beam=1), make)
    expected = [greedy(model, source, limit) for source, limit in zip(alone(sources, lengths), limits, strict=True)]
    assert [[(one.tokens, one.ended) for one in row] for row in found] == [[row] for row in expected]


@given(translators(), bonuses, st.integers(0, 8))
@settings(max_examples=10)
def test_what_greedy_search_may_write_longer_begins_the_same(model, bonus, limit):
    model, sources = favour_end(model, bonus), random_tokens(3, 7)
    short, long = (search(model, sources, [7] * 3, [n] * 3, BeamConfig(beam=1)) for n in (limit, limit + 4))
    assert [row[0].tokens for row in short] == [row[0].tokens[:limit] for row in long]


@given(translators(), source_lengths, bonuses, beam_configs(), st.randoms(use_true_random=False))
@settings(max_examples=20)
def test_batch_mates_padding_and_order_change_nothing(model, lengths, bonus, config, random):
    model, sources = favour_end(model, bonus), random_sources(lengths)
    limits = [random.randrange(10) for _ in lengths]
    together = search(model, sources, lengths, limits, config)
    for source, limit, found in zip(alone(sources, lengths), limits, together, strict=True):
        assert_same(search(model, source, [source.shape[1]], [limit], config)[0], found)
    order = random.sample(range(len(lengths)), len(lengths))
    padded = torch.nn.functional.pad(sources, (0, 4), value=PAD)[order]
    shuffled = search(model, padded, [lengths[i] for i in order], [limits[i] for i in order], config)
    for i, found in zip(order, shuffled, strict=True):
        assert_same(found, together[i])


@given(translators(), source_lengths, bonuses, beam_configs(), st.integers(0, 10))
def test_a_hypothesis_is_what_it_says(model, lengths, bonus, config, limit):
    """Its likelihood is that of its text and END, without END if it has not ended; and its tokens are a text."""
    model, sources = favour_end(model, bonus), random_sources(lengths)
    found = search(model, sources, lengths, [limit] * len(lengths), config)
    for source, hypotheses in zip(alone(sources, lengths), found, strict=True):
        assert 1 <= len(hypotheses) <= config.n_best
        for one in hypotheses:
            exact = likelihood(model, source, one.tokens, ended=one.ended)
            assert math.isclose(one.log_likelihood, exact, rel_tol=1e-9, abs_tol=1e-9)
            assert not {PAD, BEGIN, END} & set(one.tokens)
            assert len(one.tokens) < limit if one.ended else len(one.tokens) == limit
        scores = [score(one.log_likelihood, len(one.tokens) + 1, config) for one in hypotheses]
        assert scores == sorted(scores, reverse=True)
        assert len({tuple(one.tokens) for one in hypotheses}) == len(hypotheses)


@given(translators(), source_lengths, beam_configs(), st.integers(0, 10))
@settings(max_examples=10)
def test_what_never_ends_is_cut_off_at_its_limit(model, lengths, config, limit):
    found = search(favour_end(model, -1e3), random_sources(lengths), lengths, [limit] * len(lengths), config)
    assert [[(len(one.tokens), one.ended) for one in row] for row in found] == [[(limit, False)]] * len(lengths)


@given(translators(), st.sampled_from([PAD, BEGIN]), st.integers(1, 4))
@settings(max_examples=10)
def test_padding_and_begin_are_never_written_however_likely(model, token, beam):
    with torch.no_grad():
        model.decoder.head.logits.bias[token] += 5
    sources = random_tokens(3, 5)
    for hypotheses in search(model, sources, [5] * 3, [6] * 3, BeamConfig(beam=beam, n_best=beam)):
        assert not any({PAD, BEGIN} & set(one.tokens) for one in hypotheses)


@dataclass
class Counting:
    """An engine that remembers how many rows each of its steps had."""

    engine: Engine
    rows: list[int] = field(default_factory=list)

    def __call__(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        self.rows.append(len(tokens))
        return self.engine(tokens, state)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)


@dataclass
class FillingUp:
    """An engine that works on few different numbers of sentences only, as a GPU's does."""

    engine: Engine

    def __call__(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        return self.engine(tokens, state)

    def filled_up(self, sentences: int) -> int:
        return math.ceil(sentences / 3) * 3

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)


def rows_of_steps(model: Translator, limits: list[int], config: BeamConfig) -> list[int]:
    engine = Counting(choose_engine(model))
    search(model, random_tokens(len(limits), 5), [5] * len(limits), limits, config, lambda _: engine)
    return engine.rows


@given(translators(), st.integers(1, 4))
@settings(max_examples=5)
def test_no_step_is_made_that_could_change_nothing(model, beam):
    config = BeamConfig(beam=beam)
    assert rows_of_steps(favour_end(model, 1e3), [10] * 3, config) == [3 * beam]
    assert rows_of_steps(favour_end(model, -2e3), [10] * 3, config) == [3 * beam] * 10
    assert rows_of_steps(model, [0] * 3, config) == []
    assert rows_of_steps(model, [], config) == []


@given(translators(), st.integers(1, 4))
@settings(max_examples=5)
def test_once_half_the_sentences_are_done_the_others_go_on_without_them(model, beam):
    rows = rows_of_steps(favour_end(model, -1e3), [2, 6, 1], BeamConfig(beam=beam))
    assert rows == [3 * beam] * 2 + [beam] * 4


@given(translators(), bonuses, beam_configs())
@settings(max_examples=10)
def test_searches_that_take_turns_do_not_touch_each_other(model, bonus, config):
    """Results are handed out during a search: another one with the same engine may run in between."""
    model, limits = favour_end(model, bonus).float(), [1, 3, 6, 9]  # float32: a GPU's own engine
    starts = [model.start(random_tokens(4, 7), [7] * 4) for _ in range(2)]
    engine = choose_engine(model)
    expected = [list(beam_search(engine, start, limits, config)) for start in starts]
    in_turns = list(zip(*(beam_search(engine, start, limits, config) for start in starts), strict=True))
    assert [list(results) for results in zip(*in_turns, strict=True)] == expected


@given(translators(), source_lengths, beam_configs(), st.booleans())
@settings(max_examples=10)
def test_in_single_precision_the_fastest_engine_scores_as_the_model_does(model, lengths, config, interrupted):
    """On a GPU these are captured graphs, used again by the second search."""
    exact = favour_end(model.float().double(), 1.0)
    narrow = in_double(exact.config).float()
    narrow.load_state_dict(exact.state_dict())
    engine, sources = choose_engine(narrow), random_sources(lengths)
    limits = [6 + i for i in range(len(lengths))]
    if interrupted:
        next(beam_search(engine, narrow.start(sources, lengths), limits, config))
    found = search(narrow, sources, lengths, limits, config, lambda _: engine)
    assert [len(row) for row in found] == [len(row) for row in search(exact, sources, lengths, limits, config)]
    for source, hypotheses in zip(alone(sources, lengths), found, strict=True):
        for one in hypotheses:
            assert abs(one.log_likelihood - likelihood(exact, source, one.tokens, ended=one.ended)) < 1e-3


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("beam", {"beam": 0}),
        ("n_best", {"n_best": 0}),
        ("n_best", {"beam": 3, "n_best": 4}),
        ("length_penalty", {"length_penalty": -0.5}),
        ("length_penalty", {"length_penalty": math.inf}),
        ("length_penalty", {"length_penalty": math.nan}),
    ],
)
def test_a_mistake_is_named_in_one_line(name, values):
    with pytest.raises(ValueError, match=rf"^{name} must be .*\Z") as raised:
        BeamConfig(**values)
    assert "\n" not in str(raised.value)
