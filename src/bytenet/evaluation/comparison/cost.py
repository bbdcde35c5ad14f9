"""Columns Time and RP: what reading costs, counted and by the clock, and how much stands for a source.

Counted are the matrix products, a multiplication and an addition each. Their number is a polynomial of both lengths of
degree 2 at most: a few short texts give it exactly, and with it the cost of texts of any length.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from bytenet.model import AnyTranslator
from bytenet.model.state import tensors_of
from bytenet.vocabulary import UNKNOWN

TERMS = {"1": (0, 0), "S": (1, 0), "T": (0, 1), "S²": (2, 0), "ST": (1, 1), "T²": (0, 2)}
"""The powers of both lengths in each term."""
COUNTED = [(5, 5), (9, 5), (13, 5), (5, 9), (5, 13), (9, 9)]
"""Odd, because an RCTM 2 takes half of a source with its END."""
CHECKED = (21, 17)
FAR = [2**power for power in range(13, 18)]
"""Here the highest terms are nearly all of the cost."""
FIXED = 16
"""The other length, where one grows."""
SHORTEST, LONGEST = 16, 2048
"""Lengths for the clock: longer texts leave the processor's caches, which is no property of a model."""
ROWS = 16
"""So many texts at once: with one, the clock shows what it takes to call an operation."""
FITTED = 4
"""So many of the longest texts give an exponent."""

DIRECTIONS = ("source", "target", "both")
"""Which length grows."""


def lengths_towards(direction: str, length: int) -> tuple[int, int]:
    """Source and target."""
    return (length if direction != "target" else FIXED), (length if direction != "source" else FIXED)


@dataclass(frozen=True)
class Points:
    """What texts cost."""

    lengths: list[int]
    costs: list[float]

    def exponent(self) -> float | None:
        """The slope of a line through the logarithms of the longest texts; None for fewer than two."""
        if len(self.lengths) < 2:
            return None
        return float(np.polyfit(np.log(self.lengths[-FITTED:]), np.log(self.costs[-FITTED:]), 1)[0])


def random_texts(length: int, rows: int = 1) -> torch.Tensor:
    """(rows, length)"""
    return torch.randint(UNKNOWN + 1, UNKNOWN + 11, (rows, length))


def read(model: AnyTranslator, source: int, target: int, rows: int = 1) -> None:
    """Sources and known targets, as in training, but without gradients."""
    with torch.no_grad():
        model(random_texts(target, rows), model.start(random_texts(source, rows)))


def count_operations(model: AnyTranslator, source: int, target: int) -> int:
    # the plain kernel of attention is one that can be counted
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        read(model, source, target)
    return int(counter.get_total_flops())


def fit_terms(count: Callable[[int, int], int]) -> dict[str, float]:
    """The polynomial of both lengths that a count is; ValueError if it is none of degree 2 at most."""
    powers = list(TERMS.values())
    table = np.array([[s**i * t**j for i, j in powers] for s, t in COUNTED], dtype=np.float64)
    counts = np.array([count(s, t) for s, t in COUNTED], dtype=np.float64)
    # whole numbers, or halves of them where a pyramid gets narrower step by step
    solved = np.round(np.linalg.solve(table, counts) * 64) / 64
    terms = dict(zip(TERMS, solved.tolist(), strict=True))
    expected, found = count(*CHECKED), cost_of(terms, *CHECKED)
    if expected != found:
        raise ValueError(f"no polynomial of both lengths: {expected} operations at lengths {CHECKED}, not {found}")
    return {name: value for name, value in terms.items() if value}


def cost_of(terms: dict[str, float], source: int, target: int) -> float:
    powers = {name: TERMS[name] for name in terms}
    return sum(terms[name] * float(source**i * target**j) for name, (i, j) in powers.items())


def far_points(terms: dict[str, float], direction: str) -> Points:
    return Points(FAR, [cost_of(terms, *lengths_towards(direction, length)) for length in FAR])


def leading(terms: dict[str, float]) -> str:
    """The terms that no other one outgrows, in the notation of Table 1."""

    def is_outgrown(name: str) -> bool:
        i, j = TERMS[name]
        return any(other != name and TERMS[other][0] >= i and TERMS[other][1] >= j for other in terms)

    kept = [name for name in ("S²", "ST", "T²", "S", "T") if name in terms and not is_outgrown(name)]
    return " + ".join(kept)


def clock(model: AnyTranslator, direction: str, *, longest_seconds: float, repeats: int) -> Points:
    """Seconds for texts twice as long each, up to the length that takes about so long."""
    lengths: list[int] = []
    costs: list[float] = []
    # the next text may take four times as long
    while not costs or (costs[-1] < longest_seconds / 3 and lengths[-1] < LONGEST):
        lengths.append(2 * lengths[-1] if lengths else SHORTEST)
        costs.append(time_of(lambda: read(model, *lengths_towards(direction, lengths[-1]), ROWS), repeats))
    return Points(lengths, costs)


def time_of(work: Callable[[], None], repeats: int) -> float:
    """Seconds of the processor, the least of some trials after a first one: other work on the machine only adds."""
    work()
    seconds = []
    for _ in range(repeats):
        begun = time.process_time()
        work()
        seconds.append(time.process_time() - begun)
    return min(seconds)


def numbers_by_length(model: AnyTranslator, lengths: Sequence[int]) -> list[int]:
    """How many numbers stand for sources of these lengths, before any target token is read."""
    counts = []
    for length in lengths:
        with torch.no_grad():
            state = model.start(random_texts(length))
        counts.append(sum(tensor.numel() for tensor in tensors_of(state) if tensor.is_floating_point()))
    return counts
