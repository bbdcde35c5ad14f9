"""Small models that tests write and translate with."""

import torch

from bytenet import Characters, LanguageModelConfig, Pipeline, TranslatorConfig
from bytenet.decoding.config import DecodingConfig
from bytenet.model import Model
from bytenet.model.blocks import StackConfig
from bytenet.model.translator import UnfoldingConfig
from bytenet.vocabulary import END, UNKNOWN, Vocabulary, VocabularyConfig
from tests.model.strategies import in_double

STACK = StackConfig(num_blocks=2, dilations=(1, 2))  # a receptive field of 7
LETTERS = Characters("abcdefgh ")


def translator(vocabulary: Vocabulary = LETTERS, *, end: float = 0.0, precision: torch.dtype = torch.float64) -> Model:
    """Knows what it wants, so that rounding decides nothing; the greater `end`, the sooner it ends."""
    config = VocabularyConfig(kind=vocabulary.kind, symbols=len(vocabulary.symbols))
    model = in_double(
        TranslatorConfig(
            source_vocabulary=config,
            target_vocabulary=config,
            inner_channels=8,
            encoder=STACK,
            decoder=STACK,
            unfolding=UnfoldingConfig(multiple=4),
        )
    )
    return decided(model, end).to(precision)


def language_model(vocabulary: Vocabulary = LETTERS, *, end: float = -50.0) -> Model:
    config = VocabularyConfig(kind=vocabulary.kind, symbols=len(vocabulary.symbols))
    return decided(in_double(LanguageModelConfig(vocabulary=config, inner_channels=8, decoder=STACK)), end)


@torch.no_grad()
def decided(model: Model, end: float) -> Model:
    logits = model.decoder.head.logits
    logits.weight.mul_(6)
    logits.bias[END] += end
    if model.decoder.embedding.num_embeddings == len(LETTERS):
        logits.bias[UNKNOWN] -= 1e3
    return model


def pipeline_of(
    model: Model, vocabulary: Vocabulary = LETTERS, *, decoding: DecodingConfig = DecodingConfig()
) -> Pipeline:
    precision = next(model.parameters()).dtype  # on a GPU, not the faster one
    return Pipeline(model, [vocabulary] * 2, decoding=decoding, precision=precision, name="mine")
