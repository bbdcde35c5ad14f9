"""The rows of Table 1: what the paper states of each, and the model that stands for it here."""

from dataclasses import dataclass, replace
from typing import Any

from bytenet.model import AnyTranslatorConfig, RecurrentTranslatorConfig, TranslatorConfig
from bytenet.model.baselines.attention import AttentionConfig
from bytenet.model.baselines.grid_lstm import GridConfig
from bytenet.model.baselines.neural_gpu import NeuralGpuConfig
from bytenet.model.baselines.rctm import Rctm1Config, Rctm2Config
from bytenet.model.baselines.transformer import TransformerConfig
from bytenet.model.blocks import StackConfig
from bytenet.model.translator import UnfoldingConfig
from bytenet.vocabulary import VocabularyConfig


@dataclass(frozen=True, kw_only=True)
class Cells:
    """Four columns of Table 1; S and T stand for its |S| and |T|."""

    time: str
    resolution: str
    path_source: str
    path_target: str


@dataclass(frozen=True, kw_only=True)
class Row:
    """A model of the table."""

    name: str
    networks: str
    """Of the source and of the target."""
    paper: Cells
    stated: bool = True
    """Whether the paper has this row; else the cells are those of the model's own paper."""
    config: AnyTranslatorConfig
    """About 40,000 parameters, with the keys of recipes/compare-copy.toml."""


def cells(time: str, resolution: str, path_source: str, path_target: str) -> Cells:
    return Cells(time=time, resolution=resolution, path_source=path_source, path_target=path_target)


DIGITS = VocabularyConfig(kind="characters", symbols=10)
SHARED: dict[str, Any] = {
    "source_vocabulary": DIGITS,
    "target_vocabulary": DIGITS,
    "unfolding": UnfoldingConfig(a=1.0, b=2.0, multiple=3),
}
SHALLOW, DEEP = StackConfig(num_blocks=4), StackConfig(num_blocks=10)

ROWS = (
    Row(
        name="RCTM 1",
        networks="CNN, RNN",
        paper=cells("S² + T", "no", "S", "T"),
        config=Rctm1Config(inner_channels=25, **SHARED),
    ),
    Row(
        name="RCTM 2",
        networks="CNN, RNN",
        paper=cells("S² + T", "yes", "S", "T"),
        config=Rctm2Config(inner_channels=21, **SHARED),
    ),
    Row(
        name="RNN Enc-Dec",
        networks="RNN, RNN",
        paper=cells("S + T", "no", "S + T", "T"),
        config=RecurrentTranslatorConfig(encoder_kind="recurrent", severed=True, inner_channels=29, **SHARED),
    ),
    Row(
        name="RNN Enc-Dec Att",
        networks="RNN, RNN",
        paper=cells("ST", "yes", "1", "T"),
        config=AttentionConfig(inner_channels=22, **SHARED),
    ),
    Row(
        name="Grid LSTM",
        networks="RNN, RNN",
        paper=cells("ST", "yes", "S + T", "S + T"),
        config=GridConfig(inner_channels=20, **SHARED),
    ),
    Row(
        name="Extended Neural GPU",
        networks="cRNN, cRNN",
        paper=cells("S² + ST", "yes", "S", "T"),
        config=NeuralGpuConfig(inner_channels=19, **SHARED),
    ),
    Row(
        name="Recurrent ByteNet, RNN",
        networks="RNN, RNN",
        paper=cells("S + T", "yes", "max(S, T)", "T"),
        config=RecurrentTranslatorConfig(encoder_kind="recurrent", inner_channels=29, **SHARED),
    ),
    Row(
        name="Recurrent ByteNet, CNN",
        networks="CNN, RNN",
        paper=cells("cS + T", "yes", "c", "T"),
        config=RecurrentTranslatorConfig(encoder=SHALLOW, inner_channels=26, **SHARED),
    ),
    Row(
        name="ByteNet",
        networks="CNN, CNN",
        paper=cells("cS + cT", "yes", "c", "c"),
        config=TranslatorConfig(encoder=SHALLOW, decoder=SHALLOW, inner_channels=25, **SHARED),
    ),
    Row(
        name="Transformer",
        networks="attention",
        paper=cells("S² + ST + T²", "yes", "1", "1"),
        stated=False,
        config=TransformerConfig(inner_channels=18, **SHARED),
    ),
)


def unfolded_as(config: AnyTranslatorConfig, unfolding: UnfoldingConfig) -> AnyTranslatorConfig:
    """The same network with another length of its representation: none of its weights depend on it."""
    return replace(config, unfolding=unfolding)


def deepened(config: AnyTranslatorConfig) -> AnyTranslatorConfig:
    """With convolutions that reach over 62 positions to either side: Table 1's c connects any two tokens."""
    match config:
        case TranslatorConfig():
            return replace(config, encoder=DEEP, decoder=DEEP)
        case RecurrentTranslatorConfig():
            return replace(config, encoder=DEEP)
        case _:
            return config
