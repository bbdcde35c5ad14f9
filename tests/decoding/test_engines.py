"""Engines: one token a row at a time, with rows that come, go and change places, is reading each row's text anew."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from bytenet.decoding import graph_engine
from bytenet.decoding.engine import Engine, PlainEngine, choose_engine
from bytenet.decoding.graph_engine import GraphEngine
from bytenet.decoding.ring_engine import RingEngine
from bytenet.model import LanguageModel, LanguageModelConfig, Model, State, Translator, TranslatorConfig
from bytenet.model.blocks import StackConfig
from bytenet.model.state import tensors_of
from bytenet.model.translator import UnfoldingConfig
from tests.model.strategies import VOCABULARY, in_double, language_models, random_sources, random_tokens, translators

# the interpreter of Triton 3.6
pytestmark = pytest.mark.filterwarnings("ignore:Conversion of an array:DeprecationWarning")

INTERPRETED = not torch.cuda.is_available()  # then a step of the GPU's engine takes a second
FEW = 3 if INTERPRETED else 20

source_lengths = st.lists(st.integers(0, 9), min_size=1, max_size=4)


@dataclass(frozen=True)
class Kind:
    """An engine, and how exact it is."""

    name: str
    make: Callable[[Model, torch.dtype], Engine]
    parameters: torch.dtype
    dtype: torch.dtype
    tolerance: float
    """Of logits that are about 1."""

    def __str__(self) -> str:
        return self.name


def plain(model: Model, dtype: torch.dtype) -> Engine:
    return PlainEngine(model)


def ring(model: Model, dtype: torch.dtype) -> Engine:
    if torch.get_default_device().type != "cpu":
        pytest.skip("for CPUs alone")
    return RingEngine(model, dtype)


def graph(model: Model, dtype: torch.dtype) -> Engine:
    if not graph_engine.available(model, dtype):
        pytest.skip("needs Triton, and a GPU or TRITON_INTERPRET=1")
    return GraphEngine(model, dtype)


PLAIN = Kind("plain", plain, torch.float64, torch.float64, 1e-9)
RING = Kind("ring", ring, torch.float64, torch.float64, 1e-9)
RING_FLOAT = Kind("ring in float32", ring, torch.float32, torch.float32, 1e-4)
GRAPH = Kind("graph", graph, torch.float32, torch.float32, 1e-4)
EXACT = [PLAIN, RING, RING_FLOAT]
KINDS = [*EXACT, GRAPH]


class Walk:
    """Rows that an engine writes, with all that is needed to read each of them again."""

    def __init__(self, kind: Kind, model: Model, source: Tensor | None, prompt: Tensor) -> None:
        """source (B, S) of a translator; prompt (B, T), which the model itself reads first"""
        narrow = copy.deepcopy(model).to(kind.parameters)
        self.model = copy.deepcopy(narrow).double()  # the same numbers, read exactly
        self.engine, self.kind = kind.make(narrow, kind.dtype), kind
        self.source, self.text = source, prompt
        with torch.no_grad():
            logits, state = narrow(prompt, started(narrow, source, len(prompt), kind.dtype))
        self.logits = logits.double()
        """(B, T, V): what each row and its ancestors were given."""
        self.state: Any = self.engine.take(state)

    @property
    def rows(self) -> int:
        return len(self.text)

    @torch.no_grad()
    def step(self, count: int) -> None:
        for _ in range(count):
            tokens = random_tokens(self.rows, 1)
            logits, self.state = self.engine(tokens, self.state)
            assert logits.shape == (self.rows, 1, VOCABULARY.size)
            self.note(tokens, logits)

    def select(self, rows: list[int]) -> None:
        self.state = self.state.select(torch.tensor(rows))
        self.follow(rows)

    def note(self, tokens: Tensor, logits: Tensor) -> None:
        """What was written, and given for it."""
        self.text = torch.cat([self.text, tokens], dim=1)
        self.logits = torch.cat([self.logits, logits.double()], dim=1)

    def follow(self, rows: list[int]) -> None:
        """Go on with the texts of these rows."""
        chosen = torch.tensor(rows)
        self.text, self.logits = self.text[chosen], self.logits[chosen]
        self.source = None if self.source is None else self.source[chosen]

    def compact(self) -> None:
        self.state = self.state.compact()

    @torch.no_grad()
    def read_again(self) -> Tensor:
        """(B, T, V): each row's whole text from the start, at once"""
        logits, _ = self.model(self.text, started(self.model, self.source, self.rows))
        return logits

    def check(self) -> None:
        tolerance = self.kind.tolerance
        torch.testing.assert_close(self.logits, self.read_again(), atol=tolerance, rtol=tolerance)


