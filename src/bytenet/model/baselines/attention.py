"""RNN Enc-Dec Att: Bahdanau et al., "Neural Machine Translation by Jointly Learning to Align and Translate", 2014.

Shapes: B rows, S source and T target positions, C = 2d channels.

Table 1: time |S||T|, resolution preserved, paths 1 and |T|. A bidirectional recurrent network annotates the source; at
each step the decoder weighs all annotations by how well each goes with its hidden state, and reads their mean.
Simplified: the ByteNet's head reads hidden state, context and embedding, in place of one layer of maxout; layers above
the first are a plain recurrence.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from bytenet.model.convolution import Pointwise
from bytenet.model.recurrent import Bidirectional, Recurrence
from bytenet.model.state import RowState
from bytenet.model.translation import SourceAndTarget, TranslationConfig, mask_of


@dataclass(frozen=True, kw_only=True)
class AttentionConfig(TranslationConfig):
    """An RNN Enc-Dec with attention."""

    kind: Literal["attention"] = "attention"


@dataclass(frozen=True)
class AttentionState(RowState):
    """The whole source, and what the decoder's layers hold."""

    annotations: Tensor
    """(B, S, C)"""
    keys: Tensor
    """What the annotations say of themselves to the alignment, (B, S, C)."""
    mask: Tensor
    """(B, S, 1): True inside the source."""
    hidden: Tensor
    """Of the first layer, which attends, (B, 1, C)."""
    above: Tensor | None
    """Of the layers above it, (B, N-1, C)."""


class AttentionTranslator(SourceAndTarget):
    """Aligns and translates."""

    def __init__(self, config: AttentionConfig) -> None:
        super().__init__(config)
        self.config: AttentionConfig = config
        channels = config.channels
        self.encoder = Bidirectional(channels, config.layers)
        self.first_hidden = Pointwise(channels // 2, channels, bias=True)
        self.query, self.key = Pointwise(channels, channels), Pointwise(channels, channels, bias=True)
        self.energy = Pointwise(channels, 1)
        self.recurrence = Recurrence(2 * channels, channels)
        self.above = Recurrence(channels, channels, config.layers - 1) if config.layers > 1 else None
        self.output = Pointwise(3 * channels, channels)

    def encode(self, x: Tensor, lengths: Sequence[int]) -> AttentionState:
        mask = mask_of(lengths, x)
        annotations = self.encoder(x, mask)
        backwards = annotations[:, :1, x.shape[2] // 2 :]  # has read the whole source
        return AttentionState(
            annotations=annotations,
            keys=self.key(annotations),
            mask=mask,
            hidden=torch.tanh(self.first_hidden(backwards)),
            above=None if self.above is None else self.above.start(x),
        )

    def decode(self, x: Tensor, state: AttentionState) -> tuple[Tensor, AttentionState]:
        hidden, hiddens, contexts = state.hidden, [], []
        for embedded in torch.split(x, 1, dim=1):  # (B, 1, C): each alignment needs the hidden state before it
            context = self.context(hidden, state)
            _, hidden = self.recurrence(torch.cat([embedded, context], dim=-1), hidden)
            hiddens.append(hidden)
            contexts.append(context)
        h, above = torch.cat(hiddens, dim=1), state.above
        if self.above is not None:
            h, above = self.above(h, above)
        output: Tensor = self.output(torch.cat([h, torch.cat(contexts, dim=1), x], dim=-1))
        return output, AttentionState(state.annotations, state.keys, state.mask, hidden, above)

    def context(self, hidden: Tensor, state: AttentionState) -> Tensor:
        """hidden (B, 1, C) -> the annotations' mean, by how well each goes with it, (B, 1, C)"""
        energies = self.energy(torch.tanh(self.query(hidden) + state.keys))  # (B, S, 1)
        weights = energies.masked_fill(~state.mask, -torch.inf).softmax(dim=1)
        context: Tensor = (weights * state.annotations).sum(dim=1, keepdim=True)
        return context
