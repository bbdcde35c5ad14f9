"""The network: one file a part of the paper. It knows tensors and their configs, but no text and no files."""

from bytenet.model.language_model import LanguageModel, LanguageModelConfig
from bytenet.model.state import State
from bytenet.model.translator import Translator, TranslatorConfig

Model = LanguageModel | Translator
ModelConfig = LanguageModelConfig | TranslatorConfig


def build(config: ModelConfig) -> Model:
    """A new model with random weights."""
    match config:
        case LanguageModelConfig():
            return LanguageModel(config)
        case TranslatorConfig():
            return Translator(config)


__all__ = [
    "LanguageModel",
    "LanguageModelConfig",
    "Model",
    "ModelConfig",
    "State",
    "Translator",
    "TranslatorConfig",
    "build",
]