def started(model: Model, source: Tensor | None, rows: int, dtype: torch.dtype | None = None) -> State:
    return model.start(rows, dtype=dtype) if source is None else model.start(source, dtype=dtype)


def random_walk(walk: Walk, data: st.DataObject) -> None:
    """Steps, and between them rows in another order, several times, some left out, more or fewer than before."""
    for _ in range(data.draw(st.integers(1, 4))):
        walk.step(data.draw(st.integers(0, 9)))
        walk.check()
        anything = st.lists(st.integers(0, walk.rows - 1), min_size=1, max_size=7)
        walk.select(list(data.draw(st.permutations(range(walk.rows)) | anything)))
        if data.draw(st.booleans()):
            walk.compact()
    walk.step(data.draw(st.integers(1, 9)))
    walk.check()


def walk_of_a_language_model(kind: Kind, model: LanguageModel, data: st.DataObject) -> None:
    prompt = random_tokens(data.draw(st.integers(1, 4)), data.draw(st.integers(0, 25)))
    random_walk(Walk(kind, model, None, prompt), data)


def walk_of_a_translator(kind: Kind, model: Translator, lengths: list[int], data: st.DataObject) -> None:
    prefix = random_tokens(len(lengths), data.draw(st.integers(0, 12)))
    random_walk(Walk(kind, model, random_sources(lengths), prefix), data)


def meeting(first: Walk, second: Walk, data: st.DataObject) -> None:
    """Each goes its own way for a while, then they go on together: as if alone."""
    for walk in (first, second):
        walk.step(data.draw(st.integers(0, 9)))
        walk.select(data.draw(st.lists(st.integers(0, walk.rows - 1), min_size=1, max_size=4)))
        walk.step(data.draw(st.integers(0, 9)))
    state = first.state.join(second.state)
    for _ in range(data.draw(st.integers(1, 3))):
        for _ in range(data.draw(st.integers(0, 9))):
            tokens = random_tokens(first.rows + second.rows, 1)
            logits, state = first.engine(tokens, state)
            first.note(tokens[: first.rows], logits[: first.rows])
            second.note(tokens[first.rows :], logits[first.rows :])
        chosen = [
            data.draw(st.lists(st.integers(0, walk.rows - 1), min_size=1, max_size=4)) for walk in (first, second)
        ]
        state = state.select(torch.tensor([*chosen[0], *(first.rows + row for row in chosen[1])]))
        for walk, rows in zip((first, second), chosen, strict=True):
            walk.follow(rows)
    for walk in (first, second):
        walk.check()


@pytest.mark.parametrize("kind", EXACT, ids=str)
@given(model=language_models(), data=st.data())
@settings(max_examples=12)
def test_rows_of_a_language_model_that_join_others_go_on_as_if_alone(kind, model, data):
    meet_with_prompts(kind, model, data)


@pytest.mark.parametrize("kind", EXACT, ids=str)
@given(model=translators(), lengths=st.tuples(source_lengths, source_lengths), data=st.data())
@settings(max_examples=12)
def test_rows_of_a_translator_that_join_others_go_on_as_if_alone(kind, model, lengths, data):
    meet_with_sources(kind, model, lengths, data)


@given(
    model=language_models(), translator=translators(), lengths=st.tuples(source_lengths, source_lengths), data=st.data()
)
@settings(max_examples=FEW)
def test_rows_that_join_others_on_a_gpu_go_on_as_if_alone(model, translator, lengths, data):
    meet_with_prompts(GRAPH, model, data)
    meet_with_sources(GRAPH, translator, lengths, data)


