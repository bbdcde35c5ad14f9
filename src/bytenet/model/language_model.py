"""Sect. 5: the ByteNet decoder alone, as a language model."""

from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor, nn

from bytenet.model.blocks import StackConfig, check_dropout
from bytenet.model.decoder import Decoder
from bytenet.model.ngrams import NgramConfig
from bytenet.model.state import State
from bytenet.vocabulary import VocabularyConfig


@dataclass(frozen=True, kw_only=True)
class LanguageModelConfig:
    """A model of texts."""

    kind: Literal["language-model"] = "language-model"
    vocabulary: VocabularyConfig = VocabularyConfig()
    inner_channels: int = 512
    """Channels inside a block (the paper's d); between blocks there are twice as many."""
    decoder: StackConfig = field(default_factory=lambda: StackConfig(block="multiplicative"))
    ngrams: NgramConfig = NgramConfig()
    """Not in the paper: embeddings of n-grams beside those of tokens."""
    dropout: float = 0.0
    """The share of units dropped after the last ReLU, before the softmax."""

    def __post_init__(self) -> None:
        check_widths(self.inner_channels, self.dropout)

    @property
    def receptive_field(self) -> int:
        """How many tokens an output depends on, its own included."""
        return self.decoder.receptive_field + self.ngrams.reach

    @property
    def vocabulary_configs(self) -> tuple[VocabularyConfig, ...]:
        return (self.vocabulary,)


class LanguageModel(nn.Module):
    """Reads tokens and predicts, at every position, the next one."""

    def __init__(self, config: LanguageModelConfig) -> None:
        super().__init__()
        self.config = config
        self.decoder = Decoder(
            config.decoder,
            vocabulary_size=config.vocabulary.size,
            inner_channels=config.inner_channels,
            dropout=config.dropout,
            ngrams=config.ngrams,
        )

    def start(self, rows: int = 1, *, dtype: torch.dtype | None = None) -> State:
        """The state of so many rows that have read nothing, in the parameters' precision unless another is named."""
        return State(self.decoder.empty_histories(rows, dtype), tokens=self.decoder.empty_tokens(rows))

    def forward(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """tokens (B, T) -> logits (B, T, V), the state after them"""
        logits, histories = self.decoder(tokens, state.histories, before=state.tokens)
        return logits, State(histories, tokens=last_tokens(state.tokens, tokens))


def last_tokens(before: Tensor | None, tokens: Tensor) -> Tensor | None:
    """before (B, N-1), tokens (B, T) -> the last N-1 of both, (B, N-1)"""
    return None if before is None else torch.cat([before, tokens], dim=1)[:, tokens.shape[1] :]


def check_widths(inner_channels: int, dropout: float) -> None:
    """What every model's config asks of its widths."""
    if inner_channels < 2:
        raise ValueError(
            f"inner_channels must be at least 2, not {inner_channels}: layer norm over one channel is zero"
        )
    check_dropout(dropout)
