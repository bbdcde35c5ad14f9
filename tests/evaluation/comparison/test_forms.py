"""Forms: how a number of steps grows is found from its values."""

import itertools

import pytest

from bytenet.evaluation.comparison.forms import fit_form

LENGTHS = [(source, target) for source, target in itertools.product((10, 20, 30), repeat=2)]


@pytest.mark.parametrize(
    ("steps", "cell", "formula"),
    [
        (lambda s, t: 7, "constant", "7"),
        (lambda s, t: s + 1, "S", "S + 1"),
        (lambda s, t: t, "T", "T"),
        (lambda s, t: s / 2 + t + 3, "S + T", "0.5 S + T + 3"),
        (lambda s, t: max(s, t) + 1, "max(S, T)", "max(S, T) + 1"),
    ],
)
def test_a_form_is_found(steps, cell, formula):
    form = fit_form({lengths: steps(*lengths) for lengths in LENGTHS})
    assert (form.cell, form.formula, form.error) == (cell, formula, 0)


def test_the_error_says_how_far_from_any_form_it_is():
    assert fit_form({(s, t): s * t for s, t in LENGTHS}).error > 10
