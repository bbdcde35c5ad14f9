"""A model's folder: everything needed to use it, checked when it is opened.

    config.json          the network, and the checksum of every other file
    vocabulary.json      one vocabulary a side
    model.safetensors    the weights; large ones in shards, with the usual model.safetensors.index.json

Nothing is unpickled. A file that was cut short or changed is refused before it is used.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from bytenet import __version__
from bytenet.config import Reader, to_table
from bytenet.model import Model, ModelConfig, build
from bytenet.vocabulary import Vocabulary, vocabulary_from_json

FORMAT = 1
CONFIG, VOCABULARY, WEIGHTS = "config.json", "vocabulary.json", "model.safetensors"
INDEX = f"{WEIGHTS}.index.json"
SHARD_BYTES = 2 * 1024**3


def save_model(
    model: Model, vocabularies: Sequence[Vocabulary], folder: Path, *, shard_bytes: int = SHARD_BYTES
) -> None:
    """Write a model's folder, whole or not at all; another model there is replaced, anything else is kept.

    `vocabularies` is one for a language model, source and target for a translator.
    """
    _check_sizes(model.config, vocabularies)
    folder = folder.absolute()
    if folder.exists() and not is_model_folder(folder) and not (folder.is_dir() and not any(folder.iterdir())):
        raise ValueError(f"{folder}: exists and is not a model's folder; it is left as it is")
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    _save_weights(model.state_dict(), partial, shard_bytes)
    _write_json(partial / VOCABULARY, [vocabulary.to_json() for vocabulary in vocabularies])
    content = {"format": FORMAT, "bytenet": __version__, "model": to_table(model.config)}
    content["files"] = {file.name: _checksum(file) for file in sorted(partial.iterdir())}
    _write_json(partial / CONFIG, content | {"checksum": _content_checksum(content)})
    for file in partial.iterdir():
        with file.open("rb") as written:
            os.fsync(written.fileno())
    _replace(folder, partial)


def load_model(folder: Path, *, device: torch.device | str = "cpu") -> tuple[Model, tuple[Vocabulary, ...]]:
    """The model of a folder, ready to read, and its vocabularies; ValueError says what is wrong with a bad folder."""
    content = _read_config(folder)
    for name, checksum in content["files"].items():
        if _checksum(_existing(folder / name)) != checksum:
            raise ValueError(f"{folder / name}: cut short or altered: its checksum is not the one in {CONFIG}")
    config = load_model_config(folder)
    vocabularies = tuple(_read_vocabularies(folder / VOCABULARY))
    try:
        _check_sizes(config, vocabularies)
    except ValueError as error:
        raise ValueError(f"{folder / VOCABULARY}: {error}") from None
    with torch.device("meta"):
        model = build(config)
    weights = dict(_load_weights(folder, content["files"], device))
    _check_weights(model.state_dict(), weights, folder)
    model.load_state_dict(weights, assign=True)
    return model.eval(), vocabularies


def load_model_config(folder: Path) -> ModelConfig:
    """The network of a model's folder, without its weights."""
    content = _read_config(folder)
    config: ModelConfig = Reader(str(folder / CONFIG)).value(ModelConfig, content["model"], "model")
    return config


def is_model_folder(path: Path) -> bool:
    return (path / CONFIG).is_file()


def _read_config(folder: Path) -> dict[str, Any]:
    file = _existing(folder / CONFIG)
    content = _read_json(file)
    if not isinstance(content, dict) or not {"format", "files", "model", "checksum"} <= content.keys():
        raise ValueError(f"{file}: not the config of a bytenet model")
    if content["format"] != FORMAT:
        raise ValueError(f"{file}: format {content['format']}, but this version of bytenet reads format {FORMAT}")
    checksum = content.pop("checksum")
    if checksum != _content_checksum(content):
        raise ValueError(f"{file}: cut short or altered: its content does not match its own checksum")
    return content


def _read_vocabularies(file: Path) -> Iterator[Vocabulary]:
    for value in _read_json(file):
        try:
            yield vocabulary_from_json(value)
        except ValueError as error:
            raise ValueError(f"{file}: {error}") from None


def _check_sizes(config: ModelConfig, vocabularies: Sequence[Vocabulary]) -> None:
    expected = [vocabulary.size for vocabulary in config.vocabulary_configs]
    found = [len(vocabulary) for vocabulary in vocabularies]
    if expected != found:
        raise ValueError(f"vocabularies of {found} symbols for a model of {expected}")


def _save_weights(weights: Mapping[str, Tensor], folder: Path, shard_bytes: int) -> None:
    shards = list(_shards(weights, shard_bytes))
    if len(shards) == 1:
        save_file(shards[0], folder / WEIGHTS)
        return
    weight_map: dict[str, str] = {}
    for number, shard in enumerate(shards, start=1):
        name = f"model-{number:05}-of-{len(shards):05}.safetensors"
        save_file(shard, folder / name)
        weight_map |= dict.fromkeys(shard, name)
    total = sum(tensor.nbytes for tensor in weights.values())
    _write_json(folder / INDEX, {"metadata": {"total_size": total}, "weight_map": weight_map})


def _shards(weights: Mapping[str, Tensor], shard_bytes: int) -> Iterator[dict[str, Tensor]]:
    """Parts of at most so many bytes each, or of one tensor that alone has more."""
    shard: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        if shard and sum(t.nbytes for t in shard.values()) + tensor.nbytes > shard_bytes:
            yield shard
            shard = {}
        shard[name] = tensor.contiguous()
    yield shard


def _load_weights(folder: Path, names: Iterable[str], device: torch.device | str) -> Iterator[tuple[str, Tensor]]:
    for name in names:
        if name.endswith(".safetensors"):
            try:
                yield from load_file(folder / name, device=str(device)).items()
            except SafetensorError as error:
                raise ValueError(f"{folder / name}: not a safetensors file: {error}") from None


def _check_weights(expected: Mapping[str, Tensor], found: Mapping[str, Tensor], folder: Path) -> None:
    for name in expected.keys() | found.keys():
        if name not in found:
            raise ValueError(f"{folder}: the weights lack {name}")
        if name not in expected:
            raise ValueError(f"{folder}: the weights hold {name}, which the model does not have")
        if expected[name].shape != found[name].shape:
            shapes = f"{tuple(found[name].shape)}, the model's is {tuple(expected[name].shape)}"
            raise ValueError(f"{folder}: the shape of {name} is {shapes}")


def _existing(file: Path) -> Path:
    if not file.is_file():
        raise ValueError(f"{file}: no such file; a model's folder needs it")
    return file


def _read_json(file: Path) -> Any:
    try:
        return json.loads(file.read_bytes())
    except ValueError as error:
        raise ValueError(f"{file}: cut short or altered: {error}") from None


def _write_json(file: Path, content: Any) -> None:
    file.write_text(json.dumps(content, indent=1) + "\n", encoding="ascii")


def _checksum(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _content_checksum(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _replace(folder: Path, new: Path) -> None:
    """Put the new folder in the old one's place; a crash in between leaves at least one of the two."""
    if folder.exists():
        old = folder.with_name(f".{folder.name}.old")
        shutil.rmtree(old, ignore_errors=True)
        folder.rename(old)
        new.rename(folder)
        shutil.rmtree(old)
    else:
        new.rename(folder)
