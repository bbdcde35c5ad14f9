"""That the networks learn: a batch by heart, a periodic text, and to copy digits never seen."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bytenet.model import LanguageModel, LanguageModelConfig, Translator, TranslatorConfig
from bytenet.model.blocks import StackConfig
from bytenet.model.translator import UnfoldingConfig
from bytenet.vocabulary import BEGIN, END, Bytes, VocabularyConfig
from tests.model.strategies import VOCABULARY, random_sources, random_tokens


def learn(model: nn.Module, loss: Callable[[], Tensor], steps: int, *, rate: float = 3e-3) -> float:
    """The loss after so many steps of Adam."""
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    for _ in range(steps):
        value = loss()
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
    return value.item()


def next_token_loss(logits: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


@pytest.mark.parametrize("block", [pytest.param("relu", marks=pytest.mark.slow), "multiplicative"])
def test_a_language_model_learns_a_batch_by_heart(block):
    torch.manual_seed(0)
    stack = StackConfig(num_blocks=5, block=block)
    model = LanguageModel(LanguageModelConfig(vocabulary=VOCABULARY, inner_channels=32, decoder=stack))
    tokens = random_tokens(4, 33)

    def loss() -> Tensor:
        logits, _ = model(tokens[:, :-1], model.start(4))
        return next_token_loss(logits[:, 8:], tokens[:, 9:])

    assert loss().item() > 2
    assert learn(model, loss, 200) < 0.01


@pytest.mark.parametrize("conditioning", ["add", pytest.param("concatenate", marks=pytest.mark.slow)])
def test_a_translator_learns_a_batch_by_heart(conditioning):
    torch.manual_seed(0)
    config = TranslatorConfig(
        source_vocabulary=VOCABULARY,
        target_vocabulary=VOCABULARY,
        inner_channels=32,
        encoder=StackConfig(num_blocks=5),
        decoder=StackConfig(num_blocks=5),
        unfolding=UnfoldingConfig(multiple=10),
        conditioning=conditioning,
    )
    model = Translator(config)
    source, target = random_sources([20, 13, 7]), random_tokens(3, 25)
    begun = F.pad(target[:, :-1], (1, 0), value=BEGIN)

    def loss() -> Tensor:
        logits, _ = model(begun, model.start(source))
        return next_token_loss(logits, target)

    assert loss().item() > 2
    assert learn(model, loss, 200) < 0.01


def test_a_language_model_learns_a_periodic_text_and_goes_on_with_it():
    torch.manual_seed(0)
    vocabulary = Bytes()
    stack = StackConfig(num_blocks=4, block="multiplicative", dilations=(1, 2, 4, 8))
    model = LanguageModel(LanguageModelConfig(inner_channels=24, decoder=stack))
    period = "abcabdabe; "  # the next character often depends on the one three or six before
    text = torch.tensor([vocabulary.encode(period * 12)])

    def loss() -> Tensor:
        logits, _ = model(text[:, :-1], model.start(1))
        return next_token_loss(logits[:, 20:], text[:, 21:])

    assert learn(model, loss, 60, rate=1e-2) < 0.01
    logits, state = model(text[:, :33], model.start(1))
    written = []
    for _ in range(44):
        token = logits[:, -1:].argmax(dim=-1)
        written.append(token.item())
        logits, state = model(token, state)
    assert vocabulary.decode(written) == period * 4


def test_a_translator_learns_to_copy_digits():
    torch.manual_seed(0)
    vocabulary = VocabularyConfig(kind="characters", symbols=10)
    config = TranslatorConfig(
        source_vocabulary=vocabulary,
        target_vocabulary=vocabulary,
        inner_channels=32,
        encoder=StackConfig(num_blocks=3, dilations=(1, 2, 4)),
        decoder=StackConfig(num_blocks=3, dilations=(1, 2, 4)),
        unfolding=UnfoldingConfig(multiple=12),
    )
    model = Translator(config)

    def draw(rows: int) -> tuple[Tensor, Tensor]:
        source = torch.randint(4, 14, (rows, 12))
        return source, F.pad(source, (0, 1), value=END)

    def loss() -> Tensor:
        source, target = draw(32)
        logits, _ = model(F.pad(source, (1, 0), value=BEGIN), model.start(source))
        return next_token_loss(logits, target)

    assert learn(model, loss, 250) < 0.05
    source, target = draw(200)
    token, state, written = torch.full((200, 1), BEGIN), model.start(source), []
    for _ in range(13):
        logits, state = model(token, state)
        token = logits.argmax(dim=-1)
        written.append(token)
    exact = (torch.cat(written, dim=1) == target).all(dim=1)
    assert exact.double().mean() > 0.95
