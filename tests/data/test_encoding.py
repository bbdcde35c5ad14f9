"""Corpora as ids in a cache: the same whatever the chunks, made once, made again when something changed."""

import dataclasses
import itertools
import json
import os
import shutil
import tracemalloc
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bytenet.data import encoding, reading
from bytenet.data.config import DataConfig, DigitsConfig, PairsConfig, TextConfig
from bytenet.data.encoding import MANIFEST, EncodedCorpus, EncodedPairs, encode_corpus
from bytenet.data.reading import read_chunks, read_text
from bytenet.vocabulary import UNKNOWN, Bytes, Characters, VocabularyConfig
from tests.data.strategies import suffixes, texts, write

BYTES = VocabularyConfig()
CHARACTERS = VocabularyConfig(kind="characters", symbols=100)
numbers = itertools.count()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("encoding")


@pytest.fixture(scope="module")
def cache(folder: Path) -> Iterator[Path]:
    """One folder for all examples of a test: what stands in it must never matter."""
    yield folder / "cache"
    shutil.rmtree(folder / "cache", ignore_errors=True)


def in_parts(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """All files are read in parts of so many bytes."""
    monkeypatch.setattr(reading, "read_text", partial(read_text, size=size))
    monkeypatch.setattr(encoding, "read_text", partial(read_text, size=size))
    monkeypatch.setattr(encoding, "read_chunks", partial(read_chunks, size=size))


def encode_anew(config: DataConfig, vocabularies: list[VocabularyConfig], cache: Path, size: int = 0) -> EncodedCorpus:
    shutil.rmtree(cache, ignore_errors=True)
    with pytest.MonkeyPatch.context() as monkeypatch:
        if size:
            in_parts(monkeypatch, size)
        return encode_corpus(config, vocabularies, cache)


def pairs_of(split: EncodedPairs) -> list[tuple[list[int], list[int]]]:
    """One pair after the other, by walking along the ids."""
    sources, targets = iter(split.source.tolist()), iter(split.target.tolist())
    pairs = [
        (list(itertools.islice(sources, source)), list(itertools.islice(targets, target)))
        for source, target in zip(split.source_lengths, split.target_lengths, strict=True)
    ]
    assert list(sources) == list(targets) == []
    return pairs


def decoded(corpus: EncodedCorpus, split: EncodedPairs) -> list[tuple[str, str]]:
    source, target = corpus.vocabularies
    return [(source.decode(left), target.decode(right)) for left, right in pairs_of(split)]


def tsv(pairs: list[tuple[str, str]]) -> str:
    return "".join(f"{source}\t{target}\n" for source, target in pairs)


# Texts


@given(st.lists(texts, min_size=1, max_size=3), suffixes, st.integers(1, 9), st.sampled_from([0.01, 0.3, 0.9]))
@example(["ä\r\n€\r\n", "😀\r\n"], "", 1, 0.3)
@settings(max_examples=40)
def test_characters_are_those_of_the_whole_text_whatever_the_chunks(folder, cache, parts, suffix, size, held_out):
    files = [write(folder, f"{i}{suffix}", part) for i, part in enumerate([*parts, "the end"])]
    whole = "".join([*parts, "the end"])
    config = TextConfig(train=tuple(map(str, files)), window=1, context=0, held_out=held_out)
    if len(whole) - max(1, int(held_out * len(whole))) < 1:
        return
    corpus = encode_anew(config, [CHARACTERS], cache, size)
    vocabulary = Characters.from_corpus([whole], CHARACTERS.symbols)
    assert corpus.vocabularies == (vocabulary,)
    ids, end = vocabulary.encode(whole), max(1, int(held_out * len(whole)))
    assert corpus.train.tokens.tolist() == ids[:-end]
    assert corpus.validation.tokens.tolist() == ids[-end:]


@given(st.lists(st.binary(max_size=30), min_size=1, max_size=3), suffixes, st.integers(1, 9), st.integers(1, 256))
def test_bytes_are_those_of_the_whole_file_be_they_text_or_not(folder, cache, parts, suffix, size, symbols):
    files = [write(folder, f"{i}{suffix}", part) for i, part in enumerate([*parts, b"\xff\x00end"])]
    whole = b"".join([*parts, b"\xff\x00end"])
    config = TextConfig(train=tuple(map(str, files)), window=1, context=0)
    corpus = encode_anew(config, [VocabularyConfig(symbols=symbols)], cache, size)
    vocabulary = Bytes.from_corpus([whole], symbols)
    assert corpus.vocabularies == (vocabulary,)
    assert corpus.train.tokens.tolist() + corpus.validation.tokens.tolist() == vocabulary.encode(whole)


@pytest.mark.parametrize("symbols", [252, 253, 32_764, 32_765])  # the last ids of one and two bytes
def test_ids_of_every_width_come_back(folder, cache, symbols):
    text = "".join(chr(0x10000 + i) for i in range(symbols))
    config = TextConfig(train=(str(write(folder, "wide", text)),), window=1, context=0)
    corpus = encode_anew(config, [VocabularyConfig(kind="characters", symbols=symbols)], cache)
    assert corpus.train.tokens.tolist() + corpus.validation.tokens.tolist() == list(range(4, 4 + symbols))


def test_vocabularies_come_from_the_training_files_alone(folder, cache):
    train, validation = write(folder, "train", "abcabc"), write(folder, "validation", "xyzab" * 9)
    config = TextConfig(train=(str(train),), validation=(str(validation),), window=1, context=0)
    corpus = encode_anew(config, [CHARACTERS], cache)
    assert set(corpus.vocabularies[0].symbols) == set("abc")
    assert corpus.train.tokens.tolist() == corpus.vocabularies[0].encode("abcabc")  # nothing is held out
    assert corpus.validation.tokens.tolist() == corpus.vocabularies[0].encode("xyzab" * 9)
    assert UNKNOWN in corpus.validation.tokens

    train, validation = write(folder, "train.tsv", "ab\tcd\n"), write(folder, "validation.tsv", "ax\tcy\n" * 9)
    pairs = PairsConfig(train=(str(train),), validation=(str(validation),))
    corpus = encode_anew(pairs, [CHARACTERS, CHARACTERS], cache)
    assert [set(vocabulary.symbols) for vocabulary in corpus.vocabularies] == [set("ab"), set("cd")]
    assert decoded(corpus, corpus.train) == [("ab", "cd")]
    assert decoded(corpus, corpus.validation) == [("a\ufffd", "c\ufffd")] * 9


def test_a_text_shorter_than_a_window_is_refused(folder, cache):
    for text in ("", "a", "abcdefghi"):
        file = write(folder, "short", text)
        with pytest.raises(ValueError, match="window") as raised:
            encode_anew(TextConfig(train=(str(file),), window=10, context=0), [BYTES], cache)
        assert str(raised.value).startswith(f"{file}: ")
        assert len(str(raised.value).splitlines()) == 1


@pytest.mark.parametrize("vocabulary", [BYTES, CHARACTERS])
def test_encoding_a_text_takes_no_more_memory_when_it_is_longer(folder, cache, monkeypatch, vocabulary):
    in_parts(monkeypatch, 1 << 13)

    def peak(lines: int) -> int:
        config = TextConfig(train=(str(write(folder, "growing.gz", "some wörds of a text\n" * lines)),))
        tracemalloc.start()
        encode_corpus(config, [vocabulary], cache)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    peak(5000)  # what is made once
    assert peak(40_000) < peak(10_000) + 50_000


def test_encoding_pairs_takes_no_more_memory_when_they_are_more(folder, cache, monkeypatch):
    in_parts(monkeypatch, 1 << 13)
    monkeypatch.setattr(encoding, "PAIRS_AT_ONCE", 256)

    def peak(lines: int) -> int:
        config = PairsConfig(train=(str(write(folder, "growing.tsv", "some wörds\tof a pair\n" * lines)),))
        tracemalloc.start()
        encode_corpus(config, [BYTES, VocabularyConfig(symbols=20)], cache)
        traced = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return traced

    peak(1500)  # what is made once
    lengths = 2 * 8 * 2  # a pair's lengths are kept in memory: two of 8 bytes, twice while they are opened
    assert peak(6000) < peak(3000) + 3000 * lengths + 50_000


@pytest.mark.parametrize("held_out", [0.01, 0.5])
def test_what_pairs_are_rewritten_with_is_in_the_vocabularies(folder, cache, held_out):
    lines = "".join(f"‘Tom is {n}’\t„Tom ist {n}“\n" for n in range(300))
    config = PairsConfig(
        train=(str(write(folder, "typeset.tsv", lines)),), typed=0.5, capitals=0.1, renamed=0.5, held_out=held_out
    )
    train = encode_anew(config, [CHARACTERS, CHARACTERS], cache).train
    assert not (train.source == UNKNOWN).any()
    assert not (train.target == UNKNOWN).any()


@pytest.mark.parametrize("vocabulary", [BYTES, CHARACTERS])
def test_how_many_pairs_are_encoded_at_once_changes_nothing(folder, cache, monkeypatch, vocabulary):
    lines = [f"{'ä' * (n % 7)} {n}\t„{n}“{'ö' * (n % 5)}\n" for n in range(100)]
    config = PairsConfig(train=(str(write(folder, "several.tsv", "".join(lines))),), max_length=8, typed=0.5)
    found = []
    for at_once in (1, 7, 100, 4096):
        monkeypatch.setattr(encoding, "PAIRS_AT_ONCE", at_once)
        corpus = encode_anew(config, [vocabulary, vocabulary], cache)
        found.append((decoded(corpus, corpus.train), decoded(corpus, corpus.validation), corpus.notes))
    assert all(other == found[0] for other in found)


def test_the_head_of_a_split_is_its_beginning(folder, cache):
    pairs = [("ab", "cde"), ("f", "g"), ("hij", "k")]
    config = PairsConfig(train=(str(write(folder, "head.tsv", tsv(pairs))),), validation=("/dev/null",))
    corpus = encode_anew(config, [BYTES, BYTES], cache)
    for symbols, expected in [(0, 3), (1, 1), (5, 1), (6, 1), (7, 2), (10, 2), (11, 3), (99, 3)]:
        assert decoded(corpus, corpus.train.head(symbols)) == pairs[:expected]
    text = TextConfig(train=(str(write(folder, "head", "abcdef")),), validation=("/dev/null",), window=1, context=0)
    train = encode_anew(text, [BYTES], cache).train
    for symbols in (0, 1, 6, 9):
        assert train.head(symbols).tokens.tolist() == Bytes().encode("abcdef")[: symbols or None]


# Pairs

words = st.text(st.sampled_from("abä😀"), max_size=5)
word_pairs = st.lists(st.tuples(words, words), max_size=20)


@given(word_pairs, st.integers(1, 9), st.sampled_from([0, 3]), st.sampled_from([0.0, 2.0]), st.booleans())
def test_pairs_within_the_limits_are_encoded_and_the_others_reported(
    folder, cache, pairs, size, max_length, max_ratio, aligned
):
    pairs = [*pairs, ("ab", "ab")]
    limits = {"max_length": max_length, "max_ratio": max_ratio, "validation": ("/dev/null",)}
    if aligned:
        source = write(folder, "train.en.gz", "".join(f"{source}\r\n" for source, _ in pairs))
        target = write(folder, "train.de.xz", "".join(f"{target}\n" for _, target in pairs))
        config = PairsConfig(train_source=(str(source),), train_target=(str(target),), **limits)
    else:
        half = len(pairs) // 2
        source = write(folder, "1.tsv", tsv(pairs[:half]))
        config = PairsConfig(train=(str(source), str(write(folder, "2.tsv.xz", tsv(pairs[half:])))), **limits)
    corpus = encode_anew(config, [CHARACTERS, CHARACTERS], cache, size)

    def is_kept(pair: tuple[str, str]) -> bool:
        short, long = sorted(map(len, pair))
        return short > 0 and not 0 < max_length < long and not 0 < max_ratio * short < long

    kept = [pair for pair in pairs if is_kept(pair)]
    assert decoded(corpus, corpus.train) == kept
    assert f"train: {len(kept)} pairs" in corpus.notes
    dropped = [note for note in corpus.notes if note.startswith("train: dropped")]
    assert sum(int(note.split()[2]) for note in dropped) == len(pairs) - len(kept)
    assert all(f" of {len(pairs)} pairs" in note and ", line " in note for note in dropped)


def test_what_is_dropped_is_reported_with_its_first_place(folder, cache):
    lines = ["a\tb", "", "c\t", f"{'d' * 1_000_000}\te", "\tf", "g\thhhhh"]
    file = write(folder, "dropped.tsv", "\n".join(lines) + "\n")
    config = PairsConfig(train=(str(file),), validation=("/dev/null",), max_length=500, max_ratio=4.0)
    assert encode_anew(config, [BYTES, BYTES], cache).notes == (
        "train: 1 pairs",
        f"train: dropped 3 of 6 pairs: an empty side (first: {file}, line 2)",
        f"train: dropped 1 of 6 pairs: longer than 500 (first: {file}, line 4)",
        f"train: dropped 1 of 6 pairs: lengths further apart than 1 to 4 (first: {file}, line 6)",
        "validation: 0 pairs",
    )
    unlimited = dataclasses.replace(config, max_length=0, max_ratio=0.0)
    corpus = encode_anew(unlimited, [BYTES, BYTES], cache)
    assert corpus.train.source_lengths.tolist() == [1, 1_000_000, 1]


def test_files_with_no_pair_to_learn_from_are_refused_in_one_line(folder, cache):
    for text in ("", "\n\n", "a\t\n"):
        file = write(folder, "nothing.tsv", text)
        with pytest.raises(ValueError, match="no pair to learn from") as raised:
            encode_anew(PairsConfig(train=(str(file),), validation=("/dev/null",)), [BYTES, BYTES], cache)
        assert str(raised.value).startswith(f"{file}: ")
        assert len(str(raised.value).splitlines()) == 1
        assert ("(first: " in str(raised.value)) == bool(text)
        assert not {"[", "]"} & set(str(raised.value))


@given(st.lists(st.integers(1, 3), min_size=40, max_size=40), st.randoms(use_true_random=False))
@settings(max_examples=10)
def test_held_out_pairs_are_chosen_by_their_source(folder, cache, num_translations, random):
    """All translations of a source stand on one side, whatever else is in the file and in whatever order."""
    pairs = [(f"source {i}", f"target {j}") for i, number in enumerate(num_translations) for j in range(number)]
    random.shuffle(pairs)
    sides: list[set[str]] = []
    for part in (pairs, [*pairs[::-2], ("another", "one")]):
        config = PairsConfig(train=(str(write(folder, "held.tsv", tsv(part))),), held_out=0.3)
        corpus = encode_anew(config, [CHARACTERS, CHARACTERS], cache)
        train, validation = decoded(corpus, corpus.train), decoded(corpus, corpus.validation)
        assert sorted(train + validation) == sorted(part)
        sides += [{source for source, _ in train}, {source for source, _ in validation}]
        assert sides[-1]
        assert not sides[-2] & sides[-1]
    assert sides[2] <= sides[0] | {"another"}
    assert sides[3] <= sides[1] | {"another"}


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5])
def test_about_the_asked_share_is_held_out(folder, cache, share):
    pairs = [(f"{number} bottles", "b") for number in range(4000)]
    config = PairsConfig(train=(str(write(folder, "share.tsv", tsv(pairs))),), held_out=share)
    count = len(encode_anew(config, [BYTES, BYTES], cache).validation.source_lengths)
    assert abs(count - 4000 * share) < 5 * (4000 * share * (1 - share)) ** 0.5  # five deviations of a fair draw


