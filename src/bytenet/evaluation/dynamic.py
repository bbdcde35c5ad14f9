"""Dynamic evaluation: the model goes on learning from the text that it is measured on, in order.

Every symbol is scored before anything is learnt from it, so the bits are those of a code that a decoder could follow.
It is another measure than that of a fixed model, and reported apart from it (Krause et al., 2018, for recurrent ones).
"""

import copy
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from bytenet.evaluation.bits import Bits, nats
from bytenet.model import LanguageModel
from bytenet.model.state import State
from bytenet.vocabulary import BEGIN


@dataclass(frozen=True, kw_only=True)
class DynamicConfig:
    """How the model learns meanwhile."""

    rate: float = 1e-4
    """Adam's; 0 learns nothing."""
    segment: int = 512
    """How many symbols are scored, then learnt from, at a time."""
    decay: float = 0.0
    """The share of the way back to its trained weights that the model goes at each step."""

    def __post_init__(self) -> None:
        if not 0 <= self.rate < math.inf:
            raise ValueError(f"rate must be at least 0, not {self.rate}")
        if self.segment < 1:
            raise ValueError(f"segment must be at least 1, not {self.segment}")
        if not 0 <= self.decay < 1:
            raise ValueError(f"decay must be at least 0 and less than 1, not {self.decay}")


def dynamic_bits(
    model: LanguageModel, parts: Iterable[Tensor], config: DynamicConfig, *, dtype: torch.dtype | None = None
) -> Bits:
    """The bits of a text that comes as parts (n,) of its ids, in linear time; the model is left as it was."""
    trained = list(model.parameters())
    model = copy.deepcopy(model).eval()
    weights = list(model.parameters())
    device = weights[0].device
    optimizer = torch.optim.Adam(weights, lr=config.rate, fused=device.type == "cuda")
    state, previous = model.start(dtype=dtype), torch.tensor([BEGIN], device=device)
    total, symbols = torch.zeros((), dtype=torch.float64, device=device), 0
    for segment in segments(parts, config.segment):
        tokens = segment.to(device).long()
        logits, state = model(torch.cat([previous, tokens[:-1]])[None], detached(state))
        losses = nats(logits[0], tokens)
        total += losses.detach().double().sum()
        losses.mean().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if config.decay:
            with torch.no_grad():
                for weight, origin in zip(weights, trained, strict=True):
                    weight.lerp_(origin, config.decay)
        previous, symbols = tokens[-1:], symbols + len(tokens)
    return Bits(float(total) / math.log(2), symbols)


def segments(parts: Iterable[Tensor], length: int) -> Iterator[Tensor]:
    """The same text in parts of this length, the last one perhaps shorter, however it came."""
    rest: list[Tensor] = []
    size = 0
    for part in parts:
        rest.append(part)
        size += len(part)
        if size >= length:
            *whole, last = torch.split(torch.cat(rest), length)
            if len(last) == length:
                whole.append(last)
                last = last[:0]
            yield from whole
            rest, size = [last], len(last)
    if size:
        yield torch.cat(rest)


def detached(state: State) -> State:
    """The past is read, not learnt from again."""
    return replace(state, histories=tuple(history.detach() for history in state.histories))
