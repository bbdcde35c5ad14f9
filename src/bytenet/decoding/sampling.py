"""Sampling and greedy decoding, as a stream of tokens.

Shapes: n rows, V vocabulary.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from bytenet.decoding.engine import Engine, without_controls
from bytenet.model.state import RowState
from bytenet.vocabulary import END


@dataclass(frozen=True, kw_only=True)
class SamplingConfig:
    """How the next token is chosen."""

    temperature: float = 1.0
    """Logits are divided by this; 0 takes the most probable token."""
    top_k: int = 0
    """Draw from so many of the most probable tokens; 0 from all."""
    top_p: float = 1.0
    """Draw from the most probable tokens that together have at least this probability; 1 from all."""

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < math.inf:
            raise ValueError(f"temperature must be at least 0, not {self.temperature}")
        if self.top_k < 0:
            raise ValueError(f"top_k must be at least 0, not {self.top_k}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be more than 0 and at most 1, not {self.top_p}")


@dataclass(frozen=True)
class Draft:
    """Rows that are being written."""

    state: Any
    tokens: Tensor
    """(n,): the last token of each row."""


@torch.no_grad()
def sample(
    engine: Engine, state: RowState, tokens: Tensor, config: SamplingConfig, seed: int | None = None
) -> Iterator[list[int]]:
    """state and tokens (n,) that it has not read yet -> the next token of every row, and so on without end.

    A row that wrote END goes on like the others; whoever reads it may stop. Without a seed every call is different.
    """
    device = tokens.device
    generator = torch.Generator(device)
    generator.manual_seed(seed) if seed is not None else generator.seed()
    step = partial(advance, engine, config=config, generator=generator)
    draft = Draft(engine.take(state), tokens)
    loop = engine.repeat(step, draft, lambda draft: draft.tokens, key=config, generator=generator)
    for written in loop:
        yield written.tolist()


def advance(engine: Engine, draft: Draft, *, config: SamplingConfig, generator: torch.Generator) -> Draft:
    logits, state = engine(draft.tokens[:, None], draft.state)
    return replace(draft, state=state, tokens=choose(logits[:, 0], config, generator))


def choose(logits: Tensor, config: SamplingConfig, generator: torch.Generator) -> Tensor:
    """logits (n, V) -> tokens (n,)"""
    if config.temperature == 0:
        return logits[:, END:].argmax(dim=-1) + END
    logits = keep_probable(without_controls(logits) / config.temperature, config)
    # the largest of logits with Gumbel noise is a draw from their softmax; nothing to wait for, unlike multinomial
    noise = torch.empty_like(logits).exponential_(generator=generator).clamp_(min=1e-30)
    return (logits - noise.log()).argmax(dim=-1)


def keep_probable(logits: Tensor, config: SamplingConfig) -> Tensor:
    """logits (n, V) -> -inf for those that top_k and top_p leave out; the most probable one always stays."""
    if config.top_k and config.top_k < logits.shape[1]:
        logits = logits.masked_fill(logits < logits.topk(config.top_k).values[:, -1:], -math.inf)
    if config.top_p < 1:
        probable, order = logits.softmax(dim=-1).sort(dim=-1, descending=True, stable=True)
        before = probable.cumsum(dim=-1) - probable
        left_out = torch.zeros_like(order, dtype=torch.bool).scatter(1, order, before >= config.top_p)
        logits = logits.masked_fill(left_out, -math.inf)
    return logits