def test_digits_are_made_once_and_validated_on_others(folder, cache):
    config = DigitsConfig(task="reverse", max_length=6, pairs=200, validation_pairs=20)
    digits = VocabularyConfig(kind="characters", symbols=10)
    corpus = encode_anew(config, [digits, digits], cache)
    train, validation = decoded(corpus, corpus.train), decoded(corpus, corpus.validation)
    assert (len(train), len(validation)) == (200, 20)
    assert not {source for source, _ in train} & {source for source, _ in validation}
    assert all(target == source[::-1] for source, target in train + validation)
    assert is_used_again(config, [digits, digits], cache)


# Mistakes


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.txt", b"a\nb\n\xff\n", "a.txt, line 3: not UTF-8"),
        ("a.txt", b"a\n\xc3", "a.txt, line 2: not UTF-8"),
        ("a.tsv", b"a\tb\n\na b\n", "a.tsv, line 3: no tab"),
        ("a.tsv", b"a\tb\na\t\xffb\n", "a.tsv, line 2: not UTF-8"),
        ("a.tsv.gz", None, r"a.tsv.gz: cut short"),
        ("a.txt.xz", None, r"a.txt.xz: cut short"),
    ],
)
def test_a_mistake_in_a_file_is_one_line_that_names_it(folder, cache, name, data, message):
    file = write(folder, name, b"some\twords\n" * 100 if data is None else data)
    if data is None:
        file.write_bytes(file.read_bytes()[:-9])
    if "tsv" in name:
        config, vocabularies = PairsConfig(train=(str(file),)), [BYTES, BYTES]
    else:
        config, vocabularies = TextConfig(train=(str(file),), window=1, context=0), [CHARACTERS]
    with pytest.raises(ValueError, match=message) as raised:
        encode_anew(config, vocabularies, cache)
    assert str(raised.value).startswith(str(folder))
    assert len(str(raised.value).splitlines()) == 1
    assert not (cache / MANIFEST).exists()


