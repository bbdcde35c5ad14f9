"""Bits: those of the product of all probabilities, however a text is cut or pairs are put into batches."""

import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from bytenet.data.encoding import EncodedPairs
from bytenet.evaluation.bits import Bits, pair_bits, sum_bits, text_bits
from bytenet.model import LanguageModel, Translator
from bytenet.vocabulary import BEGIN, END, PAD
from tests.data.strategies import encoded, token_pairs
from tests.model.strategies import language_models, random_tokens, translators

EXACT = {"rel": 1e-9, "abs": 1e-9}


@torch.no_grad()
def text_bits_at_once(model: LanguageModel, tokens: Tensor) -> float:
    """tokens (N,), all read in one call."""
    inputs = torch.cat([torch.tensor([BEGIN]), tokens[:-1]])
    logits, _ = model(inputs[None], model.start())
    chosen = logits[0].log_softmax(dim=-1)[torch.arange(len(tokens)), tokens]
    return -chosen.sum().item() / math.log(2)


@torch.no_grad()
def text_bits_by_hand(model: LanguageModel, tokens: list[int]) -> float:
    """-log2 of the product of the probabilities, each from the whole text before it, read anew."""
    product = 1.0
    for end in range(len(tokens)):
        logits, _ = model(torch.tensor([[BEGIN, *tokens[:end]]]), model.start())
        probabilities = [math.exp(logit) for logit in logits[0, -1].tolist()]
        product *= probabilities[tokens[end]] / sum(probabilities)
    return -math.log2(product)


@torch.no_grad()
def pair_bits_by_hand(model: Translator, pairs: list[tuple[list[int], list[int]]]) -> float:
    """Pair by pair, without any padding; END is a symbol of the target."""
    total = 0.0
    for source, target in pairs:
        state = model.start(torch.tensor([source], dtype=torch.long), [len(source)])
        logits, _ = model(torch.tensor([[BEGIN, *target]]), state)
        logs = logits[0].log_softmax(dim=-1)
        total -= sum(logs[i, token].item() for i, token in enumerate([*target, END]))
    return total / math.log(2)


@given(language_models(), st.integers(1, 60), st.data())
@settings(max_examples=10)
def test_any_cut_of_a_text_gives_the_same_bits(model, length, data):
    tokens = random_tokens(1, length)[0]
    expected = text_bits_at_once(model, tokens)
    cuts = sorted(data.draw(st.lists(st.integers(0, length), max_size=6)))
    by_chance = [tokens[begin:end] for begin, end in pairwise([0, *cuts, length])]  # some of them empty
    for parts in (tokens.split(1), tokens.split(7), [tokens], by_chance):
        bits = text_bits(model, iter(parts))
        assert bits.total == pytest.approx(expected, **EXACT)
        assert bits.symbols == length


@given(language_models(), st.integers(1, 8))
def test_bits_of_a_text_are_those_of_the_product_of_its_probabilities(model, length):
    tokens = random_tokens(1, length)[0]
    bits = text_bits(model, [tokens])
    assert bits.total == pytest.approx(text_bits_by_hand(model, tokens.tolist()), **EXACT)
    assert bits.per_symbol == pytest.approx(bits.total / length, **EXACT)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32, torch.int64])
@given(model=language_models())
@settings(max_examples=10)
def test_ids_of_every_width_have_the_same_bits(dtype, model):
    tokens = random_tokens(1, 20)[0]
    assert text_bits(model, [tokens.to(dtype)]) == text_bits(model, [tokens])


@given(translators(), token_pairs, st.integers(1, 400))
def test_bits_of_pairs_are_those_of_each_alone_whatever_the_batches(model, pairs, batch_positions):
    expected = pair_bits_by_hand(model, pairs)
    num_symbols = sum(len(target) + 1 for _, target in pairs)
    for positions in (1, batch_positions, 100_000):
        bits = pair_bits(model, encoded(pairs), batch_positions=positions)
        assert bits.total == pytest.approx(expected, **EXACT)
        assert bits.symbols == num_symbols


@given(translators(), token_pairs)
def test_the_order_of_pairs_does_not_matter(model, pairs):
    forwards, backwards = pair_bits(model, encoded(pairs)), pair_bits(model, encoded(pairs[::-1]))
    assert forwards.total == pytest.approx(backwards.total, **EXACT)
    assert forwards.symbols == backwards.symbols


@given(language_models(), translators())
@settings(max_examples=10)
def test_an_empty_text_and_no_pairs_have_no_bits(language_model, translator):
    nothing: EncodedPairs = encoded([])
    assert text_bits(language_model, []) == Bits(0.0, 0) == pair_bits(translator, nothing)
    assert text_bits(language_model, [torch.tensor([], dtype=torch.long)]) == Bits(0.0, 0)
    assert math.isnan(Bits(0.0, 0).per_symbol)


@given(language_models(), translators())
@settings(max_examples=10)
def test_scoring_keeps_no_gradients_and_leaves_the_model_as_it_was(language_model, translator):
    before = [{name: t.clone() for name, t in m.state_dict().items()} for m in (language_model, translator)]
    text_bits(language_model, [random_tokens(1, 9)[0]])
    pair_bits(translator, encoded([([4, 5], [6])]))
    for model, weights in zip((language_model, translator), before, strict=True):
        assert all(torch.equal(t, weights[name]) for name, t in model.state_dict().items())
        assert all(parameter.grad is None for parameter in model.parameters())


@given(st.integers(0, 20), st.sampled_from([torch.float64, torch.float32, torch.bfloat16]))
def test_bits_are_summed_in_float64_and_without_padding(length, dtype):
    torch.manual_seed(length)
    logits, tokens = torch.randn(length, 5, dtype=torch.float64).to(dtype), torch.randint(0, 5, (length,))
    exact = -logits.double().log_softmax(dim=-1)[torch.arange(length), tokens]
    expected = sum(value for value, token in zip(exact.tolist(), tokens.tolist(), strict=True) if token != PAD)
    tolerance = EXACT if dtype == torch.float64 else {"rel": 1e-5, "abs": 1e-5}
    assert sum_bits(logits, tokens) == pytest.approx(expected / math.log(2), **tolerance)


def test_many_terms_are_summed_without_loss():
    """Between a hundred thousand and a million, float32 knows nothing finer than a hundredth."""
    logits, token = torch.tensor([[0.3, 0.0, -0.7]]), torch.tensor([1])
    one = sum_bits(logits, token)
    assert sum_bits(logits.expand(300_001, 3), token.expand(300_001)) == pytest.approx(300_001 * one, rel=1e-12)


@given(language_models(), translators())
@settings(max_examples=10)
def test_the_precision_can_be_chosen(language_model, translator):
    tokens, pairs = random_tokens(1, 30)[0], encoded([([4, 5, 6], [7, 8]), ([9], [10, 11])])
    language_model, translator = language_model.float(), translator.float()
    for score in (
        lambda dtype: text_bits(language_model, [tokens], dtype=dtype).total,
        lambda dtype: pair_bits(translator, pairs, dtype=dtype).total,
    ):
        assert score(torch.float32) == score(None)
        assert score(torch.bfloat16) != score(None)
        assert score(torch.bfloat16) == pytest.approx(score(None), rel=0.1, abs=0.5)
