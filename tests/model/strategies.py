"""Random small configs, and models of them in float64, where equality can be claimed."""

import torch
from hypothesis import strategies as st

from bytenet.model import (
    AnyTranslatorConfig,
    LanguageModel,
    LanguageModelConfig,
    Model,
    ModelConfig,
    RecurrentTranslatorConfig,
    Translator,
    TranslatorConfig,
    build,
)
from bytenet.model.baselines.attention import AttentionConfig
from bytenet.model.baselines.grid_lstm import GridConfig
from bytenet.model.baselines.neural_gpu import NeuralGpuConfig
from bytenet.model.baselines.rctm import Rctm1Config, Rctm2Config
from bytenet.model.baselines.transformer import TransformerConfig
from bytenet.model.blocks import StackConfig
from bytenet.model.ngrams import NgramConfig
from bytenet.model.translator import UnfoldingConfig
from bytenet.vocabulary import NUM_CONTROLS, PAD, VocabularyConfig

VOCABULARY = VocabularyConfig(kind="characters", symbols=9)
NGRAMS = [
    NgramConfig(),
    NgramConfig(sizes=(2, 3), rows=11, channels=3),
    NgramConfig(sizes=(4,), rows=64, channels=2),
    NgramConfig(sizes=(2,), words=4, word_rows=40, separators=(5, 8), rows=32, channels=3),
    NgramConfig(words=3, separators=(4,), rows=32, channels=2),
]
FIRST_TOKEN = NUM_CONTROLS  # no padding, begin or end among random tokens


@st.composite
def stack_configs(draw: st.DrawFn, *, centred: bool = False) -> StackConfig:
    block = draw(st.sampled_from(["relu", "multiplicative"]))
    return StackConfig(
        num_blocks=draw(st.integers(1, 4)),
        block=block,
        kernel_width=draw(st.sampled_from([1, 3, 5]) if centred else st.integers(1, 4)),
        dilations=tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))),
        second_unit=block == "multiplicative" and draw(st.booleans()),
    )


@st.composite
def language_models(draw: st.DrawFn) -> LanguageModel:
    config = LanguageModelConfig(
        vocabulary=VOCABULARY,
        inner_channels=draw(st.sampled_from([6, 7, 8])),
        decoder=draw(stack_configs()),
        ngrams=draw(st.sampled_from(NGRAMS)),
        dropout=draw(st.sampled_from([0.0, 0.5])),
    )
    return in_double(config, seed=draw(st.integers(0, 999)))


@st.composite
def translators(draw: st.DrawFn) -> Translator:
    unfolding = UnfoldingConfig(
        a=draw(st.sampled_from([0.5, 1.0, 1.2, 2.0])),
        b=draw(st.sampled_from([0.0, 3.0])),
        multiple=draw(st.integers(1, 7)),
        stretch=draw(st.sampled_from([1.0, 0.7, 1.15])),
    )
    config = TranslatorConfig(
        source_vocabulary=VOCABULARY,
        target_vocabulary=VOCABULARY,
        inner_channels=draw(st.sampled_from([6, 7, 8])),
        encoder=draw(stack_configs(centred=True)),
        decoder=draw(stack_configs()),
        source_ngrams=draw(st.sampled_from(NGRAMS)),
        target_ngrams=draw(st.sampled_from(NGRAMS)),
        unfolding=unfolding,
        conditioning=draw(st.sampled_from(["add", "concatenate"])),
    )
    return in_double(config, seed=draw(st.integers(0, 999)))


def table_1(**shared: object) -> dict[str, AnyTranslatorConfig]:
    """Every row of Table 1, and what came after it, with the keys that all of them have."""
    stack = StackConfig(num_blocks=2, dilations=(1, 2))
    return {
        "RCTM 1": Rctm1Config(**shared),
        "RCTM 2": Rctm2Config(**shared),
        "RCTM 2 of 3-grams": Rctm2Config(ngram=3, **shared),
        "RNN Enc-Dec": RecurrentTranslatorConfig(encoder_kind="recurrent", severed=True, **shared),
        "RNN Enc-Dec Att": AttentionConfig(layers=2, **shared),
        "Grid LSTM": GridConfig(layers=2, **shared),
        "Extended Neural GPU": NeuralGpuConfig(**shared),
        "Recurrent ByteNet, RNN and RNN": RecurrentTranslatorConfig(encoder_kind="recurrent", layers=2, **shared),
        "Recurrent ByteNet, CNN and RNN": RecurrentTranslatorConfig(encoder=stack, **shared),
        "ByteNet": TranslatorConfig(encoder=stack, decoder=stack, **shared),
        "Transformer": TransformerConfig(layers=2, **shared),
    }


def in_double(config: ModelConfig, *, seed: int = 0) -> Model:
    """A model in float64 whose every parameter is random: norms that are all ones and zeros would hide faults."""
    torch.manual_seed(seed)
    with torch.device("cpu"), torch.no_grad():  # the same model on every device
        model = build(config).double().eval()
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model.to(torch.get_default_device())


def random_tokens(rows: int, length: int) -> torch.Tensor:
    return torch.randint(FIRST_TOKEN, VOCABULARY.size, (rows, length))


def random_sources(lengths: list[int]) -> torch.Tensor:
    """Sources of these lengths, filled up with PAD."""
    source = random_tokens(len(lengths), max(lengths))
    for row, length in zip(source, lengths, strict=True):
        row[length:] = PAD
    return source
