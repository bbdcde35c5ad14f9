"""Recurrent ByteNets: they unfold as a ByteNet does, and the RNN Enc-Dec is one of them with connections severed."""

from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from bytenet.model import RecurrentTranslator, RecurrentTranslatorConfig
from bytenet.model.blocks import StackConfig
from bytenet.model.recurrent import RecurrentState, reversed_rows
from bytenet.model.translator import UnfoldingConfig, inside
from bytenet.vocabulary import BEGIN
from tests.model.strategies import VOCABULARY, in_double, random_sources, random_tokens

LENGTHS = [7, 4]


def recurrent(**keys: object) -> RecurrentTranslator:
    config = RecurrentTranslatorConfig(
        source_vocabulary=VOCABULARY,
        target_vocabulary=VOCABULARY,
        inner_channels=6,
        encoder=StackConfig(num_blocks=2),
        unfolding=UnfoldingConfig(a=1.2, b=1.0, multiple=3),
        **keys,
    )
    return in_double(config)


encoders = pytest.mark.parametrize("encoder", ["convolutional", "recurrent"])


@encoders
def test_a_source_is_unfolded_as_a_bytenets(encoder):
    model = recurrent(encoder_kind=encoder)
    ahead = model.start(random_sources(LENGTHS)).ahead
    unfolded = [model.config.unfolding.unfolded_length(length) for length in LENGTHS]
    assert ahead.shape == (2, max(unfolded), 12)
    for columns, length in zip(ahead, unfolded, strict=True):
        assert columns[:length].any(dim=1).all()
        assert not columns[length:].any()


@encoders
def test_past_the_end_it_is_conditioned_on_nothing(encoder):
    model = recurrent(encoder_kind=encoder)
    state, tokens = model.start(random_sources(LENGTHS)), random_tokens(2, 30)
    zeros = F.pad(state.ahead, (0, 0, 0, 30))
    assert torch.equal(model(tokens, state)[0], model(tokens, RecurrentState(state.hidden, zeros))[0])


def test_every_column_of_a_bidirectional_encoder_has_read_the_whole_source():
    model = recurrent(encoder_kind="recurrent")
    embedded = torch.randn(1, 9, 12, dtype=torch.float64, requires_grad=True)
    columns = model.encoder.blocks(embedded, None)
    for column in columns[0]:
        (gradient,) = torch.autograd.grad(column.sum(), embedded, retain_graph=True)
        assert gradient.any(dim=2).sum() in range(1, 10)
    (first,) = torch.autograd.grad(columns[0, 0].sum(), embedded, retain_graph=True)
    assert first.any(dim=2).all()


def test_rows_are_reversed_each_within_its_own_length():
    x = torch.arange(10).view(2, 5, 1)
    mask = inside([3, 5], 5, x.device)
    assert reversed_rows(x, mask)[..., 0].tolist() == [[2, 1, 0, 3, 4], [9, 8, 7, 6, 5]]
    assert torch.equal(reversed_rows(x, None), x.flip(1))


@encoders
def test_severed_it_is_the_same_network_without_all_columns_but_the_first(encoder):
    """The same weights give the same logits, if the others are taken away by hand; and they would have mattered."""
    whole, severed = recurrent(encoder_kind=encoder), recurrent(encoder_kind=encoder, severed=True)
    severed.load_state_dict(whole.state_dict())
    source, tokens = random_sources(LENGTHS), random_tokens(2, 12)
    state = whole.start(source)
    first_alone = state.ahead.clone()
    first_alone[:, 1:] = 0
    by_hand, _ = whole(tokens, RecurrentState(state.hidden, first_alone))
    logits, _ = severed(tokens, severed.start(source))
    torch.testing.assert_close(logits, by_hand)
    unsevered, _ = whole(tokens, state)
    torch.testing.assert_close(logits[:, 0], unsevered[:, 0])
    assert (logits - unsevered).abs().amax(dim=2)[:, 1:].min() > 1e-9


def test_the_rnn_enc_dec_knows_the_source_by_one_column_alone():
    model = recurrent(encoder_kind="recurrent", severed=True)
    sources = random_sources([9, 3, 5])
    states = [model.start(sources[row : row + 1]) for row in range(3)]
    assert {state.ahead.shape for state in states} == {(1, 1, 12)}
    tokens = random_tokens(1, 8)
    (one, _), (other, _) = (model(tokens, state) for state in states[:2])
    assert not torch.allclose(one, other)
    exchanged = replace(states[0], ahead=states[1].ahead)
    assert torch.equal(model(tokens, exchanged)[0], other)
    every_token = sources[:1].repeat(9, 1)
    every_token[range(9), range(9)] = BEGIN
    columns = model.start(every_token).ahead - states[0].ahead
    assert columns.any(dim=2).all()
