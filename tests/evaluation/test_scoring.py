"""Bits of each text by itself: what the model says when it reads nothing else."""

import math

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from bytenet.evaluation import scoring
from bytenet.evaluation.bits import text_bits
from bytenet.evaluation.scoring import Score, score_pairs, score_texts
from bytenet.model import LanguageModel, LanguageModelConfig, Translator, TranslatorConfig
from bytenet.model.blocks import StackConfig
from bytenet.model.translator import UnfoldingConfig
from bytenet.vocabulary import BEGIN, END, Bytes, Characters, VocabularyConfig
from tests.model.strategies import in_double

STACK = StackConfig(num_blocks=2, dilations=(1, 2))
EXACT = {"rel": 1e-9, "abs": 1e-9}
SOURCE, TARGET = Characters("abc ä"), Bytes()

sentences = st.text(st.sampled_from("abcäx😀 \ud800"), max_size=8)
sizes = st.tuples(st.integers(1, 30), st.integers(1, 5), st.integers(1, 4))  # of a batch, in positions and rows; a part
ALL_AT_ONCE = (1000, 100, 1000)


def with_sizes(sizes: tuple[int, int, int], call, *arguments):
    with pytest.MonkeyPatch.context() as monkeypatch:
        positions, rows, part = sizes
        monkeypatch.setattr(scoring, "BATCH_POSITIONS", positions)
        monkeypatch.setattr(scoring, "MOST_ROWS", rows)
        monkeypatch.setattr(scoring, "best_chunk", lambda model: part)
        return call(*arguments)


@pytest.fixture(scope="module")
def language_model() -> LanguageModel:
    return in_double(LanguageModelConfig(inner_channels=6, decoder=STACK))


@pytest.fixture(scope="module")
def translator() -> Translator:
    return in_double(
        TranslatorConfig(
            source_vocabulary=VocabularyConfig(kind="characters", symbols=len(SOURCE.symbols)),
            inner_channels=6,
            encoder=STACK,
            decoder=STACK,
            unfolding=UnfoldingConfig(multiple=4),
        )
    )


@torch.no_grad()
def text_bits_by_hand(model: LanguageModel, ids: list[int]) -> float:
    """Each symbol by reading all before it again."""
    total = 0.0
    for place, token in enumerate(ids):
        logits, _ = model(torch.tensor([[BEGIN, *ids[:place]]]), model.start())
        total -= logits[0, -1].log_softmax(dim=-1)[token].item()
    return total / math.log(2)


@torch.no_grad()
def pair_bits_by_hand(model: Translator, source: list[int], target: list[int]) -> float:
    start = model.start(torch.tensor([source], dtype=torch.long), [len(source)])
    logs = model(torch.tensor([[BEGIN, *target]]), start)[0][0].log_softmax(dim=-1)
    return -sum(logs[place, token].item() for place, token in enumerate([*target, END])) / math.log(2)


@given(st.lists(sentences, max_size=7), sizes)
@example(["", ""], ALL_AT_ONCE)
@example(["abcäx😀", "", "a"], ALL_AT_ONCE)
@example(["abcäx😀", "", "a"], (30, 5, 1))
def test_each_text_has_the_bits_of_its_own_reading(language_model, texts, sizes):
    """Whatever is read beside it, and however it is cut into parts."""
    scores = with_sizes(sizes, score_texts, language_model, [TARGET], texts)
    assert len(scores) == len(texts)
    for text, score in zip(texts, scores, strict=True):
        assert score.bits == pytest.approx(text_bits_by_hand(language_model, TARGET.encode(text)), **EXACT)
        assert score.characters == len(text)
        assert score.bytes == len(text.encode("utf-8", "surrogatepass"))
        assert score.unknown == 0


@given(st.lists(st.tuples(sentences, sentences), max_size=7), sizes)
@example([("", "")], ALL_AT_ONCE)
@example([("abc ä abc", ""), ("", "abc"), ("a", "ä")], ALL_AT_ONCE)
@example([("abc ä abc", ""), ("", "abc"), ("a", "ä")], (30, 5, 1))
def test_each_target_has_bits_given_its_own_source_and_its_end(translator, pairs, sizes):
    scores = with_sizes(sizes, score_pairs, translator, [SOURCE, TARGET], pairs)
    assert len(scores) == len(pairs)
    for (source, target), score in zip(pairs, scores, strict=True):
        expected = pair_bits_by_hand(translator, SOURCE.encode(source), TARGET.encode(target))
        assert score.bits == pytest.approx(expected, **EXACT)
        assert score.characters == len(target) + 1
        assert score.bytes == len(target.encode("utf-8", "surrogatepass")) + 1


def test_unknown_symbols_of_texts_and_targets_are_counted():
    vocabulary = Characters("ab")
    config = VocabularyConfig(kind="characters", symbols=2)
    reader = in_double(LanguageModelConfig(vocabulary=config, inner_channels=6, decoder=STACK))
    assert [score.unknown for score in score_texts(reader, [vocabulary], ["axy", "", "ab"])] == [2, 0, 0]
    model = in_double(
        TranslatorConfig(
            source_vocabulary=config, target_vocabulary=config, inner_channels=6, encoder=STACK, decoder=STACK
        )
    )
    pairs = [("xyz", "ab"), ("a", "xyb")]  # those of sources have no bits
    assert [score.unknown for score in score_pairs(model, [vocabulary] * 2, pairs)] == [0, 2]


def test_a_long_text_is_read_in_parts_and_agrees_with_its_file(language_model):
    """The bits of a text do not depend on how many symbols a model sees at once."""
    text = "abcäx😀 " * 40
    seen: list[int] = []
    hook = language_model.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].shape[1]))
    (score,) = with_sizes((100, 5, 64), score_texts, language_model, [TARGET], [text])
    hook.remove()
    assert max(seen) == 64
    assert sum(seen) == score.bytes
    assert score.bits == pytest.approx(
        text_bits(language_model, [torch.from_numpy(TARGET.encode_array(text))]).total, **EXACT
    )


def test_texts_are_read_together_within_the_budget(language_model):
    seen: list[tuple[int, ...]] = []
    hook = language_model.register_forward_pre_hook(lambda _, inputs: seen.append(tuple(inputs[0].shape)))
    with_sizes((40, 6, 1000), score_texts, language_model, [TARGET], ["abcd"] * 20 + ["a" * 100])
    hook.remove()
    assert sorted(seen) == [(1, 100), (2, 4), (6, 4), (6, 4), (6, 4)]


def test_bits_per_character_need_a_character():
    assert Score(bits=6.0, characters=3, bytes=4, unknown=0).bits_per_character == 2
    assert math.isnan(Score(bits=0.0, characters=0, bytes=0, unknown=0).bits_per_character)


def test_a_lower_precision_is_a_bit_less_exact(language_model):
    texts = ["abcabc", "a"]
    (exact, _), (rough, _) = (
        score_texts(language_model, [TARGET], texts, dtype=dtype) for dtype in (None, torch.bfloat16)
    )
    assert rough.bits != exact.bits
    assert rough.bits == pytest.approx(exact.bits, rel=0.05)
