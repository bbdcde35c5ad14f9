"""Small runs for the tests: a text and pairs, tiny models, a few steps."""

from pathlib import Path

import torch

from bytenet.config import Recipe
from bytenet.data.config import DataConfig, DigitsConfig, TextConfig
from bytenet.model import LanguageModelConfig, ModelConfig, TranslatorConfig
from bytenet.model.blocks import StackConfig
from bytenet.model.translator import UnfoldingConfig
from bytenet.model_folder import load_weights
from bytenet.training.config import TrainingConfig
from bytenet.vocabulary import VocabularyConfig

STACK = StackConfig(num_blocks=2, dilations=(1, 2))
DIGITS = VocabularyConfig(kind="characters", symbols=10)
KINDS = ("language-model", "translator")


def small_recipe(kind: str, folder: Path, **training: object) -> Recipe:
    """With dropout and an average of the weights, so that a test of resuming misses nothing."""
    settings = {"steps": 6, "batch_characters": 300, "average": 0.9, "clip": 1.0, "save_every": 2, "evaluate_every": 3}
    return Recipe(
        model=small_model(kind),
        data=small_data(kind, folder),
        training=TrainingConfig(**(settings | {"log_every": 1, "learning_rate": 1e-2} | training)),
    )


def small_model(kind: str) -> ModelConfig:
    if kind == "language-model":
        return LanguageModelConfig(
            inner_channels=8, decoder=StackConfig(num_blocks=2, block="multiplicative"), dropout=0.2
        )
    return TranslatorConfig(
        source_vocabulary=DIGITS,
        target_vocabulary=DIGITS,
        inner_channels=8,
        encoder=STACK,
        decoder=STACK,
        unfolding=UnfoldingConfig(multiple=4),
        dropout=0.2,
    )


def small_data(kind: str, folder: Path) -> DataConfig:
    if kind == "translator":
        return DigitsConfig(max_length=12, pairs=300, validation_pairs=20)
    file = folder / "text.txt"
    if not file.exists():
        file.write_text("".join(f"{number} bottles of beer on the wall; " for number in range(99, 0, -1)))
    return TextConfig(train=(str(file),), window=40, context=8)


def same_weights(a: Path, b: Path) -> bool:
    """Whether two model folders hold the same numbers, bit for bit."""
    left, right = load_weights(a), load_weights(b)
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)
