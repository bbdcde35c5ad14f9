"""What is timed: a network behind `step(token) -> next token`, and ByteNet as such.

Shapes: T positions, V ids.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bytenet.decoding.engine import Engine, choose_engine
from bytenet.model import LanguageModel, LanguageModelConfig
from bytenet.model.blocks import StackConfig

Step = Callable[[int], int]
"""Reads one more token and returns the most probable next one; remembers what went before."""


@dataclass(frozen=True)
class Contender:
    """A network and how one decodes with it."""

    name: str
    shape: str
    model: nn.Module
    start: Callable[[], Step]
    """A stepper that has read nothing."""
    read: Callable[[Tensor], Tensor]
    """All positions at once, without a cache: tokens (1, T) -> logits (1, T, V)."""

    @property
    def num_parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.model.parameters())


def bytenet_stepper(model: LanguageModel, engine: Engine) -> Step:
    """One character at constant cost, from the state."""
    state = engine.take(model.start())

    def step(token: int) -> int:
        nonlocal state
        logits, state = engine(torch.tensor([[token]]), state)
        return int(logits.argmax())

    return step


def reread_stepper(model: LanguageModel, prefix: Sequence[int] = ()) -> Step:
    """The whole text read anew for each character; starts after `prefix`."""
    tokens = list(prefix)

    def step(token: int) -> int:
        tokens.append(token)
        logits, _ = model(torch.tensor([tokens]), model.start())
        return int(logits[0, -1].argmax())

    return step


def bytenet(inner_channels: int, num_blocks: int) -> Contender:
    """The language model of the paper, of this width and depth, over bytes."""
    stack = StackConfig(block="multiplicative", num_blocks=num_blocks)
    model = LanguageModel(LanguageModelConfig(inner_channels=inner_channels, decoder=stack)).eval()
    engine = choose_engine(model)
    return Contender(
        name=f"ByteNet, {num_blocks} blocks",
        shape=f"{num_blocks} multiplicative blocks, d = {inner_channels}, receptive field {stack.receptive_field}",
        model=model,
        start=lambda: bytenet_stepper(model, engine),
        read=lambda tokens: model(tokens, model.start())[0],
    )
