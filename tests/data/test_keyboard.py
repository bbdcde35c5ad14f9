"""What keyboards type: no typeset mark is left, all else stays, and the asked share of pairs is rewritten."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bytenet.data.config import PairsConfig
from bytenet.data.keyboard import rewritten, typed
from bytenet.data.pairs import Pair

TYPESET = "‘’“”„‟«»–—…`\u201a\u201b\u00b4\u2212\u00a0\u202f"


@pytest.mark.parametrize(
    ("typeset", "expected"),
    [
        ("„Gut“, sagte sie – „sehr gut“ …", '"Gut", sagte sie - "sehr gut" ...'),
        ("He called it ‘a success’.", 'He called it "a success".'),
        ("‘I don’t know,’ he said.", '"I don\'t know," he said.'),
        ("the members’ rights, the Commission’s view", "the members' rights, the Commission's view"),
        ("‘one’ and ‘two’", '"one" and "two"'),
        ("«Да»", '"Да"'),
    ],
)
def test_marks_are_those_of_a_keyboard(typeset, expected):
    assert typed(typeset) == expected


@given(st.text(st.sampled_from(TYPESET + "ab'\" -.")))
def test_no_typeset_mark_is_left_and_all_else_stays(text):
    plain = typed(text)
    assert not set(plain) & set(TYPESET)
    assert typed(plain) == plain
    assert [c for c in plain if c.isalpha()] == [c for c in text if c.isalpha()]


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 1.0])
def test_the_asked_shares_are_rewritten_the_same_every_time(share):
    pairs = [Pair(f"‘number {n}’", f"„Nummer {n}“", "") for n in range(2000)]
    new = [rewritten(pair, share_typed=share, share_capitals=share / 2) for pair in pairs]
    assert new == [rewritten(pair, share_typed=share, share_capitals=share / 2) for pair in pairs]
    plain = [pair for pair in new if '"' in pair.source]
    assert all('"' in pair.target for pair in plain)  # both sides or none
    large = [pair for pair in new if "NUMBER" in pair.source]
    assert all("NUMMER" in pair.target for pair in large)
    assert len(plain) / len(pairs) == pytest.approx(share, abs=0.05)
    assert len(large) / len(pairs) == pytest.approx(share / 2, abs=0.05)


def test_a_share_is_between_none_and_all():
    with pytest.raises(ValueError, match=r"typed must be from 0 to 1, not 1\.5"):
        PairsConfig(train=("a.tsv",), typed=1.5)