@pytest.mark.parametrize(
    "config",
    [
        TextConfig(train=("nowhere.txt",)),
        TextConfig(train=("/dev/null",), validation=("nowhere.txt",)),
        PairsConfig(train=("nowhere.txt",)),
        PairsConfig(train=("/dev/null",), validation=("nowhere.txt",)),
        PairsConfig(train_source=("/dev/null",), train_target=("nowhere.txt",)),
    ],
)
def test_a_missing_file_is_named(cache, config):
    with pytest.raises(FileNotFoundError, match=r"nowhere\.txt"):
        encode_anew(config, [BYTES, BYTES], cache)


# The cache


def is_used_again(config: DataConfig, vocabularies: list[VocabularyConfig], cache: Path) -> bool:
    """Whether encoding once more leaves the cache as it is; in either case the ids must be those of a fresh one."""
    before = {file.name: (file.stat().st_ino, file.stat().st_mtime_ns) for file in cache.iterdir()}
    told: list[int] = []
    again = encode_corpus(config, vocabularies, cache, told.append)
    after = {file.name: (file.stat().st_ino, file.stat().st_mtime_ns) for file in cache.iterdir()}
    fresh = encode_corpus(config, vocabularies, cache.with_name(f"fresh {next(numbers)}"))
    assert again.vocabularies == fresh.vocabularies
    assert again.notes == fresh.notes
    assert same_ids(again, fresh)
    assert (before == after) == (not told)
    return not told


