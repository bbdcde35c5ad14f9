"""Pairs held out: none of their sources is left to train on, and which they are does not depend on order."""

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bytenet.data.holding_out import HeldOut, hold_out

sources = st.text(st.sampled_from("abAB. !é"), min_size=1, max_size=4)
pair_lists = st.lists(st.tuples(sources, st.sampled_from(["x", "y", "", " "])), max_size=30)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("held out")


def divided(folder: Path, pairs: list[tuple[str, str]], number: int, seed: int = 0) -> tuple[list, list, HeldOut]:
    """The pairs of train.tsv and of test.tsv, and what was said about them."""
    for part in ("train.tsv", "test.tsv"):
        (folder / part).unlink(missing_ok=True)
    file = folder / "all.tsv"
    file.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    said = hold_out(file, folder, number, seed=seed)
    return *(read(folder / part) for part in ("train.tsv", "test.tsv")), said


def read(file: Path) -> list[tuple[str, ...]]:
    return [tuple(line.split("\t")) for line in file.read_text(encoding="utf-8").splitlines()]


def letters(source: str) -> str:
    return source.lower().replace(" ", "").replace(".", "").replace("!", "") or source


@given(pair_lists, st.integers(1, 5), st.integers(0, 3))
def test_no_source_stands_on_both_sides(folder, pairs, number, seed):
    whole = [pair for pair in pairs if pair[0].strip() and pair[1].strip()]
    if len({letters(source) for source, _ in whole}) <= number:
        with pytest.raises(ValueError, match="different sources cannot be held out"):
            divided(folder, pairs, number, seed)
        return
    train, test, said = divided(folder, pairs, number, seed)
    held_out = {letters(source) for source, _ in test}
    assert len(test) == len(held_out) == said.test == number
    assert train == [pair for pair in whole if letters(pair[0]) not in held_out]  # all others, in order
    assert set(test) <= set(whole)
    assert said.train + said.test + said.dropped == len(pairs)


@given(st.integers(0, 99))
def test_order_does_not_decide_which_are_held_out(folder, seed):
    pairs = [(f"source {i}", f"target {i}") for i in range(40)]
    _, test, _ = divided(folder, pairs, 5)
    random.Random(seed).shuffle(pairs)
    _, again, _ = divided(folder, pairs, 5)
    assert sorted(again) == sorted(test)


def test_another_seed_holds_out_others(folder):
    pairs = [(f"source {i}", f"target {i}") for i in range(40)]
    assert len({tuple(divided(folder, pairs, 5, seed)[1]) for seed in range(4)}) == 4


def test_files_that_are_there_are_left_as_they_are(folder):
    divided(folder, [("a", "x"), ("b", "y")], 1)
    before = (folder / "train.tsv").read_bytes()
    with pytest.raises(ValueError, match=r"train\.tsv: exists"):
        hold_out(folder / "all.tsv", folder, 1)
    assert (folder / "train.tsv").read_bytes() == before
