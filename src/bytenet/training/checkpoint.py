"""Checkpoints: a model's folder with what training needs to go on as if it had never stopped.

last/       the model as it is (its average, if one is kept), and
            training.safetensors: the optimisers' state, the heads that look further ahead, and the plain weights
            beside an average
            training.json: the step, the seconds used, the best validation so far
previous/   the one before, for the case that the last is damaged
best/       the model that validated best
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.optim import Optimizer

from bytenet.decoding.config import DecodingConfig
from bytenet.model import Model
from bytenet.model_folder import BEST, LAST, check_folder, is_model_folder, load_weights, save_model
from bytenet.training.distributed import like, whole
from bytenet.vocabulary import Vocabulary
from bytenet.weights import save_tensors

PREVIOUS = "previous"
TENSORS, PROGRESS = "training.safetensors", "training.json"


@dataclass
class Progress:
    """How far a run has come."""

    step: int = 0
    """Updates made."""
    seconds: float = 0.0
    """Wall-clock time used, over all sessions."""
    best_bits: float | None = None
    """The best validation, in bits a symbol."""


@dataclass(frozen=True)
class Checkpoint:
    """What `Checkpoints.load` found."""

    progress: Progress
    weights: dict[str, Tensor]
    average: dict[str, Tensor] | None
    optimizers: dict[str, Tensor]
    heads: dict[str, Tensor]
    """Of the targets beyond the next; not part of the model."""
    notes: tuple[str, ...]
    """About a checkpoint that could not be used."""


class Checkpoints:
    """The checkpoints of a run's folder; with several processes, every one takes part and the first writes."""

    def __init__(
        self,
        run: Path,
        model: Model,
        vocabularies: Sequence[Vocabulary],
        *,
        heads: nn.Module,
        decoding: DecodingConfig = DecodingConfig(),
        writes: bool,
    ) -> None:
        self.run, self.model, self.vocabularies, self.writes = run, model, vocabularies, writes
        self.heads, self.decoding = heads, decoding

    def save(self, progress: Progress, optimizers: Sequence[Optimizer], average: Mapping[str, Tensor] | None) -> None:
        """Replace the last checkpoint; the one before it stays as the previous one."""
        weights = {name: whole(tensor) for name, tensor in self.model.state_dict().items()}
        tensors = optimizer_tensors(optimizers) | {f"heads.{name}": t for name, t in self.heads.state_dict().items()}
        if average is not None:
            tensors |= {f"weights.{name}": tensor for name, tensor in weights.items()}
        if not self.writes:
            return
        if not all(torch.isfinite(tensor).all() for tensor in weights.values()):
            raise FloatingPointError(f"step {progress.step}: a weight is not a finite number; this is not saved")

        def also(folder: Path) -> None:
            save_tensors(tensors, folder / TENSORS)
            (folder / PROGRESS).write_text(json.dumps(asdict(progress)), encoding="ascii")

        self._save(LAST, average or weights, also=also, keep=self.run / PREVIOUS)

    def save_best(self, average: Mapping[str, Tensor] | None) -> None:
        weights = average or {name: whole(tensor) for name, tensor in self.model.state_dict().items()}
        if self.writes:
            self._save(BEST, weights)

    def _save(self, name: str, weights: Mapping[str, Tensor], **options: Any) -> None:
        folder = self.run / name
        save_model(self.model, self.vocabularies, folder, decoding=self.decoding, weights=weights, **options)

    def load(self) -> Checkpoint | None:
        """The last checkpoint, or the previous one if that is damaged; None if there is none."""
        notes: list[str] = []
        for name in (LAST, PREVIOUS):
            folder = self.run / name
            if is_model_folder(folder):
                try:
                    return self._load(folder, tuple(notes))
                except (ValueError, OSError) as error:
                    notes.append(f"{error}; trying the checkpoint before it")
        if notes:
            raise ValueError(f"{self.run}: no checkpoint can be used: {notes[-1].partition(';')[0]}")
        return None

    def _load(self, folder: Path, notes: tuple[str, ...]) -> Checkpoint:
        check_folder(folder)
        model = load_weights(folder)
        tensors = load_file(folder / TENSORS)
        plain, heads = part_of(tensors, "weights"), part_of(tensors, "heads")
        return Checkpoint(
            progress=Progress(**json.loads((folder / PROGRESS).read_text())),
            weights=plain or model,
            average=model if plain else None,
            optimizers={name: t for name, t in tensors.items() if name[0].isdigit()},
            heads=heads,
            notes=notes,
        )


def part_of(tensors: Mapping[str, Tensor], part: str) -> dict[str, Tensor]:
    """Those named "part.name", by their names."""
    return {name.removeprefix(f"{part}."): t for name, t in tensors.items() if name.startswith(f"{part}.")}


def optimizer_tensors(optimizers: Sequence[Optimizer]) -> dict[str, Tensor]:
    """The state of all optimisers, flat: "number of the optimiser . number of the parameter . name"."""
    return {
        f"{number}.{index}.{name}": whole(value)
        for number, optimizer in enumerate(optimizers)
        for index, state in optimizer.state_dict()["state"].items()
        for name, value in state.items()
    }


def restore_optimizers(optimizers: Sequence[Optimizer], tensors: Mapping[str, Tensor]) -> None:
    """The inverse of `optimizer_tensors`."""
    for number, optimizer in enumerate(optimizers):
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        state: dict[int, dict[str, Tensor]] = {}
        for key, value in tensors.items():
            owner, index, name = key.split(".")
            if int(owner) == number:
                shaped = value.ndim > 0  # not Adam's count of its steps
                state.setdefault(int(index), {})[name] = like(value, parameters[int(index)]) if shaped else value
        optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