def same_ids(a: EncodedCorpus, b: EncodedCorpus) -> bool:
    def ids(split: object) -> list[list[int]]:
        return [value.tolist() for value in vars(split).values()]

    return ids(a.train) == ids(b.train) and ids(a.validation) == ids(b.validation)


def test_a_text_is_encoded_again_only_when_something_changed(tmp_path):
    cache, train, other = tmp_path / "cache", write(tmp_path, "train", "abc" * 40), write(tmp_path, "other", "abd" * 9)
    config = TextConfig(train=(str(train),), window=5, context=0)
    encode_corpus(config, [CHARACTERS], cache)
    assert is_used_again(config, [CHARACTERS], cache)
    write(tmp_path, "train", "abcd" * 40)  # another size
    assert not is_used_again(config, [CHARACTERS], cache)
    assert is_used_again(config, [CHARACTERS], cache)
    stat = train.stat()
    write(tmp_path, "train", "dcba" * 40)  # the same size, another time
    os.utime(train, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
    assert not is_used_again(config, [CHARACTERS], cache)
    for vocabulary in (BYTES, VocabularyConfig(kind="characters", symbols=2)):
        assert not is_used_again(config, [vocabulary], cache)
        assert is_used_again(config, [vocabulary], cache)
    for changes in ({"held_out": 0.2}, {"validation": (str(other),)}, {"train": (str(other),)}):
        changed = dataclasses.replace(config, **changes)
        assert not is_used_again(changed, [CHARACTERS], cache)
        assert is_used_again(changed, [CHARACTERS], cache)


def test_pairs_are_encoded_again_only_when_something_changed(tmp_path):
    cache, pairs = tmp_path / "cache", [(f"{number}", "abc" * (number % 4)) for number in range(200)]
    config = PairsConfig(train=(str(write(tmp_path, "train.tsv", tsv(pairs))),), held_out=0.2)
    encode_corpus(config, [BYTES, CHARACTERS], cache)
    assert is_used_again(config, [BYTES, CHARACTERS], cache)
    write(tmp_path, "train.tsv", tsv(pairs[1:]))
    assert not is_used_again(config, [BYTES, CHARACTERS], cache)
    assert not is_used_again(config, [CHARACTERS, BYTES], cache)
    for changes in ({"max_length": 5}, {"max_ratio": 2.0}, {"held_out": 0.5}):
        changed = dataclasses.replace(config, **changes)
        assert not is_used_again(changed, [BYTES, BYTES], cache)
        assert is_used_again(changed, [BYTES, BYTES], cache)


@pytest.mark.parametrize("kind", ["text", "pairs"])
def test_an_interrupted_encoding_is_done_again(tmp_path, kind):
    if kind == "text":
        config, vocabularies = TextConfig(train=(str(write(tmp_path, "a", "ab" * 50)),), window=5, context=0), [BYTES]
    else:
        config, vocabularies = PairsConfig(train=(str(write(tmp_path, "a", "a\tb\n" * 50)),)), [BYTES, BYTES]
    cache = tmp_path / "cache"

    def interrupt(count: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        encode_corpus(config, vocabularies, cache, interrupt)
    assert not (cache / MANIFEST).exists()
    encode_corpus(config, vocabularies, cache)
    assert is_used_again(config, vocabularies, cache)
    (cache / MANIFEST).unlink()
    assert not is_used_again(config, vocabularies, cache)


def test_the_manifest_appears_whole_or_not_at_all(tmp_path, monkeypatch):
    """A disk that fills up while it is written leaves no half of it behind, which no later run could read."""
    config = TextConfig(train=(str(write(tmp_path, "a", "ab" * 50)),), window=5, context=0)
    whole = Path.write_text

    def half(file: Path, text: str, **options: str) -> None:
        whole(file, text[: len(text) // 2], **options)
        raise OSError(28, "No space left on device", str(file))

    monkeypatch.setattr(Path, "write_text", half)
    with pytest.raises(OSError, match="No space left"):
        encode_corpus(config, [BYTES], tmp_path / "cache")
    monkeypatch.undo()
    encode_corpus(config, [BYTES], tmp_path / "cache")
    assert json.loads((tmp_path / "cache" / MANIFEST).read_text())["format"] == encoding.FORMAT


def test_the_cache_is_mapped_and_never_written_back(folder, cache):
    config = TextConfig(train=(str(write(folder, "mapped", "ab" * 50)),), window=5, context=0)
    corpus = encode_anew(config, [BYTES], cache)
    corpus.train.tokens[:5] = 0
    assert 0 not in encode_corpus(config, [BYTES], cache).train.tokens
