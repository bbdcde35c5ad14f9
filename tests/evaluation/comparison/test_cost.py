"""Costs: a polynomial is found exactly from short texts, and its exponents are those of its highest terms."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bytenet.evaluation.comparison.cost import (
    DIRECTIONS,
    TERMS,
    Points,
    clock,
    cost_of,
    count_operations,
    far_points,
    fit_terms,
    leading,
    numbers_by_length,
)
from bytenet.evaluation.comparison.rows import DIGITS
from bytenet.model import Translator, TranslatorConfig
from bytenet.model.blocks import StackConfig
from bytenet.model.translator import UnfoldingConfig

polynomials = st.fixed_dictionaries({name: st.integers(0, 10**6) for name in TERMS})


@given(polynomials)
def test_a_polynomial_is_found_exactly(terms):
    found = fit_terms(lambda source, target: int(cost_of(terms, source, target)))
    assert found == {name: value for name, value in terms.items() if value}


def test_halves_are_found_too():
    assert fit_terms(lambda source, target: source * (source + 1) // 2) == {"S": 0.5, "S²": 0.5}


def test_what_is_no_polynomial_is_refused():
    with pytest.raises(ValueError, match="no polynomial of both lengths"):
        fit_terms(lambda source, target: source**3)


@pytest.mark.parametrize(
    ("terms", "cell", "exponents"),
    [
        ({"1": 9, "S": 5, "T": 7}, "S + T", (1, 1, 1)),
        ({"S": 5, "T": 7, "S²": 3}, "S² + T", (2, 1, 2)),
        ({"1": 5, "S": 5, "T": 7, "ST": 3}, "ST", (1, 1, 2)),
        ({"T": 7, "S²": 1, "ST": 3}, "S² + ST", (2, 1, 2)),
        ({"S": 7, "S²": 1, "ST": 3, "T²": 2}, "S² + ST + T²", (2, 2, 2)),
    ],
)
def test_only_the_highest_terms_count_far_away(terms, cell, exponents):
    assert leading(terms) == cell
    found = [far_points(terms, direction).exponent() for direction in DIRECTIONS]
    assert found == pytest.approx(exponents, abs=0.02)


@given(st.floats(0.1, 3), st.floats(0.01, 100))
def test_an_exponent_is_a_slope_in_logarithms(power, factor):
    lengths = [16, 32, 64, 128]
    assert Points(lengths, [factor * n**power for n in lengths]).exponent() == pytest.approx(power)
    assert Points([16], [factor]).exponent() is None


@pytest.fixture(scope="module")
def small() -> Translator:
    stack = StackConfig(num_blocks=2, kernel_width=3)
    config = TranslatorConfig(
        source_vocabulary=DIGITS,
        target_vocabulary=DIGITS,
        inner_channels=4,
        encoder=stack,
        decoder=stack,
        unfolding=UnfoldingConfig(a=1.0, b=2.0, multiple=1),
    )
    return Translator(config).eval()


def test_operations_are_those_of_the_matrices(small):
    """Of a block: 2d to d, three taps of d to d, d to 2d; of the head 2d to d to the vocabulary."""
    block = 2 * (8 * 4 + 3 * 4 * 4 + 4 * 8)
    head = 2 * (8 * 4 + 4 * DIGITS.size)
    assert count_operations(small, 7, 5) == 2 * block * (7 + 2) + (2 * block + head) * 5


def test_a_bytenets_representation_grows_with_its_source(small):
    few, many = numbers_by_length(small, [5, 9])
    assert many - few == 4 * 8


def test_the_clock_goes_on_to_longer_texts_until_they_take_long(small):
    points = clock(small, "target", longest_seconds=1e-9, repeats=1)
    assert (len(points.lengths), points.exponent()) == (1, None)
    points = clock(small, "target", longest_seconds=math.inf, repeats=1)
    assert points.lengths == [16 * 2**i for i in range(8)]
    assert min(points.costs) > 0
