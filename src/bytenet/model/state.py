"""What a model remembers between two calls: a value, made by `model.start`, returned by `model(tokens, state)`.

Shapes: B rows, d inner channels, C = 2d channels of the source representation.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True)
class State:
    """All that reading went by, in constant size; its precision is the one in which the next tokens are read."""

    histories: tuple[Tensor, ...]
    """For each block of the decoder, what its convolution still reaches: (B, (K-1)·dilation, d)."""
    ahead: Tensor | None = None
    """Translators: the part of the source representation not yet unfolded over, (B, L, C); zeros behind a row's end."""
    tokens: Tensor | None = None
    """With embeddings of n-grams up to N tokens: the last N-1 tokens, (B, N-1)."""

    @property
    def dtype(self) -> torch.dtype:
        return self.histories[0].dtype

    @property
    def device(self) -> torch.device:
        return self.histories[0].device

    def select(self, rows: Tensor) -> "State":
        """The state of the rows with these indices (n,), in this order; a row may be taken several times or never."""
        return State(
            histories=tuple(history.index_select(0, rows) for history in self.histories),
            ahead=None if self.ahead is None else self.ahead.index_select(0, rows),
            tokens=None if self.tokens is None else self.tokens.index_select(0, rows),
        )

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

    def compact(self) -> "State":
        """The same rows in as little memory as they need: this is all there is."""
        return self
