"""The comparison: which cells of Table 1 are as the paper states them."""

from dataclasses import asdict

import pytest

from bytenet.evaluation.comparison.comparing import WALKED_UNFOLDING, agreement, path_forms, properties
from bytenet.evaluation.comparison.rows import ROWS, Cells, deepened, unfolded_as

DIFFERENT = {
    "RCTM 2": {"path_source"},
    "Grid LSTM": {"path_source", "path_target"},
    "Extended Neural GPU": {"path_source"},
}
"""Why: docs/comparison.md."""


every_row = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)


@every_row
def test_every_path_but_four_is_the_papers(row):
    paths = path_forms(unfolded_as(deepened(row.config), WALKED_UNFOLDING))
    cells = {f"path_{side}": paths[side]["cell"] for side in ("source", "target")}
    agrees = agreement(row.paper, Cells(**asdict(row.paper) | cells))
    assert {name for name in cells if not agrees[name]} == DIFFERENT.get(row.name, set())
    assert max(paths["source"]["error"], paths["target"]["error"]) < 1


@pytest.mark.slow
@every_row
def test_every_cell_but_four_is_the_papers(row):
    found = properties(row.config)
    agrees = agreement(row.paper, Cells(**found["measured"]))
    assert {name for name, same in agrees.items() if not same} == DIFFERENT.get(row.name, set())
    assert found["gradients"]["agree"]
    assert 38_000 < found["parameters"] < 42_000
