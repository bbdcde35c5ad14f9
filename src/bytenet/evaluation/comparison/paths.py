"""Columns Path: the shortest way from each input token to each output, in layer steps.

Shapes: N inputs, S source, L representation and T target positions.

Each walk goes through a model as its forward pass does, with distances in place of vectors: (N, positions), how many
layer steps away each of N inputs is, infinity where none of it arrives. To be added is to be the nearer of two. Every
layer and every step of a recurrence that is passed counts one, also where a gate or a residual connection passes the
vector on as it is; embeddings and what is done position by position count nothing.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from bytenet.model import (
    AnyTranslator,
    AnyTranslatorConfig,
    RecurrentTranslator,
    RecurrentTranslatorConfig,
    Translator,
    TranslatorConfig,
)
from bytenet.model.baselines.attention import AttentionConfig
from bytenet.model.baselines.grid_lstm import GridConfig
from bytenet.model.baselines.neural_gpu import NeuralGpuConfig
from bytenet.model.baselines.rctm import Rctm1Config, Rctm2Config
from bytenet.model.baselines.transformer import TransformerConfig
from bytenet.model.blocks import StackConfig
from bytenet.model.translation import SourceAndTarget
from bytenet.model.translator import UnfoldingConfig

Distances = npt.NDArray[np.float64]
NEVER = np.inf
NEURAL_GPU_REACH = 2  # positions to either side in a step: its gates reach over one, and what they gate over one more


@dataclass(frozen=True)
class Paths:
    """Shortest ways to each output."""

    from_source: Distances
    """(S, T)"""
    from_target: Distances
    """(T, T)"""


def shortest_paths(config: AnyTranslatorConfig, source: int, target: int) -> Paths:
    """By walking: every source and every target token at once."""
    inputs = np.where(np.eye(source + target, dtype=bool), 0.0, NEVER)
    outputs = walk(config, inputs[:, :source], inputs[:, source:])
    return Paths(outputs[:source], outputs[source:])


def walk(config: AnyTranslatorConfig, source: Distances, target: Distances) -> Distances:
    """source (N, S), target (N, T) -> outputs (N, T)"""
    match config:
        case TranslatorConfig():
            return through_blocks(config.decoder, add(target, unfolded(config, source)), centred=False)
        case RecurrentTranslatorConfig():
            return recurrent(add(target, unfolded(config, source)), config.layers)
    source = widened(source, source.shape[1] + 1)  # END
    match config:
        case Rctm1Config():
            top = narrowed(source, levels=source.shape[1] - 1)
            return recurrent(np.minimum(target, top), config.layers)
        case Rctm2Config():
            return recurrent(add(target, rctm_2_columns(config, source)), config.layers)
        case AttentionConfig():
            annotations = bidirectional(source, config.layers)
            context = np.broadcast_to(attended(annotations), target.shape)
            return np.minimum(recurrent(np.minimum(target, context), config.layers), np.minimum(context, target))
        case GridConfig():
            return through_grid(config, source, target)
        case NeuralGpuConfig():
            return through_memory(config, source, target)
        case TransformerConfig():
            return through_transformer(config, source, target)


def add(x: Distances, more: Distances) -> Distances:
    """x (N, T), more (N, L) -> the nearer of both; behind the end of `more` there is nothing"""
    return np.minimum(x, widened(more[:, : x.shape[1]], x.shape[1]))


def widened(x: Distances, length: int, *, before: int = 0) -> Distances:
    """Columns that no input reaches, before and behind, up to so many in all."""
    return np.pad(x, ((0, 0), (before, length - before - x.shape[1])), constant_values=NEVER)


def convolved(x: Distances, offsets: range) -> Distances:
    """Each position reads those at these offsets from it."""
    length, reach = x.shape[1], max(map(abs, offsets))
    around = widened(x, length + 2 * reach, before=reach)
    nearest: Distances = np.min([around[:, reach + o : reach + o + length] for o in offsets], axis=0)
    return nearest + 1


def through_blocks(stack: StackConfig, x: Distances, *, centred: bool) -> Distances:
    for reach, dilation in zip(stack.reaches, stack.block_dilations, strict=True):
        last = reach // 2 if centred else 0
        x = convolved(x, range(last - reach, last + 1, dilation))
    return x


def recurrent(x: Distances, layers: int = 1) -> Distances:
    """Each position reads what stands below it, and itself one step ago."""
    steps = np.arange(x.shape[1], dtype=np.float64)
    for _ in range(layers):
        x = np.minimum.accumulate(x - steps, axis=1) + steps + 1
    return x


def bidirectional(x: Distances, layers: int) -> Distances:
    for _ in range(layers):
        x = np.minimum(recurrent(x), recurrent(x[:, ::-1])[:, ::-1])
    return x


def attended(x: Distances) -> Distances:
    """(N, S) -> (N, 1): every position at once"""
    nearest: Distances = x.min(axis=1, keepdims=True)
    return nearest + 1


def unfolded(config: TranslatorConfig | RecurrentTranslatorConfig, source: Distances) -> Distances:
    """(N, S) -> what the decoder stands on, (N, L)"""
    unfolding, length = config.unfolding, source.shape[1]
    assert isinstance(unfolding, UnfoldingConfig)
    x = widened(source, unfolding.read_length(length))
    if isinstance(config, TranslatorConfig) or config.encoder_kind == "convolutional":
        x = through_blocks(config.encoder, x, centred=True)
    else:
        x = bidirectional(x, config.layers)
    severed = isinstance(config, RecurrentTranslatorConfig) and config.severed
    positions = range(1 if severed else unfolding.unfolded_length(length))
    return x[:, [unfolding.source_position(position) for position in positions]]


def narrowed(x: Distances, *, levels: int) -> Distances:
    """Up a pyramid: each level is one column shorter than the one below."""
    for _ in range(levels):
        x = np.minimum(x[:, :-1], x[:, 1:]) + 1
    return x


def rctm_2_columns(config: Rctm2Config, source: Distances) -> Distances:
    """Up a pyramid, and down another one that gets wider."""
    length = source.shape[1]
    ngrams = max(1, length + 1 - (config.ngram or length // 2 + 1))
    x, wanted = narrowed(source, levels=length - ngrams), config.unfolding.unfolded_length(length - 1)
    for _ in range(wanted - ngrams):
        x = narrowed(widened(x, x.shape[1] + 2, before=1), levels=1)
    return x[:, :wanted]


def through_grid(config: GridConfig, source: Distances, target: Distances) -> Distances:
    """A cell reads its two tokens, and the cells before it along source and target."""
    grid = np.minimum(source[:, None, :], target[:, :, None])  # (N, T, S)
    for number in range(config.layers):
        if number:
            grid = grid[:, :, ::-1].copy()
        for t in range(grid.shape[1]):
            row = np.minimum(grid[:, t], grid[:, t - 1]) if t else grid[:, t]
            grid[:, t] = recurrent(row)
    return grid[:, :, -1]


def through_memory(config: NeuralGpuConfig, source: Distances, target: Distances) -> Distances:
    """All of a memory changes at each step: of the source, then of the target, which a tape brings in."""
    length, reach = source.shape[1], range(-NEURAL_GPU_REACH, NEURAL_GPU_REACH + 1)
    memory = widened(source, max(length, config.unfolding.unfolded_length(length - 1)))
    for _ in range(length * config.layers):
        memory = convolved(memory, reach)
    tape, outputs = np.full_like(memory, NEVER), []
    for step in range(target.shape[1]):
        place = min(step, memory.shape[1] - 1)
        tape[:, place] = target[:, step]
        for _ in range(config.layers):
            memory = convolved(np.minimum(memory, tape), reach)
        outputs.append(memory[:, place])
    return np.stack(outputs, axis=1)


def through_transformer(config: TransformerConfig, source: Distances, target: Distances) -> Distances:
    for _ in range(config.layers):
        source = np.broadcast_to(attended(source), source.shape)
    for _ in range(config.layers):
        target = np.minimum(np.minimum.accumulate(target, axis=1) + 1, attended(source))
    return target


def gradient_support(model: AnyTranslator, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """source (1, S), target (1, T) -> whether each output has a gradient by each input: (S, T), (T, T)"""
    read: dict[nn.Module, Tensor] = {}

    def watch(module: nn.Module, arguments: Any, vectors: Tensor) -> None:
        read[module] = vectors

    embeddings = embeddings_of(model)
    hooks = [embedding.register_forward_hook(watch) for embedding in embeddings]
    logits, _ = model(target, model.start(source))
    for hook in hooks:
        hook.remove()
    vectors = [read[embedding] for embedding in embeddings]
    columns: list[list[Tensor]] = [[], []]
    for output in (logits * torch.randn_like(logits)).sum(dim=2)[0]:
        gradients = torch.autograd.grad(output, vectors, retain_graph=True)
        for found, gradient, tokens in zip(columns, gradients, (source, target), strict=True):
            found.append(gradient[0, : tokens.shape[1]].any(dim=1))  # of the source without its padding
    return torch.stack(columns[0], dim=1), torch.stack(columns[1], dim=1)


def embeddings_of(model: AnyTranslator) -> tuple[nn.Module, nn.Module]:
    """Of source and target."""
    match model:
        case Translator():
            return model.encoder.embedding, model.decoder.embedding
        case RecurrentTranslator():
            source = model.encoder.embedding
            assert isinstance(source, nn.Module)
            return source, model.embedding
        case SourceAndTarget():
            return model.source_embedding, model.target_embedding
