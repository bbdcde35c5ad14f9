"""Configs as tables of keys: plain dictionaries to frozen dataclasses, each value checked, and back.

A mistake is a ValueError of one line that names the file, the option if one was at fault, the key and, for a key that
does not exist, the nearest one that does.
"""

import dataclasses
import difflib
import json
import tomllib
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeVar

T = TypeVar("T")


def to_table(config: Any) -> dict[str, Any]:
    """A config as plain dictionaries, lists, strings and numbers: what TOML and JSON hold."""
    table: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(config)))
    return {key: value for key, value in table.items() if value is not None}


class Reader:
    """Turns tables into dataclasses; `origin` is the file's name, for messages."""

    def __init__(self, origin: str) -> None:
        self.origin = origin
        self.overridden: dict[str, str] = {}  # path -> the option as it was typed
        self.kept: dict[str, set[str]] = {}  # path -> keys of a table whose kind an option has changed

    def override(self, table: dict[str, Any], option: str) -> None:
        """Put the value of `a.b=value` into the table; a word for a table is its kind, and changes that alone."""
        path, equals, text = option.partition("=")
        keys = path.strip().split(".")
        if not equals or not all(keys):
            raise ValueError(f"--set {option}: expected key=value, such as model.inner_channels=64")
        self.overridden[".".join(keys)] = f"--set {option}"
        for depth, key in enumerate(keys[:-1], start=1):
            if isinstance(table.get(key), str):
                table[key] = {"kind": table[key]}
            table = table.setdefault(key, {})
            if not isinstance(table, dict):
                raise ValueError(f"--set {option}: {'.'.join(keys[:depth])} is a value, not a table of keys")
        value, before = _toml_value(text.strip()), table.get(keys[-1])
        if isinstance(value, str) and isinstance(before, dict):
            self.kept[".".join(keys)] = set(before)
            value = before | {"kind": value}
        table[keys[-1]] = value
        self.kept.get(".".join(keys[:-1]), set()).discard(keys[-1])

    def read(self, cls: type[T], table: Mapping[str, Any], path: str = "") -> T:
        """The dataclass that a table describes."""
        hints = typing.get_type_hints(cls)
        fields = {field.name: field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
        for key in table:
            if key not in fields:
                raise self.error(_join(path, key), f"unknown key (did you mean {_nearest_key(cls, key, path)}?)")
        for key, field in fields.items():
            if key not in table and _is_required(field):
                raise self.error(_join(path, key), "is missing")
        values = {key: self.value(hints[key], value, _join(path, key)) for key, value in table.items()}
        try:
            return cls(**values)
        except ValueError as error:  # a dataclass's own check: its message begins with the field's name
            key, _, rest = str(error).partition(" ")
            raise self.error(_join(path, key), rest) from None

    def value(self, hint: Any, value: Any, path: str) -> Any:
        """The value that a type hint asks for: a number, a choice, a list, a dataclass or one of several."""
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if origin is types.UnionType:
            return self._one_of(arguments, value, path)
        if dataclasses.is_dataclass(hint):
            if not isinstance(value, Mapping):
                raise self.error(path, f"must be a table of keys, not {_show(value)}")
            return self.read(typing.cast(type, hint), value, path)
        if origin is Literal:
            if value not in arguments:
                raise self.error(path, f"must be one of {', '.join(map(_show, arguments))}, not {_show(value)}")
            return value
        if origin is tuple:
            if isinstance(value, str) and arguments[0] is str:
                value = [value]  # one file need not be a list
            if not isinstance(value, list):
                raise self.error(path, f"must be a list, not {_show(value)}")
            return tuple(self.value(arguments[0], item, f"{path}[{i}]") for i, item in enumerate(value))
        if hint is float and type(value) is int:
            return float(value)
        if type(value) is not hint:
            raise self.error(path, f"must be {_NAMES[hint]}, not {_show(value)}")
        return value

    def _one_of(self, classes: tuple[Any, ...], value: Any, path: str) -> Any:
        """A union of configs is told apart by `kind`, which one of them may lack; a word alone is a kind."""
        kinds = {_kind(cls): cls for cls in classes if cls is not types.NoneType}
        table = {"kind": value} if isinstance(value, str) else value
        kind = table.get("kind") if isinstance(table, Mapping) else None
        if kind is None and None in kinds:
            return self.value(kinds[None], table, path)
        names = tuple(name for name in kinds if name is not None)
        if kind is None:
            raise self.error(_join(path, "kind"), f"is missing: one of {', '.join(map(_show, names))}")
        cls = kinds[self.value(Literal[names], kind, _join(path, "kind"))]
        foreign = self.kept.get(path, set()) - {field.name for field in dataclasses.fields(cls)}
        return self.read(cls, {key: table[key] for key in table if key not in foreign}, path)

    def error(self, path: str, problem: str) -> ValueError:
        """One line: the file, the option that touched the key if there was one, the key, the problem."""
        for overridden, option in self.overridden.items():
            if f"{overridden}.".startswith(f"{path}.") or f"{path.replace('[', '.')}.".startswith(f"{overridden}."):
                return ValueError(f"{self.origin} ({option}): {path}: {problem}")
        return ValueError(f"{self.origin}: {path}: {problem}")


_NAMES = {str: "a string", int: "a whole number", float: "a number", bool: "true or false"}


def _kind(cls: Any) -> str | None:
    """The word that tells a config from the others of a union; None if it has none."""
    hint = typing.get_type_hints(cls).get("kind")
    return typing.get_args(hint)[0] if hint else None


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _show(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _nearest_key(cls: Any, key: str, path: str) -> str:
    """The key of the same name further down, else the most similar one beside it."""
    keys = list(_keys(cls))
    deeper = [k for k in keys if k.rpartition(".")[2] == key]
    beside = [k for k in keys if "." not in k]
    return _join(path, deeper[0] if deeper else difflib.get_close_matches(key, beside, n=1, cutoff=0.0)[0])


def _keys(cls: Any) -> Iterable[str]:
    for name, hint in typing.get_type_hints(cls).items():
        yield name
        for part in (hint, *typing.get_args(hint)):
            if dataclasses.is_dataclass(part):
                yield from (_join(name, key) for key in _keys(part))


def _toml_value(text: str) -> Any:
    """A value as TOML has it; what is not TOML is a string without its quotes."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def toml_lines(table: Mapping[str, Any], path: str = "") -> Iterable[str]:
    for key, value in table.items():
        if not isinstance(value, dict):
            yield f"{key} = {_show(value)}"  # strings, numbers, booleans and lists of them: the same in JSON and TOML
    for key, value in table.items():
        if isinstance(value, dict):
            yield f"\n[{_join(path, key)}]"
            yield from toml_lines(value, _join(path, key))
