"""Sampling: tokens are drawn from the softmax, from its most probable part alone, or are the most probable ones."""

import math
from collections import Counter
from itertools import islice, takewhile

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from bytenet.decoding.beam_search import BeamConfig, beam_search
from bytenet.decoding.engine import PlainEngine, choose_engine
from bytenet.decoding.sampling import SamplingConfig, choose, sample
from bytenet.model import LanguageModel, State
from bytenet.vocabulary import BEGIN, END, PAD
from tests.model.strategies import VOCABULARY, language_models, random_tokens, translators

GREEDY = SamplingConfig(temperature=0)

prompt_lengths = st.integers(1, 15)
configs = st.builds(
    SamplingConfig,
    temperature=st.sampled_from([0.5, 1.0, 1.7]),
    top_k=st.integers(0, VOCABULARY.size + 2),
    top_p=st.sampled_from([0.1, 0.35, 0.6, 0.8, 0.95, 1.0]),
)


@torch.no_grad()
def after(model: LanguageModel, prompt: Tensor) -> tuple[State, Tensor]:
    """prompt (n, T) -> the state of all but its last tokens, and these (n,)"""
    _, state = model(prompt[:, :-1], model.start(len(prompt)))
    return state, prompt[:, -1]


def continued(
    model: LanguageModel, prompt: Tensor, length: int, config: SamplingConfig, seed: int | None = None
) -> list[list[int]]:
    """What each row goes on with."""
    tokens = islice(sample(choose_engine(model), *after(model, prompt), config, seed), length)
    return [list(row) for row in zip(*tokens, strict=True)]


@torch.no_grad()
def greedy(model: LanguageModel, prompt: Tensor, length: int) -> list[list[int]]:
    """By reading everything again at each step."""
    text = prompt
    for _ in range(length):
        logits, _ = model(text, model.start(len(text)))
        text = torch.cat([text, END + logits[:, -1:, END:].argmax(-1)], dim=1)
    return text[:, prompt.shape[1] :].tolist()


def allowed(logits: list[float], config: SamplingConfig) -> dict[int, float]:
    """The tokens that may be drawn, and how probable each is."""
    best = sorted(range(END, len(logits)), key=lambda token: -logits[token])
    best = best[: config.top_k] if config.top_k else best
    weights = {token: math.exp(logits[token] / config.temperature) for token in best}
    kept: dict[int, float] = {}
    for token in best:
        if sum(kept.values()) < config.top_p * sum(weights.values()):
            kept[token] = weights[token]
    return {token: weight / sum(kept.values()) for token, weight in kept.items()}


def generator(seed: int) -> torch.Generator:
    return torch.Generator(torch.get_default_device()).manual_seed(seed)


def drawn(logits: Tensor, config: SamplingConfig, number: int, seed: int = 0) -> Counter[int]:
    """logits (V,) -> how often each token was drawn"""
    return Counter(choose(logits.expand(number, -1), config, generator(seed)).tolist())


@given(language_models(), prompt_lengths)
@settings(max_examples=15)
def test_temperature_zero_is_greedy(model, length):
    prompt = random_tokens(3, length)
    expected = greedy(model, prompt, 20)
    assert continued(model, prompt, 20, GREEDY) == expected
    plain = islice(sample(PlainEngine(model), *after(model, prompt), GREEDY), 20)
    assert [list(row) for row in zip(*plain, strict=True)] == expected


@given(translators(), st.sampled_from([-50.0, 0.5, 1.5, 50.0]))
@settings(max_examples=15)
def test_temperature_zero_is_a_beam_of_one(model, bonus):
    with torch.no_grad():
        model.decoder.head.logits.bias[END] += bonus
        state = model.start(random_tokens(3, 8))
    tokens = islice(sample(choose_engine(model), state, torch.tensor([BEGIN] * 3), GREEDY), 12)
    written = [list(takewhile(lambda token: token != END, row)) for row in zip(*tokens, strict=True)]
    found = dict(beam_search(choose_engine(model), state, [12] * 3, BeamConfig(beam=1)))
    assert written == [found[row][0].tokens for row in range(3)]


@given(language_models(), prompt_lengths, st.sampled_from([0.3, 1.0, 5.0]))
@settings(max_examples=10)
def test_from_one_token_the_most_probable_is_drawn(model, length, temperature):
    prompt = random_tokens(3, length)
    expected = greedy(model, prompt, 12)
    for few in ({"top_k": 1}, {"top_p": 1e-9}):
        assert continued(model, prompt, 12, SamplingConfig(temperature=temperature, **few)) == expected


