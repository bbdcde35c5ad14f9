"""Sentence pairs: TSV or aligned files, with limits; what is left out is counted, with the first place."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bytenet.data.config import DigitsConfig, PairsConfig, TextConfig
from bytenet.data.digits import write_digits
from bytenet.data.pairs import Pair, PairFiles, PairFilter, read_aligned, read_tsv
from tests.data.strategies import suffixes, write

sentences = st.text(st.sampled_from("ab ä😀\x0b\x85\u2028"), max_size=6)
line_ends = st.sampled_from(["\n", "\r\n"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pairs")


def sides(pairs: list[Pair]) -> list[tuple[str, str]]:
    return [(pair.source, pair.target) for pair in pairs]


@given(st.lists(st.tuples(sentences, sentences)), suffixes, suffixes, line_ends)
def test_a_tsv_and_two_aligned_files_hold_the_same_pairs(folder, pairs, suffix, other_suffix, end):
    """Empty sides too: leaving them out is the filter's work."""
    tsv = write(folder, f"both.tsv{suffix}", "".join(f"{source}\t{target}{end}" for source, target in pairs))
    source = write(folder, f"source{suffix}", "".join(f"{source}{end}" for source, _ in pairs))
    target = write(folder, f"target{other_suffix}", "".join(f"{target}{end}" for _, target in pairs))
    for file, found in ((tsv, list(read_tsv(tsv))), (source, list(read_aligned(source, target)))):
        assert sides(found) == pairs
        assert [pair.place for pair in found] == [f"{file}, line {i}" for i in range(1, len(pairs) + 1)]


def test_several_files_are_read_in_order(folder):
    names = [str(write(folder, name, text)) for name, text in {"1.tsv": "a\tb\n", "2.tsv.gz": "c\td\n"}.items()]
    source, target = str(write(folder, "3.en", "e\n")), str(write(folder, "3.de.xz", "f\n"))
    files = PairFiles(tsv=tuple(names), source=(source,), target=(target,))
    assert sides(list(files.read())) == [("a", "b"), ("c", "d"), ("e", "f")]
    assert [str(file) for file in files.paths] == [*names, source, target]


def test_further_columns_are_not_read(folder):
    assert sides(list(read_tsv(write(folder, "columns.tsv", "a\tb\tc\td\n")))) == [("a", "b")]


@given(st.lists(sentences.map(lambda text: f"{text}\t{text}"), max_size=4), sentences.filter(bool))
def test_a_line_without_a_tab_is_named(folder, lines, bad):
    file = write(folder, "bad.tsv", "\n".join([*lines, bad, "a\tb", ""]))
    with pytest.raises(ValueError, match="no tab") as raised:
        list(read_tsv(file))
    assert str(raised.value).startswith(f"{file}, line {len(lines) + 1}: ")


def test_an_empty_line_is_an_empty_pair(folder):
    """It is dropped and counted later, and the lines after it keep their numbers."""
    file = write(folder, "empty.tsv", "\n\na\tb\n")
    assert list(read_tsv(file)) == [
        Pair("", "", f"{file}, line 1"),
        Pair("", "", f"{file}, line 2"),
        Pair("a", "b", f"{file}, line 3"),
    ]


@given(st.integers(0, 5), st.integers(0, 5))
def test_files_of_unequal_length_are_not_aligned(folder, num_sources, num_targets):
    source, target = write(folder, "left", "a\n" * num_sources), write(folder, "right", "b\n" * num_targets)
    if num_sources == num_targets:
        assert len(list(read_aligned(source, target))) == num_sources
        return
    shorter, longer = (source, target) if num_sources < num_targets else (target, source)
    with pytest.raises(ValueError, match="not aligned") as raised:
        list(read_aligned(source, target))
    message = str(raised.value)
    assert message.startswith(f"{shorter}: ends after line {min(num_sources, num_targets)}, but {longer} ")
    assert len(message.splitlines()) == 1


