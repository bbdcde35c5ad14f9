"""Typos: as many as were asked for, none where there is no letter, the same ones every time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bytenet.evaluation.typos import NEIGHBOURS, with_typos

TEXT = "The quick brown fox jumps over the lazy dog, and Zürich is 3.5 hours away. " * 9


@given(st.text(), st.integers(0, 5))
def test_no_typos_change_nothing(text, seed):
    assert with_typos(text, 0, seed=seed) == text


@given(st.text(), st.floats(0, 1), st.integers(0, 5))
def test_the_same_typos_every_time_and_none_outside_letters(text, share, seed):
    typed = with_typos(text, share, seed=seed)
    assert typed == with_typos(text, share, seed=seed)
    assert [c for c in typed if not c.isalpha()] == [c for c in text if not c.isalpha()]


@pytest.mark.parametrize("share", [0.05, 0.1, 0.2])
def test_so_large_a_share_of_the_letters_is_hit(share):
    """Every typo is one edit (a swap counts as one), and hits the share of letters asked for, within chance."""
    hits = distance(TEXT, with_typos(TEXT, share))
    letters = sum(c.isalpha() for c in TEXT)
    assert 0.6 * share < hits / letters < 1.2 * share  # neighbouring typos and swaps hide some


def test_a_letter_and_its_neighbours_are_each_others():
    assert all(letter in NEIGHBOURS[other] for letter, others in NEIGHBOURS.items() for other in others)
    assert set(NEIGHBOURS) == set("abcdefghijklmnopqrstuvwxyz")
    assert set(NEIGHBOURS["s"]) == set("adwezx")


def test_capitals_stay_capitals():
    typed = with_typos("ABCDEFGHIJKLMNOPQRSTUVWXYZ" * 5, 1.0)
    assert typed.isupper()


@pytest.mark.parametrize("share", [-0.1, 1.1])
def test_a_share_is_from_0_to_1(share):
    with pytest.raises(ValueError, match="from 0 to 1"):
        with_typos("a", share)


def distance(a: str, b: str) -> int:
    """Insertions, deletions, substitutions and swaps of neighbours that make a into b."""
    before, previous = [], list(range(len(b) + 1))
    for i, x in enumerate(a, start=1):
        current = [i]
        for j, y in enumerate(b, start=1):
            best = min(previous[j] + 1, current[j - 1] + 1, previous[j - 1] + (x != y))
            if i > 1 and j > 1 and (x, y) == (b[j - 2], a[i - 2]):
                best = min(best, before[j - 2] + 1)
            current.append(best)
        before, previous = previous, current
    return previous[-1]