def meet_with_prompts(kind: Kind, model: LanguageModel, data: st.DataObject) -> None:
    prompts = [random_tokens(data.draw(st.integers(1, 3)), data.draw(st.integers(0, 25))) for _ in range(2)]
    meeting(*(Walk(kind, model, None, prompt) for prompt in prompts), data)


def meet_with_sources(kind: Kind, model: Translator, lengths: tuple[list[int], list[int]], data: st.DataObject) -> None:
    prefixes = [random_tokens(len(some), data.draw(st.integers(0, 12))) for some in lengths]
    sources = [random_sources(some) for some in lengths]
    meeting(*(Walk(kind, model, source, prefix) for source, prefix in zip(sources, prefixes, strict=True)), data)


@pytest.mark.parametrize("kind", EXACT, ids=str)
@given(model=language_models(), data=st.data())
def test_steps_of_a_language_model_are_reading_again(kind, model, data):
    walk_of_a_language_model(kind, model, data)


@pytest.mark.parametrize("kind", EXACT, ids=str)
@given(model=translators(), lengths=source_lengths, data=st.data())
def test_steps_of_a_translator_are_reading_again(kind, model, lengths, data):
    walk_of_a_translator(kind, model, lengths, data)


@given(model=language_models(), data=st.data())
@settings(max_examples=FEW)
def test_steps_of_a_language_model_on_a_gpu_are_reading_again(model, data):
    walk_of_a_language_model(GRAPH, model, data)


@given(model=translators(), lengths=source_lengths, data=st.data())
@settings(max_examples=FEW)
def test_steps_of_a_translator_on_a_gpu_are_reading_again(model, lengths, data):
    walk_of_a_translator(GRAPH, model, lengths, data)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("conditioning", ["add", "concatenate"])
@pytest.mark.parametrize("block", ["relu", "multiplicative"])
def test_far_past_the_representations_end_steps_are_reading_again(kind, block, conditioning):
    stack = StackConfig(num_blocks=2, block=block, dilations=(1, 4))
    model = in_double(
        TranslatorConfig(
            source_vocabulary=VOCABULARY,
            target_vocabulary=VOCABULARY,
            inner_channels=8,
            encoder=stack,
            decoder=stack,
            unfolding=UnfoldingConfig(multiple=3),
            conditioning=conditioning,
        )
    )
    walk = Walk(kind, model, random_sources([7, 2, 5]), random_tokens(3, 2))
    length = model.unfolding.unfolded_length(7)
    for rows in ([1, 0, 0, 2], [3, 2, 1], [2, 0, 1]):
        walk.step(length)
        walk.select(rows)
    walk.step(20)
    walk.check()


@pytest.mark.parametrize("kind", KINDS, ids=str)
@given(model=language_models())
@settings(max_examples=3)
def test_rows_may_become_many_more_than_at_first(kind, model):
    walk = Walk(kind, model, None, random_tokens(1, 5))
    for rows in (1, 3, 20):
        walk.select([row % walk.rows for row in range(rows)])
        walk.step(3)
    walk.select(list(range(0, 20, 3)))
    walk.step(6)
    walk.check()


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("block", ["relu", "multiplicative"])
def test_what_an_engine_remembers_has_constant_size(kind, block):
    """Also where rows change places at every step, as those of a beam do; and it is still right in the end."""
    stack = StackConfig(num_blocks=2, block=block, kernel_width=2, dilations=(1, 3))
    walk = Walk(kind, in_double(small(stack)), None, random_tokens(3, 0))
    walk.select([0, 0, 1, 1, 2, 2])
    shapes = [tensor.shape for tensor in tensors_of(walk.state)]
    for turn in range(12 if kind is GRAPH and INTERPRETED else 200):
        walk.step(1)
        walk.select([(turn + 5 * row) % 6 for row in range(6)] if turn % 3 else [1, 0, 0, 5, 4, 2])
        assert [tensor.shape for tensor in tensors_of(walk.state)] == shapes
    walk.check()


