"""Rewritten pairs: both sides alike, the asked share of them, the same every time."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bytenet.data.config import PairsConfig
from bytenet.data.pairs import Pair
from bytenet.data.rewriting import Rewriter, name_like, renamed, typed

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
def test_the_asked_shares_are_changed_the_same_every_time(share):
    pairs = [Pair(f"‘Tom and number {n}’", f"„Tom und Nummer {n}“", "") for n in range(2000)]
    shares = {"typed": share, "capitals": share / 2, "renamed": 1 - share}
    new, again = ([*map(Rewriter(**shares), pairs)] for _ in range(2))
    assert new == again
    ways = {
        share: ['"' in pair.source for pair in new],
        share / 2: ["NUMBER" in pair.source for pair in new],
        1 - share: ["tom" not in pair.source.lower() for pair in new],
    }
    for expected, changed in ways.items():
        assert sum(changed) / len(pairs) == pytest.approx(expected, abs=0.05)
    assert all(('"' in pair.source) == ('"' in pair.target) for pair in new)  # both sides or none
    assert all(("NUMBER" in pair.source) == ("NUMMER" in pair.target) for pair in new)


WORDS = st.lists(
    st.sampled_from(["Tom", "NATO", "1999", "7", "geht", "goes", "Kyoto", "an", "Ü", "ßa", ","]), max_size=9
)


@given(WORDS, WORDS, st.integers(0, 9))
def test_what_is_renamed_stands_on_both_sides_and_what_does_not_stays(source, target, seed):
    pair = Pair(" ".join(source), " ".join(target), "")
    new = renamed(pair, random.Random(seed))
    new_source, new_target = new.source.split(" "), new.target.split(" ")
    others = dict(zip(source, new_source, strict=False)) | dict(zip(target, new_target, strict=False))
    assert new_source == [others[word] for word in source] or not source  # one other word for each, on both sides
    assert new_target == [others[word] for word in target] or not target
    for word, other in others.items():
        on_both = word in source and word in target
        if not on_both or word in ("geht", "goes", "an", "Ü", "ßa", ","):
            assert other == word
        elif word.isdigit():
            assert other.isdigit()
            assert len(other) == len(word)
            assert other[0] != "0"
            assert other[:2] == "19" or len(word) != 4
        else:
            assert other[0].isupper()
            assert other.isupper() == word.isupper()


def test_names_are_many():
    chance = random.Random(0)
    assert len({name_like("Tom", chance) for _ in range(1000)}) > 900


def test_a_share_is_between_none_and_all():
    with pytest.raises(ValueError, match=r"typed must be from 0 to 1, not 1\.5"):
        PairsConfig(train=("a.tsv",), typed=1.5)
