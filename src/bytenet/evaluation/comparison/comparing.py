"""From nothing to the measured table: count, walk, clock, train, and write down what is known so far."""

import multiprocessing
import os
import platform
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch

from bytenet import __version__
from bytenet.describe import count_parameters
from bytenet.device import usable_processors
from bytenet.evaluation.comparison import Results, cost, tasks
from bytenet.evaluation.comparison.forms import CONSTANT, fit_form
from bytenet.evaluation.comparison.paths import Distances, gradient_support, shortest_paths
from bytenet.evaluation.comparison.report import write_report
from bytenet.evaluation.comparison.rows import ROWS, Cells, Row, deepened, unfolded_as
from bytenet.model import AnyTranslator, AnyTranslatorConfig, LanguageModel, build
from bytenet.model.translator import UnfoldingConfig
from bytenet.talk import Talk
from bytenet.training.metrics import METRICS, read_metrics

COUNTED_UNFOLDING = UnfoldingConfig(a=1.0, b=2.0, multiple=1)
"""As in training, but for the multiple, which would make steps of a polynomial."""
WALKED_UNFOLDING = UnfoldingConfig(a=1.2, b=0.0, multiple=1)
"""The paper's, so that a target may be longer than its source."""
WALKED = [(source, source * tenths // 10) for source in (20, 30, 40) for tenths in (8, 9, 10, 11, 12)]
"""Source and target, all within that unfolding."""
SUPPORT = (20, 24)
"""Lengths at which gradients are compared with paths: some outputs stand behind the end of the representation."""
SOURCES = (5, 9, 13)
"""Lengths for the size of what stands for a source."""
MOST_PROCESSES = 8


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How much is measured."""

    lesson: tasks.Lesson
    clock_seconds: float = 0.6
    """The longest texts for the clock take about as long."""
    clock_repeats: int = 4
    quick: bool = False


FULL = Plan(lesson=tasks.Lesson())
QUICK = Plan(
    lesson=tasks.Lesson(max_length=4, pairs=5000, steps=250, lengths=(2, 3, 4, 5, 6, 8), strings=50),
    clock_seconds=0.1,
    clock_repeats=1,
    quick=True,
)


def compare(out: Path, plan: Plan, talk: Talk) -> Results:
    """Measure every cell into a folder; if it is interrupted, what is known by then is written too."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"{out}: exists; another --out begins a new comparison")
    out.mkdir(parents=True, exist_ok=True)
    begun = time.perf_counter()
    results: Results = {
        "rows": [first_facts(row) for row in ROWS],
        "plan": asdict(plan),
        "machine": {"processor": platform.machine(), "processors": usable_processors(), "load": list(os.getloadavg())},
        "versions": {"bytenet": __version__, "torch": torch.__version__},
    }
    try:
        with one_thread():
            measure_properties(results, talk)
            measure_clock(results, plan, talk)
        measure_learning(results, plan, out, talk)
    finally:
        results["seconds"] = time.perf_counter() - begun
        write_report(results, out)
        talk.say(f"{out}: table.md, results.json, time.png, accuracy.png")
    return results


def first_facts(row: Row) -> Results:
    return {"name": row.name, "networks": row.networks, "stated": row.stated, "paper": asdict(row.paper)}


@contextmanager
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def new_model(config: AnyTranslatorConfig) -> AnyTranslator:
    torch.manual_seed(0)
    model = build(config).eval()
    assert not isinstance(model, LanguageModel)
    return model


def measure_properties(results: Results, talk: Talk) -> None:
    """All that needs neither a clock nor training."""
    with talk.bar("counting and walking", total=len(ROWS)):
        for number, (row, found) in enumerate(zip(ROWS, results["rows"], strict=True)):
            talk.update(number, f"counting and walking: {row.name}")
            measured = properties(row.config)
            found.update(measured, agrees=agreement(row.paper, Cells(**measured["measured"])))


def properties(config: AnyTranslatorConfig) -> Results:
    """Operations, sizes and paths of one model."""
    model = new_model(unfolded_as(config, COUNTED_UNFOLDING))
    terms = cost.fit_terms(lambda source, target: cost.count_operations(model, source, target))
    numbers = cost.numbers_by_length(model, SOURCES)
    paths = path_forms(unfolded_as(deepened(config), WALKED_UNFOLDING))
    return {
        "parameters": count_parameters(model),
        "operations": terms,
        "exponents": {name: cost.far_points(terms, name).exponent() for name in cost.DIRECTIONS},
        "numbers": dict(zip(map(str, SOURCES), numbers, strict=True)),
        "paths": paths,
        "gradients": compare_gradients(unfolded_as(config, COUNTED_UNFOLDING)),
        "measured": {
            "time": cost.leading(terms),
            "resolution": "yes" if numbers[-1] > numbers[0] else "no",
            "path_source": paths["source"]["cell"],
            "path_target": paths["target"]["cell"],
        },
    }


def path_forms(config: AnyTranslatorConfig) -> Results:
    """Of the farthest pairs of an input and an output, and of each source token's nearest output."""
    walked = {lengths: shortest_paths(config, *lengths) for lengths in WALKED}
    forms = {
        "source": fit_form({lengths: farthest(paths.from_source) for lengths, paths in walked.items()}),
        "target": fit_form({lengths: farthest(paths.from_target) for lengths, paths in walked.items()}),
        "nearest": fit_form({lengths: farthest(paths.from_source.min(axis=1)) for lengths, paths in walked.items()}),
    }
    reached = np.mean([np.isfinite(paths.from_source).mean() for paths in walked.values()])
    found: Results = {
        name: {"cell": form.cell, "formula": form.formula, "error": form.error} for name, form in forms.items()
    }
    return found | {"reached": float(reached)}


def farthest(distances: Distances) -> float:
    return float(distances[np.isfinite(distances)].max())


def compare_gradients(config: AnyTranslatorConfig) -> Results:
    """Whether an output has a gradient by an input just where there is a path."""
    source, target = SUPPORT
    model = new_model(config).double()
    found = gradient_support(model, cost.random_texts(source), cost.random_texts(target))
    paths = shortest_paths(config, source, target)
    expected = (paths.from_source, paths.from_target)
    same = [bool((np.isfinite(e) == f.numpy()).all()) for e, f in zip(expected, found, strict=True)]
    return {"agree": all(same), "source": float(found[0].double().mean()), "target": float(found[1].double().mean())}


def agreement(paper: Cells, measured: Cells) -> dict[str, bool]:
    """Cell by cell; a constant is a constant, whatever it is called."""

    def path(cell: str) -> str:
        return CONSTANT if cell in ("1", "c") else cell

    return {
        "time": paper.time.replace("c", "") == measured.time,
        "resolution": paper.resolution == measured.resolution,
        "path_source": path(paper.path_source) == measured.path_source,
        "path_target": path(paper.path_target) == measured.path_target,
    }


def measure_clock(results: Results, plan: Plan, talk: Talk) -> None:
    """Seconds for growing texts, one model after the other."""
    total, done = len(ROWS) * len(cost.DIRECTIONS), 0
    with talk.bar("reading by the clock", total=total):
        for row, found in zip(ROWS, results["rows"], strict=True):
            model, clock = new_model(unfolded_as(row.config, COUNTED_UNFOLDING)), {}
            for direction in cost.DIRECTIONS:
                talk.update(done, f"by the clock: {row.name}, {direction}")
                points = cost.clock(model, direction, longest_seconds=plan.clock_seconds, repeats=plan.clock_repeats)
                clock[direction] = asdict(points) | {"exponent": points.exponent()}
                done += 1
            found["clock"] = clock


def measure_learning(results: Results, plan: Plan, out: Path, talk: Talk) -> None:
    """Every model and task, as many at once as there are processors, one thread each."""
    processes = min(usable_processors(), MOST_PROCESSES)
    spawn = multiprocessing.get_context("spawn")
    others = multiprocessing.active_children()
    with ProcessPoolExecutor(processes, mp_context=spawn, initializer=tasks.alone) as pool:
        lessons: dict[Future[Results], tuple[Results, tasks.Task, Path]] = {}
        for task in tasks.TASKS:
            for row, found in zip(ROWS, results["rows"], strict=True):
                run = out / "models" / task / row.name.lower().replace(",", "").replace(" ", "-")
                lessons[pool.submit(tasks.learn_or_leave, row, task, plan.lesson, run)] = found, task, run
        try:
            watch_lessons(lessons, plan.lesson.steps, talk)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for child in set(multiprocessing.active_children()).difference(others):
                child.terminate()
            raise


def watch_lessons(lessons: dict[Future[Results], tuple[Results, tasks.Task, Path]], steps: int, talk: Talk) -> None:
    """Put results where they belong as they come in."""
    open_lessons, said = set(lessons), ""
    with talk.bar("training", total=len(lessons)):
        while open_lessons:
            done, open_lessons = wait(open_lessons, timeout=1, return_when=FIRST_COMPLETED)
            for lesson in done:
                found, task, _ = lessons[lesson]
                found.setdefault("tasks", {})[task] = lesson.result()
                said = f"; {found['name']} can {task} {lesson.result()['exact_with_beam']:.0%}"
            under_way = sum(steps_made(lessons[lesson][2]) for lesson in open_lessons) / steps
            finished = len(lessons) - len(open_lessons)
            talk.update(finished + under_way, f"trained {finished} of {len(lessons)}{said}")


def steps_made(run: Path) -> int:
    lines = read_metrics(run / METRICS)
    return int(lines[-1]["step"]) if lines else 0
