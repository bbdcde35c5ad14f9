"""Dynamic evaluation: what is learnt from is scored first. And bits from a limited context."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bytenet.evaluation.bits import text_bits
from bytenet.evaluation.context import context_bits
from bytenet.evaluation.dynamic import DynamicConfig, dynamic_bits, segments
from bytenet.vocabulary import BEGIN
from tests.model.strategies import language_models, random_tokens


@given(language_models(), st.integers(1, 40), st.integers(1, 12))
def test_who_learns_nothing_is_the_fixed_model(model, length, segment):
    text = random_tokens(1, length)[0]
    bits = dynamic_bits(model, [text], DynamicConfig(rate=0.0, segment=segment))
    assert bits.symbols == length
    assert bits.total == pytest.approx(text_bits(model, [text]).total, rel=1e-12)


@given(language_models(), st.integers(1, 3), st.integers(2, 6))
@settings(max_examples=15)
def test_a_symbol_is_scored_before_it_is_learnt_from(model, whole, segment):
    """What follows changes nothing of what went before, and the first segment is the fixed model's."""
    config = DynamicConfig(rate=1e-2, segment=segment)
    text = random_tokens(1, (whole + 2) * segment)[0]
    other = torch.cat([text[: whole * segment], random_tokens(1, 2 * segment)[0]])
    until = [dynamic_bits(model, [tokens[: whole * segment]], config).total for tokens in (text, other)]
    assert until[0] == until[1]
    first = dynamic_bits(model, [text[:segment]], config).total
    assert first == pytest.approx(text_bits(model, [text[:segment]]).total, rel=1e-12)
    # two segments: the second is scored by what one step on the first has made of the model
    assert dynamic_bits(model, [text[: 2 * segment]], config).total != pytest.approx(
        text_bits(model, [text[: 2 * segment]]).total, rel=1e-9
    )


@given(language_models(), st.lists(st.integers(0, 9), min_size=1, max_size=6), st.integers(1, 8))
@settings(max_examples=15)
def test_how_the_text_comes_does_not_matter(model, lengths, segment):
    text = random_tokens(1, sum(lengths) or 1)[0]
    parts = list(torch.split(text, lengths)) if sum(lengths) else [text]
    config = DynamicConfig(rate=1e-2, segment=segment)
    assert dynamic_bits(model, parts, config) == dynamic_bits(model, [text], config)
    cut = list(segments(parts, segment))
    assert torch.equal(torch.cat(cut), text)
    assert all(len(part) == segment for part in cut[:-1])
    assert 0 < len(cut[-1]) <= segment


@given(language_models())
@settings(max_examples=5)
def test_the_model_is_left_as_it_was(model):
    before = [parameter.clone() for parameter in model.parameters()]
    dynamic_bits(model, [random_tokens(1, 20)[0]], DynamicConfig(rate=0.1, segment=4))
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), before, strict=True))
    assert all(parameter.grad is None for parameter in model.parameters())


@given(language_models())
@settings(max_examples=5)
def test_a_text_that_repeats_itself_is_learnt(model):
    text = random_tokens(1, 5)[0].repeat(60)
    config = DynamicConfig(rate=1e-2, segment=10)
    assert dynamic_bits(model, [text], config).total < 0.8 * text_bits(model, [text]).total


@given(language_models())
@settings(max_examples=5)
def test_decay_leads_back_to_the_trained_weights(model):
    text = random_tokens(1, 60)[0]
    fixed = text_bits(model, [text]).total
    free, held = (dynamic_bits(model, [text], DynamicConfig(rate=1e-2, segment=6, decay=d)).total for d in (0.0, 0.999))
    assert abs(held - fixed) < 0.1 * abs(free - fixed)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"rate": -1.0}, "rate must"), ({"segment": 0}, "segment must"), ({"decay": 1.0}, "decay must")],
)
def test_a_mistake_begins_with_the_fields_name(options, message):
    with pytest.raises(ValueError, match=message):
        DynamicConfig(**options)


@given(language_models(), st.integers(0, 12))
@settings(max_examples=15)
def test_a_limited_context_is_reading_so_much_alone(model, context):
    text = random_tokens(1, 60)[0].cpu()
    bits = context_bits(model, text, context, positions=7, seed=3)
    first = max(context, model.config.receptive_field)
    generator = torch.Generator("cpu").manual_seed(3)
    places = torch.randint(min(59, first), 60, (7,), generator=generator, device="cpu").tolist()
    expected = 0.0
    for place in places:
        read = torch.tensor([[BEGIN, *text[place - context : place].tolist()]])
        with torch.no_grad():
            logits, _ = model(read, model.start())
        expected -= float(logits[0, -1].log_softmax(-1)[text[place]]) / math.log(2)
    assert bits.total == pytest.approx(expected, rel=1e-9)


@given(language_models())
@settings(max_examples=10)
def test_a_context_of_the_receptive_field_is_the_full_one(model):
    """BEGIN is then out of reach, as is all that came before."""
    field = model.config.receptive_field
    text = random_tokens(1, 2 * field + 5)[0].cpu()
    read = torch.cat([torch.tensor([BEGIN], device="cpu"), text[:-1]])[None].to(next(model.parameters()).device)
    with torch.no_grad():
        logits, _ = model(read, model.start())
    bits = -logits[0].log_softmax(-1).cpu()[torch.arange(len(text), device="cpu"), text] / math.log(2)
    generator = torch.Generator("cpu").manual_seed(0)
    places = torch.randint(field, len(text), (9,), generator=generator, device="cpu")
    assert context_bits(model, text, field, positions=9).total == pytest.approx(float(bits[places].sum()), rel=1e-9)


def test_a_context_longer_than_the_text_is_a_mistake():
    from bytenet import LanguageModel, LanguageModelConfig
    from bytenet.model.blocks import StackConfig

    model = LanguageModel(LanguageModelConfig(inner_channels=8, decoder=StackConfig(num_blocks=1)))
    with pytest.raises(ValueError, match="longer text"):
        context_bits(model, torch.tensor([5, 6, 7]), 3)
