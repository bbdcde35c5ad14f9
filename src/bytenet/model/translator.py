"""Sect. 3.1, 3.2 and 6: the decoder stacked on the encoder, and dynamic unfolding.

Shapes: B rows, S source, L representation and T target positions, C = 2d channels, V vocabulary.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from bytenet.model.blocks import StackConfig
from bytenet.model.decoder import Conditioning, Decoder
from bytenet.model.encoder import Encoder, check_centred
from bytenet.model.language_model import check_widths, last_tokens
from bytenet.model.ngrams import NgramConfig
from bytenet.model.state import State
from bytenet.vocabulary import PAD, VocabularyConfig


@dataclass(frozen=True, kw_only=True)
class UnfoldingConfig:
    """Dynamic unfolding: how long a source's representation is."""

    a: float = 1.2
    """The representation has a · (padded source length) + b positions."""
    b: float = 0.0
    """See a."""
    multiple: int = 50
    """A source is padded to the next multiple of this; 1 leaves it as it is."""
    stretch: float = 1.0
    """Not in the paper: how many target positions stand on one source position, on average. Where targets are longer
    than their sources by a tenth, 1.1 keeps what belongs together side by side to the end."""

    def __post_init__(self) -> None:
        for name in ("a", "stretch"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be a positive number, not {getattr(self, name)}")
        if not 0 <= self.b < math.inf:
            raise ValueError(f"b must be at least 0, not {self.b}")
        check_multiple(self.multiple)

    def padded_length(self, length: int) -> int:
        """The next multiple that holds `length` characters; an empty source has one multiple of padding."""
        return max(1, math.ceil(length / self.multiple)) * self.multiple

    def unfolded_length(self, length: int) -> int:
        """The positions of the representation of a source of `length` characters."""
        exact = self.a * self.padded_length(length) + self.b
        return math.ceil(exact - 1e-6)  # 1.2 · 350 is 420, and not a rounding error more

    def read_length(self, length: int) -> int:
        """The positions that the encoder reads of it: with a < stretch, more than it keeps."""
        return max(self.padded_length(length), self.source_position(self.unfolded_length(length) - 1) + 1)

    def source_position(self, position: int) -> int:
        """Where in the source the representation's position comes from."""
        return int(position / self.stretch)


@dataclass(frozen=True, kw_only=True)
class UnfoldingFit:
    """Dynamic unfolding whose a and b are yet to be fitted to pairs, which training does before its first step."""

    kind: Literal["fit"] = "fit"
    coverage: float = 0.99
    """The share of targets that are to be shorter than the representation: "almost all cases"."""
    multiple: int = 50
    """A source is padded to the next multiple of this; 1 leaves it as it is."""

    def __post_init__(self) -> None:
        if not 0 < self.coverage <= 1:
            raise ValueError(f"coverage must be more than 0 and at most 1, not {self.coverage}")
        check_multiple(self.multiple)


def check_multiple(multiple: int) -> None:
    if multiple < 1:
        raise ValueError(f"multiple must be at least 1, not {multiple}")


@dataclass(frozen=True, kw_only=True)
class TranslatorConfig:
    """A model of targets given sources."""

    kind: Literal["translator"] = "translator"
    source_vocabulary: VocabularyConfig = VocabularyConfig()
    target_vocabulary: VocabularyConfig = VocabularyConfig()
    inner_channels: int = 800
    """Channels inside a block (the paper's d); between blocks there are twice as many."""
    encoder: StackConfig = StackConfig()
    decoder: StackConfig = StackConfig()
    source_ngrams: NgramConfig = NgramConfig()
    """Not in the paper: embeddings of n-grams beside those of source tokens."""
    target_ngrams: NgramConfig = NgramConfig()
    """The same for target tokens."""
    unfolding: UnfoldingConfig | UnfoldingFit = UnfoldingConfig()
    """How long a source's representation is; "fit" leaves a and b to the training pairs."""
    conditioning: Conditioning = "add"
    """How the decoder takes the representation in: added to the target's embedding, or beside it."""
    dropout: float = 0.0
    """The share of units dropped after the last ReLU, before the softmax."""

    def __post_init__(self) -> None:
        check_widths(self.inner_channels, self.dropout)
        check_centred(self.encoder)

    @property
    def receptive_field(self) -> int:
        """How many target tokens an output depends on, its own included."""
        return self.decoder.receptive_field + self.target_ngrams.reach

    @property
    def vocabulary_configs(self) -> tuple[VocabularyConfig, ...]:
        return (self.source_vocabulary, self.target_vocabulary)


class Translator(nn.Module):
    """Reads a source at once, then target tokens, and predicts, at every position, the next target token."""

    def __init__(self, config: TranslatorConfig) -> None:
        super().__init__()
        if isinstance(config.unfolding, UnfoldingFit):
            raise ValueError("unfolding is yet to be fitted to pairs, as training does; a model needs its a and b")
        self.config, self.unfolding = config, config.unfolding
        self.encoder = Encoder(
            config.encoder,
            vocabulary_size=config.source_vocabulary.size,
            inner_channels=config.inner_channels,
            ngrams=config.source_ngrams,
        )
        self.decoder = Decoder(
            config.decoder,
            vocabulary_size=config.target_vocabulary.size,
            inner_channels=config.inner_channels,
            dropout=config.dropout,
            conditioning=config.conditioning,
            ngrams=config.target_ngrams,
        )

    def start(self, source: Tensor, lengths: Sequence[int] | None = None, *, dtype: torch.dtype | None = None) -> State:
        """source (B, S), filled up with PAD -> the state of rows that have read their source and no target token

        `lengths` are the sources' own lengths; left out, they are counted, which on a GPU waits for it.
        """
        lengths = counted(source) if lengths is None else lengths
        return State(
            histories=self.decoder.empty_histories(len(source), dtype),
            ahead=represent(self.encoder, self.unfolding, source, lengths, dtype),
            tokens=self.decoder.empty_tokens(len(source)),
        )

    def forward(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """tokens (B, T) -> logits (B, T, V), the state after them"""
        assert state.ahead is not None, "a translator's state comes from its own start()"
        source, ahead = unfold(state.ahead, tokens.shape[1])
        logits, histories = self.decoder(tokens, state.histories, source, state.tokens)
        return logits, State(histories, ahead, last_tokens(state.tokens, tokens))


def counted(source: Tensor) -> list[int]:
    """source (B, S), filled up with PAD -> the sources' lengths"""
    lengths: list[int] = (source != PAD).sum(dim=1).tolist()
    return lengths


def represent(
    encoder: nn.Module, unfolding: UnfoldingConfig, source: Tensor, lengths: Sequence[int], dtype: torch.dtype | None
) -> Tensor:
    """The representations (B, L, C), each as long as its own source says, then zeros.

    With a < stretch a representation is shorter than its padded source; the encoder still reads all of that.
    """
    different = set(lengths)
    unfolded_of = {length: unfolding.unfolded_length(length) for length in different}
    read_of = {length: unfolding.read_length(length) for length in different}
    unfolded, read = [unfolded_of[length] for length in lengths], [read_of[length] for length in lengths]
    longest, width = max(read, default=0), max(unfolded, default=0)
    source = F.pad(source[:, :longest], (0, max(0, longest - source.shape[1])), value=PAD)
    representation: Tensor = encoder(source, inside(read, longest, source.device), dtype)
    if unfolding.stretch == 1:
        representation = representation[:, :width]
    else:
        places = torch.tensor([unfolding.source_position(i) for i in range(width)], dtype=torch.int64)  # none, too
        places = places.to(source.device, non_blocking=True)
        representation = Stretched.apply(representation, places)  # type: ignore[no-untyped-call]
    kept = inside(unfolded, width, source.device)
    return representation if kept is None else representation * kept


class Stretched(torch.autograd.Function):
    """x (B, S, C), places (L,) -> (B, L, C); backward, what came from one place is summed by a product with zeros and
    ones, several times as fast on a GPU as adding to places one after the other.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, places: Tensor) -> Tensor:
        ctx.save_for_backward(places)
        ctx.length = x.shape[1]
        return x.index_select(1, places)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator,no-untyped-call,unused-ignore]
    def backward(ctx: Any, d_y: Tensor) -> tuple[Tensor, None]:
        (places,) = ctx.saved_tensors
        came_from = places == torch.arange(ctx.length, device=places.device)[:, None]  # (S, L)
        return torch.matmul(came_from.to(d_y.dtype), d_y), None


def unfold(ahead: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """ahead (B, L, C) -> what the next positions stand on, (B, length, C), and what is ahead then"""
    source, missing = ahead[:, :length], length - ahead.shape[1]
    if missing > 0:
        source = F.pad(source, (0, 0, 0, missing))  # past the end: conditioned on nothing
    return source, ahead[:, length:]


def inside(lengths: Sequence[int], longest: int, device: torch.device) -> Tensor | None:
    """(B, longest, 1): True before each row's length, False from there on; None if every row is the longest."""
    if all(length == longest for length in lengths):
        return None
    ends = torch.tensor(lengths).to(device, non_blocking=True)
    return (torch.arange(longest, device=device) < ends[:, None])[..., None]
