"""A model's folder: everything needed to use it, checked when it is opened.

    config.json          the network, and the checksum of every other file
    vocabulary.json      one vocabulary a side
    model.safetensors    the weights; large ones in shards, with the usual model.safetensors.index.json (weights.py)

A run's folder holds such folders, `best` and `last`, and stands for the best. Nothing is unpickled. A file that was cut
short or changed is refused before it is used.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bytenet import __version__
from bytenet.decoding.config import DecodingConfig
from bytenet.model import Model, ModelConfig, build
from bytenet.tables import Reader, to_table
from bytenet.vocabulary import Vocabulary, vocabulary_from_json
from bytenet.weights import (
    SHARD_BYTES,
    Precision,
    bytes_by_type,
    check_weights,
    expanded,
    in_precision,
    load_tensors,
    save_weights,
)

FORMAT = 1
CONFIG, VOCABULARY = "config.json", "vocabulary.json"
BEST, LAST = "best", "last"
PRETRAINED = Path(__file__).parent / "pretrained"


def save_model(
    model: Model,
    vocabularies: Sequence[Vocabulary],
    folder: Path,
    *,
    decoding: DecodingConfig = DecodingConfig(),
    weights: Mapping[str, Tensor] | None = None,
    precision: Precision | None = None,
    shard_bytes: int = SHARD_BYTES,
    also: Callable[[Path], None] = lambda folder: None,
    keep: Path | None = None,
) -> None:
    """Write a model's folder, whole or not at all; another model there is replaced, anything else is left alone.

    `vocabularies` is one for a language model, source and target for a translator. `weights` stand in for the model's
    own, `also` writes further files into the folder, and a model that is replaced moves to `keep`. Weights are stored
    as they are unless a `precision` is given; no file of them is larger than `shard_bytes`, but for a single tensor.
    """
    _check_sizes(model.config, vocabularies)
    tensors = model.state_dict() if weights is None else weights
    if precision is not None:
        tensors = in_precision(tensors, precision)
    folder = folder.absolute()
    if folder.exists() and not is_model_folder(folder) and not (folder.is_dir() and not any(folder.iterdir())):
        raise ValueError(f"{folder}: exists and is not a model's folder; it is left as it is")
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        save_weights(tensors, partial, shard_bytes)
        _write_json(partial / VOCABULARY, [vocabulary.to_json() for vocabulary in vocabularies])
        also(partial)
        content = {"format": FORMAT, "bytenet": __version__, "model": to_table(model.config)}
        content["decoding"] = to_table(decoding)
        content["files"] = {file.name: _checksum(file) for file in sorted(partial.iterdir())}
        _write_json(partial / CONFIG, content | {"checksum": _content_checksum(content)})
        for path in (*partial.iterdir(), partial):
            _sync(path)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    _replace(folder, partial, keep)


def load_model(folder: Path, *, device: torch.device | str = "cpu") -> tuple[Model, tuple[Vocabulary, ...]]:
    """The model of a folder, or the best of a run's folder, ready to read, and its vocabularies.

    ValueError says what is wrong with a folder that is damaged or none.
    """
    folder = find_model(folder)
    check_folder(folder)
    config = load_model_config(folder)
    vocabularies = load_vocabularies(folder)
    try:
        _check_sizes(config, vocabularies)
    except ValueError as error:
        raise ValueError(f"{folder / VOCABULARY}: {error}") from None
    with torch.device("meta"):
        model = build(config)
    weights = load_weights(folder, device)
    check_weights(model.state_dict(), weights, folder)
    model.load_state_dict(weights, assign=True)
    return model.eval(), vocabularies


def load_model_config(folder: Path) -> ModelConfig:
    """The network of a model's folder, or of a run's, without its weights."""
    folder = find_model(folder)
    content = _read_config(folder)
    config: ModelConfig = Reader(str(folder / CONFIG)).value(ModelConfig, content["model"], "model")
    return config


def load_decoding_config(folder: Path, overrides: Iterable[str] = ()) -> DecodingConfig:
    """How the model of a folder, or of a run's, wants to be used; each override is `decoding.a=value`."""
    folder = find_model(folder)
    reader, table = Reader(str(folder / CONFIG)), {"decoding": _read_config(folder).get("decoding", {})}
    for override in overrides:
        reader.override(table, override)
    if other := table.keys() - {"decoding"}:
        raise reader.error(min(other), "cannot be changed in a model that is there; keys of decoding can")
    config: DecodingConfig = reader.value(DecodingConfig, table["decoding"], "decoding")
    return config


def load_vocabularies(folder: Path) -> tuple[Vocabulary, ...]:
    """Those of the model of a folder, or of a run's."""
    return tuple(_read_vocabularies(find_model(folder) / VOCABULARY))


def check_folder(folder: Path) -> dict[str, Any]:
    """The content of the config, after every file has been seen to be as it was written."""
    content = _read_config(folder)
    for name, checksum in content["files"].items():
        if _checksum(_existing(folder / name)) != checksum:
            raise ValueError(f"{folder / name}: cut short or altered: its checksum is not the one in {CONFIG}")
    return content


def find_named(name: str | Path) -> Path:
    """The folder of a built-in model by its name, or the folder itself."""
    folder = PRETRAINED / name if str(name) in built_in() else Path(name)
    if not folder.is_dir():
        known = ", ".join(built_in()) or "none in this version"
        raise ValueError(f"{name}: neither a folder nor a built-in model (built in: {known})")
    return folder


def built_in() -> list[str]:
    """The names of the models that come with the package."""
    return sorted(path.name for path in PRETRAINED.glob("*") if is_model_folder(path))


def find_model(folder: Path) -> Path:
    """The folder itself, or in a run's folder the model that validated best, or the last one."""
    if not folder.is_dir():
        raise ValueError(f"{folder}: no such folder")
    for candidate in (folder, folder / BEST, folder / LAST):
        if is_model_folder(candidate):
            return candidate
    raise ValueError(f"{folder}: neither a model's folder nor a run's: there is no {CONFIG}")


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


def load_weights(folder: Path, device: torch.device | str = "cpu") -> dict[str, Tensor]:
    """The weights of a model's folder, whatever they are stored in."""
    return expanded(_stored(folder, device), folder)


def stored_bytes(folder: Path) -> dict[str, int]:
    """How many bytes the weights of a model's folder, or of a run's, take in each precision."""
    return bytes_by_type(_stored(find_model(folder), "cpu"))


def _stored(folder: Path, device: torch.device | str) -> dict[str, Tensor]:
    files = _read_config(folder)["files"]
    names = (name for name in files if name.startswith("model") and name.endswith(".safetensors"))
    return load_tensors((_existing(folder / name) for name in names), device)


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


def _replace(folder: Path, new: Path, keep: Path | None) -> None:
    """Put the new folder in the old one's place; a crash in between leaves at least one of the two."""
    old = keep or folder.with_name(f".{folder.name}.old")
    if folder.exists():
        shutil.rmtree(old, ignore_errors=True)
        folder.rename(old)
    new.rename(folder)
    _sync(folder.parent)
    if not keep:
        shutil.rmtree(old, ignore_errors=True)


def _sync(path: Path) -> None:
    """Wait until a file, or a folder's list of names, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
