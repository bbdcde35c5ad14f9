"""A model's weights on disk: safetensors, in one file or in shards, in float32, in bfloat16 or in int8.

In int8, a matrix NAME is stored with one scale a row, NAME.scale, which the row's numbers are to be multiplied by. A
row makes one output channel, of a convolution from all its taps, or embeds one symbol or n-gram; scales by column or
by tap gained nothing (docs/results.md). Vectors stay in float32. What is loaded is float32 again: nothing else knows
of int8.
"""

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

Precision = Literal["float32", "bfloat16", "int8"]

WEIGHTS = "model.safetensors"
INDEX = f"{WEIGHTS}.index.json"
SHARD_BYTES = 2_000_000_000
HEADER_BYTES = 160  # more than a tensor takes in the header of a file, its name apart
SCALE = ".scale"  # names no parameter: a module that has a parameter cannot have a part of the same name
LARGEST = 127  # not -128, which has no opposite


def in_precision(weights: Mapping[str, Tensor], precision: Precision) -> dict[str, Tensor]:
    """The tensors to store weights by; ValueError names the first that int8 cannot hold."""
    if precision != "int8":
        return {name: tensor.to(getattr(torch, precision)) for name, tensor in weights.items()}
    tensors: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        tensors[name] = tensor.to("cpu", torch.float32)
        if tensor.ndim > 1:
            tensors[name], scale = quantize(tensors[name])
            if not torch.isfinite(LARGEST * scale).all():
                raise ValueError(f"{name} has numbers that are not finite, or nearly so: int8 cannot hold them")
            tensors[name + SCALE] = scale
    return tensors


def quantize(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Float32 (N, ...) on the CPU -> int8 (N, ...), scales (N, 1, ...), at most half a scale away.

    To store what has been stored before loses nothing: the scale s = L / 127 of any largest number L is such that
    127·s / 127 rounds to s again. Not so on a GPU, where a division by 127 is a product with 1 / 127.
    """
    largest = matrix.abs().amax(dim=tuple(range(1, matrix.ndim)), keepdim=True)
    scale = (largest / LARGEST).clamp(min=torch.finfo(torch.float32).tiny)  # also of a row of zeros
    return (matrix / scale).round().to(torch.int8), scale


def expanded(tensors: Mapping[str, Tensor], folder: Path) -> dict[str, Tensor]:
    """What `in_precision` stored: int8 times its scales; all else as it is."""
    weights = dict(tensors)
    for name, tensor in tensors.items():
        if tensor.dtype == torch.int8:
            if name + SCALE not in weights:
                raise ValueError(f"{folder}: the weights lack {name + SCALE}, which the int8 of {name} needs")
            scale = weights.pop(name + SCALE)
            _check_scale(scale, tensor, f"{folder}: {name + SCALE}")
            weights[name] = tensor * scale
    return weights


def _check_scale(scale: Tensor, stored: Tensor, place: str) -> None:
    shape = (*stored.shape[:1], *(1 for _ in stored.shape[1:]))
    if (scale.dtype, scale.shape) != (torch.float32, shape):
        found = f"{type_name(scale)} of the shape {tuple(scale.shape)}"
        raise ValueError(f"{place} is {found}, but must be float32 of the shape {shape}")
    if not (torch.isfinite(scale) & (scale > 0)).all():
        raise ValueError(f"{place} has scales that are not finite or not above 0")


def check_weights(expected: Mapping[str, Tensor], found: Mapping[str, Tensor], folder: Path) -> None:
    """ValueError names the first tensor that is missing, is none of the model's, or is of another kind."""
    for name in sorted(expected.keys() | found.keys()):
        if name not in found:
            raise ValueError(f"{folder}: the weights lack {name}")
        if name not in expected:
            raise ValueError(f"{folder}: the weights hold {name}, which the model does not have")
        if expected[name].shape != found[name].shape:
            shapes = f"{tuple(found[name].shape)}, the model's is {tuple(expected[name].shape)}"
            raise ValueError(f"{folder}: the shape of {name} is {shapes}")
        if not found[name].is_floating_point():
            raise ValueError(f"{folder}: {name} is {type_name(found[name])}, which is no type of weights")


def save_weights(tensors: Mapping[str, Tensor], folder: Path, shard_bytes: int) -> None:
    """Write one file, or several and the index that names the file of each tensor."""
    shards = list(_shards(tensors, shard_bytes))
    if len(shards) == 1:
        save_tensors(shards[0], folder / WEIGHTS)
        return
    weight_map: dict[str, str] = {}
    for number, shard in enumerate(shards, start=1):
        name = f"model-{number:05}-of-{len(shards):05}.safetensors"
        save_tensors(shard, folder / name)
        weight_map |= dict.fromkeys(shard, name)
    total = sum(tensor.nbytes for tensor in tensors.values())
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (folder / INDEX).write_text(json.dumps(index, indent=1) + "\n", encoding="ascii")


def _shards(tensors: Mapping[str, Tensor], shard_bytes: int) -> Iterator[dict[str, Tensor]]:
    """Parts whose files have at most so many bytes each, or one tensor that alone has more."""
    shard: dict[str, Tensor] = {}
    size = 0
    for name, tensor in tensors.items():
        more = tensor.nbytes + len(name) + HEADER_BYTES
        if shard and size + more > shard_bytes:
            yield shard
            shard, size = {}, 0
        shard[name] = tensor
        size += more
    yield shard


def save_tensors(tensors: Mapping[str, Tensor], file: Path) -> None:
    """Write a safetensors file; what the system says against it comes as the OSError that it is."""
    try:
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, file)
    except SafetensorError as error:
        if number := re.search(r"os error (\d+)", str(error)):
            code = int(number[1])
            raise OSError(code, os.strerror(code), str(file)) from None
        raise
    file.chmod(0o666 & ~_umask())  # safetensors lets only the owner read


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def load_tensors(files: Iterable[Path], device: torch.device | str = "cpu") -> dict[str, Tensor]:
    """All that is stored in these files, as it is stored."""
    tensors: dict[str, Tensor] = {}
    for file in files:
        try:
            tensors |= load_file(file, device=str(device))
        except SafetensorError as error:
            raise ValueError(f"{file}: not a safetensors file: {error}") from None
    return tensors


def bytes_by_type(tensors: Mapping[str, Tensor]) -> dict[str, int]:
    """How many bytes are stored in each precision, the most first."""
    sizes: Counter[str] = Counter()
    for tensor in tensors.values():
        sizes[type_name(tensor)] += tensor.nbytes
    return dict(sizes.most_common())


def type_name(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
