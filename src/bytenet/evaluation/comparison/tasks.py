"""Equal training: each model learns to copy or to reverse digits, and is asked for strings longer than it ever saw."""

import contextlib
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from bytenet.config import Recipe
from bytenet.data.config import DigitsConfig
from bytenet.data.digits import transformed
from bytenet.data.pairs import read_tsv
from bytenet.decoding.beam_search import BeamConfig
from bytenet.decoding.engine import choose_engine
from bytenet.decoding.translation import search_all
from bytenet.evaluation.comparison.rows import Row
from bytenet.model import AnyTranslator, LanguageModel
from bytenet.model_folder import load_model
from bytenet.training.config import TrainingConfig
from bytenet.training.trainer import train
from bytenet.vocabulary import Vocabulary

Task = Literal["copy", "reverse"]
TASKS: tuple[Task, ...] = ("copy", "reverse")
BEAM = 12
"""The paper's."""


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """What every model gets."""

    max_length: int = 6
    """Strings to learn from have 1 to so many digits."""
    pairs: int = 50_000
    steps: int = 1500
    lengths: tuple[int, ...] = (2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20)
    """Of the strings to test with, none of which was learnt from."""
    strings: int = 200
    """Of each length, if there are so many."""

    def recipe(self, row: Row, task: Task) -> Recipe:
        """That of recipes/compare-copy.toml and compare-reverse.toml."""
        return Recipe(
            description=f"{row.name}: {task} up to {self.max_length} digits",
            model=row.config,
            data=DigitsConfig(task=task, max_length=self.max_length, pairs=self.pairs),
            training=TrainingConfig(
                steps=self.steps,
                batch_characters=1200,
                optimizer="adamw",
                learning_rate=0.003,
                schedule="linear",
                warmup=0.05,
                clip=1.0,
                evaluate_every=500,
                save_every=500,
            ),
        )


def alone() -> None:
    """What a process does first that learns beside others: one thread, and Ctrl-C is for the one who started it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)


def learn_or_leave(row: Row, task: Task, lesson: Lesson, run: Path) -> dict[str, Any]:
    """`learn`; a signal ends the process and not the lesson alone, after which it would be given the next one."""
    try:
        return learn(row, task, lesson, run)
    except KeyboardInterrupt:
        os._exit(130)


def learn(row: Row, task: Task, lesson: Lesson, run: Path) -> dict[str, Any]:
    """Train into a run's folder and test: accuracies by length."""
    run.parent.mkdir(parents=True, exist_ok=True)
    with (run.parent / f"{run.name}.log").open("w", encoding="utf-8") as log, contextlib.redirect_stderr(log):
        outcome = train(lesson.recipe(row, task), run, device="cpu")
    if outcome.stopped_by:
        raise KeyboardInterrupt
    model, vocabularies = load_model(run)
    assert not isinstance(model, LanguageModel)
    learnt = {pair.source for pair in read_tsv(run / "cache" / "train.tsv")}
    by_length = {}
    for length in lesson.lengths:
        sources = unseen(length, lesson.strings, learnt)
        by_length[str(length)] = accuracy(model, vocabularies, sources, task, beam=1)
        if length == lesson.max_length:
            with_beam = accuracy(model, vocabularies, sources, task, beam=BEAM)
    return {
        "by_length": by_length,
        "exact_with_beam": with_beam["exact"],
        "seconds": outcome.progress.seconds,
        "validation_bits": outcome.progress.best_bits,
    }


def unseen(length: int, number: int, learnt: set[str]) -> list[str]:
    """Strings of digits that were not learnt from; fewer where there are not so many."""
    generator = np.random.default_rng(length)
    found: set[str] = set()
    for _ in range(100 * number):
        if len(found) == number:
            break
        found.add("".join(map(str, generator.integers(0, 10, length))))
        found -= learnt
    return sorted(found)


def accuracy(
    model: AnyTranslator, vocabularies: tuple[Vocabulary, ...], sources: list[str], task: Task, *, beam: int
) -> dict[str, float]:
    """The share of strings written to the letter, and of digits that stand where they should."""
    targets = [transformed(source, task) for source in sources]
    ids = [vocabularies[0].encode_array(source) for source in sources]
    limits = [len(target) + 1 for target in targets]
    exact = right = 0
    for number, (best, *_) in search_all(model, choose_engine(model), ids, limits, BeamConfig(beam=beam)):
        written, target = vocabularies[1].decode(best.tokens), targets[number]
        exact += best.ended and written == target
        right += sum(a == b for a, b in zip(written, target, strict=False))
    return {"exact": exact / len(sources), "digits": right / sum(map(len, targets))}
