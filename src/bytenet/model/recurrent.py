"""Sect. 4.1: the Recurrent ByteNets, and the RNN Enc-Dec, which is one of them with connections severed.

Shapes: B rows, L representation and T target positions, N layers, D and C = 2d channels, V vocabulary.

The decoder is recurrent, the encoder convolutional or a bidirectional recurrent network. The decoder stands on the
encoder and unfolds dynamically as a ByteNet does: its input at a position is the target's embedding and the column of
the representation at that position.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.backends import cudnn

from bytenet.model.blocks import StackConfig
from bytenet.model.decoder import Head
from bytenet.model.encoder import Encoder, check_centred
from bytenet.model.state import RowState
from bytenet.model.translation import TranslationConfig
from bytenet.model.translator import counted, represent, unfold


@dataclass(frozen=True, kw_only=True)
class RecurrentTranslatorConfig(TranslationConfig):
    """A Recurrent ByteNet."""

    kind: Literal["recurrent-translator"] = "recurrent-translator"
    encoder_kind: Literal["convolutional", "recurrent"] = "convolutional"
    """The ByteNet's own encoder, or a bidirectional recurrent network."""
    encoder: StackConfig = StackConfig()
    """The blocks of a convolutional encoder; a recurrent one has `layers`."""
    severed: bool = False
    """Sever all connections between source and target but the first; with a recurrent encoder, this is the RNN Enc-Dec
    of Sutskever et al. (2014) and Cho et al. (2014)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_centred(self.encoder)


@dataclass(frozen=True)
class RecurrentState(RowState):
    """All that reading went by, in constant size."""

    hidden: Tensor
    """Of the decoder's layers, (B, N, C)."""
    ahead: Tensor
    """The part of the source representation not yet unfolded over, (B, L, C)."""


class RecurrentTranslator(nn.Module):
    """Reads a source at once, then target tokens one after the other, and predicts the next target token."""

    def __init__(self, config: RecurrentTranslatorConfig) -> None:
        super().__init__()
        self.config, self.unfolding = config, config.unfolding
        size, inner = config.source_vocabulary.size, config.inner_channels
        match config.encoder_kind:
            case "convolutional":
                self.encoder: nn.Module = Encoder(config.encoder, vocabulary_size=size, inner_channels=inner)
            case "recurrent":
                self.encoder = RecurrentEncoder(size, config.channels, config.layers)
        self.embedding = nn.Embedding(config.target_vocabulary.size, config.channels)
        self.recurrence = Recurrence(config.channels, config.channels, config.layers)
        self.head = Head(inner, config.target_vocabulary.size, config.dropout)

    def start(
        self, source: Tensor, lengths: Sequence[int] | None = None, *, dtype: torch.dtype | None = None
    ) -> RecurrentState:
        """source (B, S), filled up with PAD -> the state of rows that have read their source and no target token"""
        lengths = counted(source) if lengths is None else lengths
        ahead = represent(self.encoder, self.config.unfolding, source, lengths, dtype)
        if self.config.severed:
            ahead = ahead[:, :1]  # s0 to t0
        return RecurrentState(self.recurrence.start(ahead), ahead)

    def forward(self, tokens: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        """tokens (B, T) -> logits (B, T, V), the state after them"""
        source, ahead = unfold(state.ahead, tokens.shape[1])
        x = self.embedding(tokens).to(state.dtype) + source
        x, hidden = self.recurrence(x, state.hidden)
        return self.head(x), RecurrentState(hidden, ahead)


class RecurrentEncoder(nn.Module):
    """A bidirectional recurrent network: each column has read the source up to its position from either side."""

    def __init__(self, vocabulary_size: int, channels: int, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary_size, channels)
        self.blocks = Bidirectional(channels, layers)

    def forward(self, tokens: Tensor, mask: Tensor | None, dtype: torch.dtype | None = None) -> Tensor:
        """tokens (B, L), mask (B, L, 1) of who is inside, None for all -> representation (B, L, C)"""
        x = self.embedding(tokens)
        representation: Tensor = self.blocks(x.to(dtype or x.dtype), mask)
        return representation


class Bidirectional(nn.Module):
    """Layers of two recurrences each, one in either direction, each with half of the channels."""

    def __init__(self, channels: int, layers: int) -> None:
        super().__init__()
        self.forwards = nn.ModuleList(Recurrence(channels, channels // 2) for _ in range(layers))
        self.backwards = nn.ModuleList(Recurrence(channels, channels // 2) for _ in range(layers))

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """x (B, L, C), mask (B, L, 1) of who is inside, None for all -> (B, L, C)"""
        for forwards, backwards in zip(self.forwards, self.backwards, strict=True):
            towards_end, _ = forwards(x)
            towards_start, _ = backwards(reversed_rows(x, mask))
            x = torch.cat([towards_end, reversed_rows(towards_start, mask)], dim=-1)
        return x


class Recurrence(nn.Module):
    """Gated recurrent units (Cho et al. 2014), in layers.

    Not in the paper: the kind of unit. Weights are cast to the precision of what they read.
    """

    def __init__(self, in_channels: int, channels: int, layers: int = 1) -> None:
        super().__init__()
        self.units = nn.GRU(in_channels, channels, layers, batch_first=True)

    def start(self, x: Tensor) -> Tensor:
        """x (B, ...) -> the hidden state of rows that have read nothing, (B, N, C)"""
        return x.new_zeros(x.shape[0], self.units.num_layers, self.units.hidden_size)

    def forward(self, x: Tensor, hidden: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """x (B, T, D), hidden (B, N, C), None before the first -> (B, T, C), the hidden state after them"""
        hidden = self.start(x) if hidden is None else hidden
        if not x.shape[1]:
            return x.new_zeros(x.shape[0], 0, self.units.hidden_size), hidden
        weights = [weight.to(x.dtype) for layer in self.units.all_weights for weight in layer]
        before = hidden.transpose(0, 1).contiguous()  # (N, B, C)
        with cudnn.flags(enabled=False):  # it wants all weights in one piece of memory, which casts do not keep
            x, after = torch.gru(x, before, weights, True, self.units.num_layers, 0.0, False, False, True)
        return x, after.transpose(0, 1)


def reversed_rows(x: Tensor, mask: Tensor | None) -> Tensor:
    """x (B, L, C), mask (B, L, 1) -> each row backwards from its own end; what is behind the end stays there"""
    if mask is None:
        return x.flip(1)
    places = torch.arange(x.shape[1], device=x.device)[:, None]  # (L, 1)
    mirrored = torch.where(mask, mask.sum(dim=1, keepdim=True) - 1 - places, places)  # (B, L, 1)
    return x.gather(1, mirrored.expand_as(x))
