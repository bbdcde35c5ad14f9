"""Sequence models that read and write characters in linear time: the ByteNet language model and translator."""

__version__ = "0.1.0"

from bytenet.config import Recipe, load_recipe, save_recipe
from bytenet.model import LanguageModel, LanguageModelConfig, State, Translator, TranslatorConfig
from bytenet.model_folder import load_model, save_model
from bytenet.vocabulary import Bytes, Characters

__all__ = [
    "Bytes",
    "Characters",
    "LanguageModel",
    "LanguageModelConfig",
    "Recipe",
    "State",
    "Translator",
    "TranslatorConfig",
    "load_model",
    "load_recipe",
    "save_model",
    "save_recipe",
]
