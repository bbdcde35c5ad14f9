"""Sequence models that read and write characters in linear time: the ByteNet language model and translator."""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from bytenet.config import Recipe, load_recipe, save_recipe
    from bytenet.model import LanguageModel, LanguageModelConfig, State, Translator, TranslatorConfig
    from bytenet.model_folder import load_model, save_model
    from bytenet.pipeline import Pipeline, load
    from bytenet.vocabulary import Bytes, Characters

# Each name comes from its module when it is first asked for: `bytenet --help` need not wait for torch.
_MODULES = {
    "bytenet.config": ("Recipe", "load_recipe", "save_recipe"),
    "bytenet.model": ("LanguageModel", "LanguageModelConfig", "State", "Translator", "TranslatorConfig"),
    "bytenet.model_folder": ("load_model", "save_model"),
    "bytenet.pipeline": ("Pipeline", "load"),
    "bytenet.vocabulary": ("Bytes", "Characters"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "Bytes",
    "Characters",
    "LanguageModel",
    "LanguageModelConfig",
    "Pipeline",
    "Recipe",
    "State",
    "Translator",
    "TranslatorConfig",
    "load",
    "load_model",
    "load_recipe",
    "save_model",
    "save_recipe",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
