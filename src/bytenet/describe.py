"""What a network is, in numbers, found from its config alone: no weights are made.

FLOPs are those of the matrix products, a multiplication and an addition each; a training step costs three forward
passes (one forward, two backward). What is done element by element is left out.
"""

import dataclasses
from collections import Counter
from typing import Any

import torch
from torch import nn

from bytenet.model import LanguageModel, LanguageModelConfig, ModelConfig, Translator, TranslatorConfig, build
from bytenet.model.blocks import StackConfig
from bytenet.model.convolution import Pointwise
from bytenet.model.translator import UnfoldingConfig, UnfoldingFit

STATE_ITEM_BYTES = 4  # float32
TOKEN_BYTES = 8


def describe(config: ModelConfig) -> dict[str, Any]:
    """Parameters by part and vocabularies; of a ByteNet also receptive field, blocks, state, FLOPs a character."""
    with torch.device("meta"):
        model = build(_fitted(config))
    result: dict[str, Any] = {
        "kind": config.kind,
        "parameters": count_parameters(model),
        "parameters_by_part": _parameters_by_part(model),
        "inner_channels": config.inner_channels,
    }
    match config:
        case LanguageModelConfig():
            result["vocabulary_size"] = config.vocabulary.size
        case _:
            result["unfolding"] = dataclasses.asdict(config.unfolding)
            result["source_vocabulary_size"] = config.source_vocabulary.size
            result["target_vocabulary_size"] = config.target_vocabulary.size
    match model:
        case LanguageModel():
            result |= _describe_decoder(model)
        case Translator():
            result |= _describe_decoder(model)
            result["encoder"] = _describe_stack(model.config.encoder)
            result["representation_bytes_per_position"] = STATE_ITEM_BYTES * 2 * config.inner_channels
            result["flops_per_source_position"] = {
                "training": 3 * forward_flops(model.encoder),
                "encoding": forward_flops(model.encoder),
            }
    return result


def _fitted(config: ModelConfig) -> ModelConfig:
    """A network that can be built: what is yet to be fitted to pairs has no weights, so any line will do."""
    if isinstance(config, TranslatorConfig) and isinstance(config.unfolding, UnfoldingFit):
        return dataclasses.replace(config, unfolding=UnfoldingConfig())
    return config


def _describe_decoder(model: LanguageModel | Translator) -> dict[str, Any]:
    return {
        "receptive_field": model.config.receptive_field,
        "decoder": _describe_stack(model.config.decoder),
        "state_bytes_per_row": _state_bytes(model.config),
        "flops_per_character": {
            "training": 3 * forward_flops(model.decoder),
            "decoding": forward_flops(model.decoder),
        },
    }


def _state_bytes(config: LanguageModelConfig | TranslatorConfig) -> int:
    tokens = (config.ngrams if isinstance(config, LanguageModelConfig) else config.target_ngrams).reach
    return STATE_ITEM_BYTES * sum(config.decoder.reaches) * config.inner_channels + TOKEN_BYTES * tokens


def count_parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def forward_flops(module: nn.Module) -> int:
    """The FLOPs of the matrix products that one position costs, forward."""
    return sum(2 * part.weight.numel() for part in module.modules() if isinstance(part, Pointwise))


def _parameters_by_part(model: nn.Module) -> dict[str, int]:
    """Of a ByteNet, encoder and decoder apart, each by embedding, blocks, head."""
    depth = 2 if isinstance(model, LanguageModel | Translator) else 1
    parts: Counter[str] = Counter()
    for name, parameter in model.named_parameters():
        parts[".".join(name.split(".")[:depth])] += parameter.numel()
    return dict(parts)


def _describe_stack(config: StackConfig) -> dict[str, Any]:
    return {
        "num_blocks": config.num_blocks,
        "block": config.block,
        "kernel_width": config.kernel_width,
        "dilations": list(config.block_dilations),
        "receptive_field": config.receptive_field,
    }
