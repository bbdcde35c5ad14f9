"""What a model remembers between two calls: a value, made by `model.start`, returned by `model(tokens, state)`.

Shapes: B rows, d inner channels, C = 2d channels of the source representation.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Self, cast

import torch
from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True)
class RowState:
    """What rows remember: a tree of tensors, each with one entry a row; what is no tensor holds for all rows."""

    @property
    def dtype(self) -> torch.dtype:
        """The precision in which the next tokens are read."""
        return next(tensor.dtype for tensor in tensors_of(self) if tensor.is_floating_point())

    @property
    def device(self) -> torch.device:
        return next(tensors_of(self)).device

    def select(self, rows: Tensor) -> Self:
        """The state of the rows with these indices (n,), in this order; a row may be taken several times or never."""
        return cast(Self, mapped(self, lambda tensor: tensor.index_select(0, rows)))

    def compact(self) -> Self:
        """The same rows in as little memory as they need: this is all there is."""
        return self


@dataclass(frozen=True)
class State(RowState):
    """All that reading went by, in constant size: a ByteNet's."""

    histories: tuple[Tensor, ...]
    """For each block of the decoder, what its convolution still reaches: (B, (K-1)·dilation, d)."""
    ahead: Tensor | None = None
    """Translators: the part of the source representation not yet unfolded over, (B, L, C); zeros behind a row's end."""
    tokens: Tensor | None = None
    """With embeddings of n-grams up to N tokens: the last N-1 tokens, (B, N-1)."""

    def join(self, other: "State") -> "State":
        """These rows and then the other's."""
        ahead = tokens = None
        if self.ahead is not None and other.ahead is not None:
            longest = max(self.ahead.shape[1], other.ahead.shape[1])
            ahead = torch.cat([F.pad(part, (0, 0, 0, longest - part.shape[1])) for part in (self.ahead, other.ahead)])
        if self.tokens is not None and other.tokens is not None:
            tokens = torch.cat([self.tokens, other.tokens])
        histories = (torch.cat(both) for both in zip(self.histories, other.histories, strict=True))
        return State(tuple(histories), ahead, tokens)


def tensors_of(value: Any) -> Iterator[Tensor]:
    """All tensors in dataclasses and tuples, in order."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from tensors_of(item)
    elif is_dataclass(value):
        for field in fields(value):
            yield from tensors_of(getattr(value, field.name))


def mapped(value: Any, function: Callable[[Tensor], Tensor]) -> Any:
    """The same dataclasses and tuples with each tensor replaced."""
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, tuple):
        return tuple(mapped(item, function) for item in value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{field.name: mapped(getattr(value, field.name), function) for field in fields(value)})
    return value