def test_what_is_wrong_with_the_second_of_two_files_is_named_there(folder):
    source, target = write(folder, "good", "a\nb\nc\n"), write(folder, "bad", b"a\nb\xff\nc\n")
    with pytest.raises(ValueError, match="not UTF-8") as raised:
        list(read_aligned(source, target))
    assert str(raised.value).startswith(f"{target}, line 2: ")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        list(read_aligned(source, folder / "nowhere"))


@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=20),
    st.integers(0, 10),
    st.sampled_from([0.0, 1.0, 1.5, 3.0]),
)
def test_a_filter_keeps_what_is_within_its_limits_and_counts_the_rest(lengths, max_length, max_ratio):
    filter_ = PairFilter(max_length=max_length, max_ratio=max_ratio)
    reasons: dict[str, list[str]] = {}
    for number, (source, target) in enumerate(lengths):
        kept = filter_.keeps(source, target, f"line {number}")
        short, long = sorted([source, target])
        too_long, apart = max_length > 0 and long > max_length, max_ratio > 0 and long > max_ratio * short
        assert kept == (short > 0 and not too_long and not apart)
        if not kept:
            reason = "empty" if not short else "longer" if too_long else "apart"
            reasons.setdefault(reason, []).append(f"line {number}")
    assert filter_.kept + sum(filter_.dropped.values()) == len(lengths)
    report = filter_.report()
    assert len(report) == len(reasons)
    for (reason, places), line in zip(reasons.items(), report, strict=True):  # both in the order of the first places
        assert line.startswith(f"dropped {len(places)} of {len(lengths)} pairs: ")
        assert reason in line
        assert line.endswith(f"(first: {places[0]})")


@pytest.mark.parametrize("task", ["copy", "reverse"])
def test_digits_are_distinct_and_no_string_is_in_both_files(folder, task):
    config = DigitsConfig(task=task, max_length=4, pairs=300, validation_pairs=40)
    train, validation = folder / "train.tsv", folder / "validation.tsv"
    write_digits(config, train, validation)
    learnt, held = sides(list(read_tsv(train))), sides(list(read_tsv(validation)))
    assert (len(learnt), len(held)) == (300, 40)
    sources = [source for source, _ in learnt + held]
    assert len(set(sources)) == len(sources)
    assert {len(source) for source in sources} == {1, 2, 3, 4}
    for source, target in learnt + held:
        assert source.isdecimal()
        assert target == (source if task == "copy" else source[::-1])


@pytest.mark.parametrize(
    ("make", "changes", "field"),
    [
        (TextConfig, {"train": ()}, "train"),
        (TextConfig, {"window": 0, "context": 0}, "window"),
        (TextConfig, {"context": 500}, "context"),
        (TextConfig, {"context": -1}, "context"),
        (TextConfig, {"held_out": 0.0}, "held_out"),
        (TextConfig, {"held_out": 1.0}, "held_out"),
        (TextConfig, {"held_out": float("nan")}, "held_out"),
        (PairsConfig, {"train": ()}, "train"),
        (PairsConfig, {"train_source": ("a", "b"), "train_target": ("c",)}, "train_target"),
        (PairsConfig, {"validation_target": ("c",)}, "validation_target"),
        (PairsConfig, {"max_length": -1}, "max_length"),
        (PairsConfig, {"max_ratio": 0.5}, "max_ratio"),
        (PairsConfig, {"max_ratio": float("nan")}, "max_ratio"),
        (PairsConfig, {"held_out": -0.1}, "held_out"),
        (DigitsConfig, {"pairs": 0}, "pairs"),
        (DigitsConfig, {"validation_pairs": 0}, "validation_pairs"),
        (DigitsConfig, {"max_length": 0}, "max_length"),
    ],
)
def test_an_impossible_value_is_refused_by_its_name(make, changes, field):
    defaults = {} if make is DigitsConfig else {"train": ("file",)}
    make(**defaults)
    with pytest.raises(ValueError, match=f"^{field} must"):
        make(**(defaults | changes))