@given(language_models(), prompt_lengths)
@settings(max_examples=10)
def test_a_seed_repeats_and_another_differs(model, length):
    prompt, config = random_tokens(3, length), SamplingConfig(temperature=3)
    engine, prompted = choose_engine(model), after(model, prompt)
    seeds = [7, 7, 8, None, None]
    texts = [list(islice(sample(engine, *prompted, config, seed), 30)) for seed in seeds]
    assert texts[0] == texts[1]
    assert all(texts[i] != texts[j] for i in range(5) for j in range(i) if (i, j) != (1, 0))
    rows = list(zip(*texts[0], strict=True))
    assert len(set(rows)) == 3


@given(language_models(), st.integers(0, 999))
@settings(max_examples=10)
def test_streams_that_take_turns_do_not_touch_each_other(model, seed):
    model, config = model.float(), SamplingConfig(temperature=2)  # float32: a GPU's own engine
    engine, prompts = choose_engine(model), [random_tokens(2, 6), random_tokens(2, 6)]

    def stream(number):
        return islice(sample(engine, *after(model, prompts[number]), config, seed + number), 15)

    expected = [list(stream(0)), list(stream(1))]
    assert [list(texts) for texts in zip(*zip(stream(0), stream(1), strict=True), strict=True)] == expected


@given(language_models(), prompt_lengths)
@settings(max_examples=10)
def test_rows_of_one_prompt_are_what_each_would_be_alone(model, length):
    prompt = random_tokens(2, length)
    alone = [continued(model, row[None], 15, GREEDY)[0] for row in prompt]
    state, tokens = after(model, prompt)
    rows = torch.tensor([1, 0, 1, 1])
    together = islice(sample(choose_engine(model), state.select(rows), tokens[rows], GREEDY), 15)
    assert [list(row) for row in zip(*together, strict=True)] == [alone[row] for row in rows.tolist()]


@given(configs, st.integers(0, 999))
def test_what_is_drawn_is_the_softmax_of_what_is_allowed(config, seed):
    """By Pearson's statistic: of k tokens, about k - 1, and seldom more than 5 deviations above."""
    torch.manual_seed(seed)
    logits, number = torch.randn(VOCABULARY.size, dtype=torch.float64), 20_000
    logits[[PAD, BEGIN]] = 5
    probable = allowed(logits.tolist(), config)
    counts = drawn(logits, config, number, seed)
    assert set(counts) <= set(probable)
    statistic = sum((counts[token] - number * p) ** 2 / (number * p) for token, p in probable.items())
    degrees = len(probable) - 1
    assert statistic <= degrees + 5 * math.sqrt(2 * degrees) + 5 * (degrees > 0)


@given(configs, language_models())
@settings(max_examples=10)
def test_every_row_is_drawn_from_its_own_tokens(config, model):
    with torch.no_grad():
        model.decoder.head.logits.bias[[PAD, BEGIN]] += 5
    text = prompt = random_tokens(4, 3)
    for _, tokens in zip(range(15), sample(choose_engine(model), *after(model, prompt), config, 1), strict=False):
        with torch.no_grad():
            logits, _ = model(text, model.start(4))
        assert all(token in allowed(row, config) for token, row in zip(tokens, logits[:, -1].tolist(), strict=True))
        text = torch.cat([text, torch.tensor(tokens)[:, None]], dim=1)


@pytest.mark.parametrize("config", [GREEDY, SamplingConfig(), SamplingConfig(top_k=2), SamplingConfig(top_p=0.5)])
def test_padding_and_begin_are_never_drawn_however_probable(config):
    logits = torch.zeros(VOCABULARY.size)
    logits[[PAD, BEGIN]] = 60
    assert not {PAD, BEGIN} & set(drawn(logits, config, 5000))


def test_equally_probable_tokens_all_stay_and_something_always_does():
    logits = torch.zeros(VOCABULARY.size)
    assert len(drawn(logits, SamplingConfig(top_k=1), 2000)) >= 1
    logits[END:] = -math.inf
    logits[5] = -1000
    for config in (SamplingConfig(top_k=3), SamplingConfig(top_p=0.01), SamplingConfig(top_p=0.99, temperature=9)):
        assert set(drawn(logits, config, 100)) == {5}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -0.1),
        ("temperature", math.inf),
        ("temperature", math.nan),
        ("top_k", -1),
        ("top_p", 0.0),
        ("top_p", 1.1),
        ("top_p", -1.0),
        ("top_p", math.nan),
    ],
)
def test_a_mistake_is_named_in_one_line(name, value):
    with pytest.raises(ValueError, match=rf"^{name} must be .*\Z") as raised:
        SamplingConfig(**{name: value})
    assert "\n" not in str(raised.value)
