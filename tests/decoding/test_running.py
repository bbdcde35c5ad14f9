"""Sentences that come and go while others are written: each comes out as if it had been alone."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bytenet.decoding.beam_search import BeamConfig, beam_search
from bytenet.decoding.engine import PlainEngine, choose_engine
from bytenet.decoding.running import RunningSample, RunningSearch, Writing
from bytenet.decoding.sampling import SamplingConfig, sample
from tests.model.strategies import language_models, random_sources, random_tokens, translators

ENGINES = [PlainEngine, choose_engine]


@pytest.mark.parametrize("engine_of", ENGINES)
@given(
    model=translators(),
    arrivals=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 9), st.integers(0, 14)), min_size=1, max_size=6),
    config=st.builds(
        BeamConfig, beam=st.integers(2, 4), n_best=st.integers(1, 2), length_penalty=st.sampled_from([0.0, 1.0])
    ),
    dropped=st.integers(0, 8),
)
@settings(max_examples=12)
def test_a_sentence_that_joins_a_search_is_found_as_if_alone(engine_of, model, arrivals, config, dropped):
    """Each arrival is: steps to wait, length of the source, limit. One of them leaves before its end."""
    engine = engine_of(model)
    search: RunningSearch[int] = RunningSearch(engine, config)
    found: dict[int, list] = {}
    sources = []
    for number, (wait, length, limit) in enumerate(arrivals):
        for _ in range(wait):
            found |= dict(search.step())
        source = random_sources([max(1, length)])
        sources.append((source, limit))
        if limit:
            search.add([number], model.start(source), [limit])
        if number == dropped and number not in found:
            search.drop([number])
    while search.rows:
        found |= dict(search.step())
    for number, (source, limit) in enumerate(sources):
        ((_, alone),) = beam_search(engine, model.start(source), [limit], config)
        if limit and number != dropped:
            assert [(h.tokens, h.ended) for h in found[number]] == [(h.tokens, h.ended) for h in alone]
            for one, other in zip(found[number], alone, strict=True):
                assert one.log_likelihood == pytest.approx(other.log_likelihood, abs=1e-9)
    assert dropped not in found


@pytest.mark.parametrize("engine_of", ENGINES)
@given(
    model=language_models(),
    arrivals=st.lists(
        st.tuples(st.integers(0, 4), st.integers(0, 12), st.sampled_from([0.0, 0.7, 1.3]), st.integers(1, 9)),
        min_size=1,
        max_size=5,
    ),
)
@settings(max_examples=8)
def test_a_text_that_joins_others_is_written_as_if_alone(engine_of, model, arrivals):
    """Each arrival is: steps to wait, length of the prompt, temperature, and how many tokens it wants."""
    engine = engine_of(model)
    running: RunningSample[int] = RunningSample(engine)
    written: dict[int, list[int]] = {}
    prompts = []

    def step() -> None:
        for number, token, logits in running.step():
            assert logits.shape == (model.config.vocabulary.size,)
            written[number].append(token)
        running.drop([number for number, tokens in written.items() if len(tokens) == arrivals[number][3]])

    for number, (wait, length, temperature, _) in enumerate(arrivals):
        for _ in range(wait):
            step()
        prompt = random_tokens(1, length + 1)
        prompts.append(prompt)
        with torch.no_grad():
            _, state = model(prompt[:, :-1], model.start(1))
        written[number] = []
        generator = torch.Generator(prompt.device).manual_seed(number)
        running.add(Writing(number, SamplingConfig(temperature=temperature), generator), state, prompt[:, -1])
    while running.rows:
        step()
    for number, (_, _, temperature, wanted) in enumerate(arrivals):
        with torch.no_grad():
            _, state = model(prompts[number][:, :-1], model.start(1))
        alone = sample(engine, state, prompts[number][:, -1], SamplingConfig(temperature=temperature), seed=number)
        assert written[number] == [next(alone)[0] for _ in range(wanted)]
