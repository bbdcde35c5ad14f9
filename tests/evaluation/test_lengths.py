"""Lengths: the correlation of Fig. 5, and the shortest line that covers the asked share of targets."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bytenet.evaluation.lengths import GRID, CoveringLines, Lengths, fit_unfolding
from bytenet.model.translator import UnfoldingConfig, UnfoldingFit

pairs_of_lengths = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 90)), min_size=1, max_size=20)
shares = st.floats(0, 1, exclude_min=True)
asked_fits = st.builds(UnfoldingFit, coverage=shares, multiple=st.sampled_from([1, 1, 7, 50]))


def lengths_of(pairs):
    source, target = np.array(pairs, dtype=np.int64).T
    return Lengths(source, target)


def padded(source, multiple):
    return math.ceil(source / multiple) * multiple


def mean_line(pairs, a, b, multiple):
    return a * Fraction(sum(padded(source, multiple) for source, _ in pairs), len(pairs)) + b


def least_offset(pairs, a, share, multiple):
    """The b that a · source + b must exceed to be greater than at least this share of targets."""
    needed = sorted(target - a * padded(source, multiple) for source, target in pairs)
    return next(needed[i] for i in range(len(pairs)) if (i + 1) / len(pairs) >= share)


@settings(max_examples=15)
@given(pairs_of_lengths)
def test_the_correlation_is_pearsons(pairs):
    n = len(pairs)
    mean_source, mean_target = (Fraction(sum(pair[side] for pair in pairs), n) for side in (0, 1))
    together = sum((s - mean_source) * (t - mean_target) for s, t in pairs)
    of_source = sum((s - mean_source) ** 2 for s, _ in pairs)
    of_target = sum((t - mean_target) ** 2 for _, t in pairs)
    found = lengths_of(pairs).correlation()
    if of_source == 0 or of_target == 0:
        assert found is None
    else:
        assert found == pytest.approx(float(together) / math.sqrt(of_source * of_target), abs=1e-9)


def test_sentences_that_grow_together_correlate():
    pairs = [(length, 3 * length + 2) for length in range(1, 30)]
    assert lengths_of(pairs).correlation() == pytest.approx(1, abs=1e-12)
    assert lengths_of([(s, 100 - t) for s, t in pairs]).correlation() == pytest.approx(-1, abs=1e-12)


@given(
    pairs_of_lengths, st.builds(UnfoldingConfig, a=st.floats(0.1, 3), b=st.floats(0, 9), multiple=st.integers(1, 60))
)
def test_coverage_is_that_of_the_models_own_unfolding(pairs, unfolding):
    lengths = lengths_of(pairs)
    positions = [unfolding.unfolded_length(source) for source, _ in pairs]
    shorter = sum(target < held for (_, target), held in zip(pairs, positions, strict=True))
    assert lengths.coverage(unfolding) == pytest.approx(shorter / len(pairs))
    assert lengths.mean_positions(unfolding) == pytest.approx(sum(positions) / len(pairs))


@given(pairs_of_lengths, asked_fits)
def test_a_fit_covers_what_was_asked(pairs, asked):
    fitted = fit_unfolding(lengths_of(pairs), asked)
    assert fitted.multiple == asked.multiple
    assert lengths_of(pairs).coverage(fitted) >= asked.coverage
    a, b = (Fraction(round(value * GRID), GRID) for value in (fitted.a, fitted.b))
    above = sum(a * padded(source, asked.multiple) + b > target for source, target in pairs)
    assert above / len(pairs) == lengths_of(pairs).coverage(fitted)  # by the line or by whole positions: the same


@settings(max_examples=15)
@given(pairs_of_lengths, asked_fits, st.lists(st.fractions(0, 5), min_size=6, max_size=6))
def test_no_line_that_covers_as_much_is_shorter(pairs, asked, slopes):
    """Any real a > 0 with the least real b >= 0; a grid costs a step of a and a step of b at the most."""
    fitted = fit_unfolding(lengths_of(pairs), asked)
    ours = mean_line(pairs, Fraction(fitted.a), Fraction(fitted.b), asked.multiple)
    step = mean_line(pairs, Fraction(1, GRID), Fraction(1, GRID), asked.multiple)
    around = [Fraction(fitted.a) * Fraction(99 + i, 100) for i in range(3)]
    for a in [*slopes, *around]:
        b = max(0, least_offset(pairs, a, asked.coverage, asked.multiple))
        assert ours <= mean_line(pairs, a, b, asked.multiple) + step + Fraction(1, 10**9)


@given(pairs_of_lengths, st.integers(1, 20), st.sampled_from([1, 3, 10]))
def test_the_search_finds_the_best_of_the_whole_grid(pairs, enough, grid):
    enough = min(enough, len(pairs))
    best = None
    for a in range(1, grid * 90 + 2):
        needed = sorted(grid * target - a * source for source, target in pairs)[enough - 1]
        b = max(0, needed + 1)
        cost = a * sum(source for source, _ in pairs) + b * len(pairs)
        best = min(best or (cost, -a, b), (cost, -a, b))
    line = CoveringLines(*np.array(pairs, dtype=np.int64).T, enough, grid=grid).shortest()
    assert (-line.a, line.b) == best[1:]


@settings(max_examples=8)
@given(pairs_of_lengths, asked_fits, st.randoms())
def test_order_and_repetition_change_nothing(pairs, asked, random):
    fitted = fit_unfolding(lengths_of(pairs), asked)
    assert fit_unfolding(lengths_of(pairs * 3), asked) == fitted
    assert fit_unfolding(lengths_of(random.sample(pairs, len(pairs))), asked) == fitted


@pytest.mark.parametrize("target", [1, 12, 5_000_000])
def test_one_pair_is_covered_exactly(target):
    fitted = fit_unfolding(lengths_of([(10, target)]), UnfoldingFit(multiple=1))
    assert fitted.unfolded_length(10) == target + 1  # END has a position too
    assert fitted.b < 0.01  # of equally short lines the most proportional one


def test_a_line_of_targets_is_found():
    pairs = [(source, 2 * source + 30) for source in range(1, 100)]
    fitted = fit_unfolding(lengths_of(pairs), UnfoldingFit(coverage=1.0, multiple=1))
    assert (fitted.a, fitted.b) == pytest.approx((2, 30), abs=0.002)
    unlucky = [*pairs, (50, 1000)]  # one in a hundred may stand out
    assert fit_unfolding(lengths_of(unlucky), UnfoldingFit(coverage=0.99, multiple=1)) == fitted