@pytest.mark.parametrize("kind", KINDS, ids=str)
@given(model=translators(), lengths=source_lengths)
@settings(max_examples=3)
def test_one_prompt_serves_many_continuations(kind, model, lengths):
    """Taking over a state leaves it as it was."""
    source, rows = random_sources(lengths), len(lengths)
    model = model.to(kind.parameters)
    engine = kind.make(model, kind.dtype)
    with torch.no_grad():
        _, prompt = model(random_tokens(rows, 5), model.start(source, dtype=kind.dtype))
        before = [tensor.clone() for tensor in tensors_of(prompt)]
        tokens, strangers = random_tokens(rows, 4), random_tokens(rows, 4)
        once, _, twice = (written(engine, prompt, text) for text in (tokens, strangers, tokens))
    assert torch.equal(once, twice)
    assert all(torch.equal(a, b) for a, b in zip(tensors_of(prompt), before, strict=True))


def written(engine: Engine, state: State, tokens: Tensor) -> Tensor:
    taken, logits = engine.take(state), []
    for position in range(tokens.shape[1]):
        after, taken = engine(tokens[:, position : position + 1], taken)
        logits.append(after)
    return torch.cat(logits, dim=1)


@pytest.mark.parametrize("make", [ring, graph], ids=["ring", "graph"])
@pytest.mark.parametrize("conditioning", [None, "add", "concatenate"])
@pytest.mark.parametrize("block", ["relu", "multiplicative"])
def test_in_bfloat16_an_engine_is_as_exact_as_bfloat16(make, block, conditioning):
    """Its log-probabilities are as far from the exact ones as those of the model itself in bfloat16."""
    stack = StackConfig(num_blocks=3, block=block, dilations=(1, 2, 4))
    config = small(stack, inner_channels=32, conditioning=conditioning)
    source = None if conditioning is None else random_sources([9, 4, 6])
    walks = [
        Walk(Kind("", kind, torch.float32, torch.bfloat16, 0), in_double(config), source, random_tokens(3, 4))
        for kind in (make, plain)
    ]
    errors = []
    for walk in walks:
        torch.manual_seed(1)
        walk.step(4)
        walk.select([2, 0, 0, 1])
        walk.step(5)
        exact, logits = (value.log_softmax(-1)[:, 4:] for value in (walk.read_again(), walk.logits))
        errors.append(float((logits - exact).norm() / (exact - exact.mean(-1, keepdim=True)).norm()))
    assert 0 < errors[0] < 0.03
    assert errors[0] < 2 * errors[1]


def small(
    stack: StackConfig, inner_channels: int = 8, conditioning: str | None = None
) -> LanguageModelConfig | TranslatorConfig:
    if conditioning is None:
        return LanguageModelConfig(vocabulary=VOCABULARY, inner_channels=inner_channels, decoder=stack)
    return TranslatorConfig(
        source_vocabulary=VOCABULARY,
        target_vocabulary=VOCABULARY,
        inner_channels=inner_channels,
        encoder=stack,
        decoder=stack,
        unfolding=UnfoldingConfig(multiple=5),
        conditioning=conditioning,
    )


def test_the_fastest_engine_is_chosen():
    model = in_double(small(StackConfig(num_blocks=1))).float()
    on_cpu = torch.get_default_device().type == "cpu"
    available = graph_engine.available(model)
    expected = RingEngine if on_cpu else GraphEngine if available else PlainEngine
    assert type(choose_engine(model)) is expected
    assert type(choose_engine(model.double())) is (RingEngine if on_cpu else PlainEngine)


@pytest.mark.skipif("torch.get_default_device().type != 'cpu'", reason="for CPUs alone")
def test_rows_that_come_and_go_take_the_places_of_those_that_left():
    """However long it goes on: memory, and the time to copy it, is for the rows there are."""
    model = in_double(LanguageModelConfig(vocabulary=VOCABULARY, inner_channels=6, decoder=StackConfig(num_blocks=3)))
    engine = RingEngine(model)
    state = engine.take(model.start(4))
    most = 0
    with torch.no_grad():
        for turn in range(60):
            _, state = engine(random_tokens(state.table.shape[1], 1), state)
            if turn % 3 == 0:
                state = state.join(engine.take(model.start(4)))
            else:
                rows = torch.arange(state.table.shape[1])
                state = state.select(rows[rows % 4 != turn % 4][:12])
            most = max(most, state.table.shape[1])
    assert max(ring.shape[1] for ring in state.rings) <= 2 * most
