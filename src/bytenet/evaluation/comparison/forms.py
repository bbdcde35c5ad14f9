"""How a path's length grows with the lengths of source and target, in the notation of Table 1."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

CONSTANT = "constant"
SMALL = 0.01  # layer steps a token; less is no growth


@dataclass(frozen=True, kw_only=True)
class Form:
    """`source`·S + `target`·T + `longer`·max(S, T) + `constant`."""

    source: float = 0.0
    target: float = 0.0
    longer: float = 0.0
    constant: float = 0.0
    error: float = 0.0
    """In layer steps, the most by which a path is longer or shorter than this."""

    @property
    def cell(self) -> str:
        """What it grows with; factors and what is added count for nothing, as in Table 1."""
        return " + ".join(name for name, _ in self._growing()) or CONSTANT

    @property
    def formula(self) -> str:
        """With all of its numbers."""
        parts = [name if abs(factor - 1) <= SMALL else f"{factor:.3g} {name}" for name, factor in self._growing()]
        if abs(self.constant) >= 0.5 or not parts:
            parts.append(f"{self.constant:.0f}")
        return " + ".join(parts).replace("+ -", "- ")

    def _growing(self) -> list[tuple[str, float]]:
        factors = (("S", self.source), ("T", self.target), ("max(S, T)", self.longer))
        return [(name, factor) for name, factor in factors if abs(factor) > SMALL]


def fit_form(steps: Mapping[tuple[int, int], float]) -> Form:
    """The form of the steps for lengths of source and target; their sum, where their maximum is no better."""
    lengths = np.array(list(steps), dtype=np.float64)  # (P, 2)
    wanted = np.array(list(steps.values()), dtype=np.float64)
    ones = np.ones((len(lengths), 1))
    found = []
    for names, columns in (
        (("source", "target"), lengths),
        (("longer",), lengths.max(axis=1, keepdims=True)),
    ):
        table = np.hstack([columns, ones])
        factors = np.linalg.lstsq(table, wanted, rcond=None)[0]
        error = float(np.abs(table @ factors - wanted).max())
        values = dict(zip((*names, "constant"), factors.tolist(), strict=True))
        found.append(Form(**values, error=round(error, 6)))
    return min(found, key=lambda form: form.error)
