"""Bits of files: exact counts of bytes and characters, in bounded memory, with a signature."""

import math
import tracemalloc
from pathlib import Path

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bytenet import __version__
from bytenet.describe import count_parameters
from bytenet.evaluation import files
from bytenet.evaluation.bits import CPU_CHUNK, text_bits
from bytenet.evaluation.files import file_bits, file_exact
from bytenet.model import LanguageModel, LanguageModelConfig, Translator, TranslatorConfig
from bytenet.model.blocks import StackConfig
from bytenet.model.translator import UnfoldingConfig
from bytenet.vocabulary import BEGIN, END, UNKNOWN, Bytes, Characters, Vocabulary, VocabularyConfig
from tests.data.strategies import suffixes, texts, write
from tests.model.strategies import in_double

STACK = StackConfig(num_blocks=2, dilations=(1, 2))
EXACT = {"rel": 1e-9, "abs": 1e-9}
sentences = st.text(st.sampled_from("abcäx😀 "), max_size=8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


def config_of(vocabulary: Vocabulary) -> VocabularyConfig:
    return VocabularyConfig(kind=vocabulary.kind, symbols=len(vocabulary.symbols))


def language_model(vocabulary: Vocabulary) -> LanguageModel:
    return in_double(LanguageModelConfig(vocabulary=config_of(vocabulary), inner_channels=6, decoder=STACK))


def translator(source: Vocabulary, target: Vocabulary) -> Translator:
    return in_double(
        TranslatorConfig(
            source_vocabulary=config_of(source),
            target_vocabulary=config_of(target),
            inner_channels=6,
            encoder=STACK,
            decoder=STACK,
            unfolding=UnfoldingConfig(multiple=4),
        )
    )


@pytest.fixture(scope="module")
def bytes_model() -> LanguageModel:
    return language_model(Bytes())


def bits_at_once(model: LanguageModel, ids: list[int]) -> float:
    return text_bits(model, [torch.tensor(ids)]).total


# Texts


@pytest.mark.parametrize(
    ("data", "num_characters"),
    [
        (b"plain ASCII\r\n", 13),
        ("ÄÖÜäöüß".encode(), 7),
        ("a😀b".encode(), 3),
        ("e\u0301".encode(), 2),  # characters are code points
        (b"a\xffb", 3),  # what is not UTF-8 counts as the U+FFFD that stands for it
        (b"\x80", 1),
        (b"\x80\x80\x80", 3),
        ("a😀".encode()[:-1], 2),
    ],
)
def test_bytes_and_characters_are_counted(folder, bytes_model, data, num_characters):
    file = write(folder, "counted.txt", data)
    for chunk in (1, 2, 3, 100):
        result = file_bits(bytes_model, [Bytes()], file, chunk=chunk)
        assert (result["bytes"], result["characters"], result["unknown"]) == (len(data), num_characters, 0)
        assert result["bits"] == pytest.approx(bits_at_once(bytes_model, Bytes().encode(data)), **EXACT)
        assert result["bits_per_byte"] == pytest.approx(result["bits"] / len(data), **EXACT)
        assert result["bits_per_character"] == pytest.approx(result["bits"] / num_characters, **EXACT)


@given(st.one_of(texts.map(str.encode), st.binary()).filter(bool), suffixes, st.integers(1, 9))
@example(b"\xe2\x82\xe2\x82", "", 1)
@example(b"\xf0\x9f\x98", "", 2)
def test_any_file_has_bits_and_chunks_do_not_matter(folder, bytes_model, data, suffix, chunk):
    file = write(folder, f"any{suffix}", data)
    result = file_bits(bytes_model, [Bytes()], file, chunk=chunk)
    assert result["bytes"] == len(data)
    assert result["characters"] == len(data.decode("utf-8", "replace"))
    assert result["bits"] == pytest.approx(bits_at_once(bytes_model, Bytes().encode(data)), **EXACT)


@given(texts.filter(bool), st.integers(1, 9), st.sampled_from(["ab", "ä😀\n", "xyz"]))
def test_unknown_characters_are_counted_and_have_bits_of_their_own(folder, text, chunk, symbols):
    vocabulary = Characters(symbols)
    model = language_model(vocabulary)
    result = file_bits(model, [vocabulary], write(folder, "unknown.txt", text), chunk=chunk)
    assert result["bytes"] == len(text.encode())
    assert result["characters"] == len(text)
    assert result["unknown"] == sum(character not in symbols for character in text)
    assert f"|unknown:{result['unknown']}|" in result["signature"]
    assert result["bits"] == pytest.approx(bits_at_once(model, vocabulary.encode(text)), **EXACT)


@pytest.mark.parametrize(
    "vocabulary",
    [Bytes(range(100)), Bytes(range(255)), *(Characters(map(chr, range(n))) for n in (100, 255, 256))],
    ids=lambda vocabulary: f"{len(vocabulary.symbols)} {vocabulary.kind}",
)
def test_unknown_symbols_are_counted_whatever_the_size_of_the_vocabulary(folder, vocabulary):
    """Also where there are as many ids as for all bytes, which know no unknown symbol."""
    unknown = "\u1234" * 3 if vocabulary.kind == "characters" else b"\xff" * 3
    file = write(folder, "strange.txt", unknown)
    assert file_bits(language_model(vocabulary), [vocabulary], file)["unknown"] == 3
    known = write(folder, "known.txt", "\x03" * 5)  # in the full vocabularies, its id is not that of UNKNOWN
    assert file_bits(language_model(vocabulary), [vocabulary], known)["unknown"] == 0


def test_all_bytes_know_no_unknown_symbol(folder, bytes_model):
    """The id of UNKNOWN is that of the byte 0 there."""
    assert Bytes().encode(b"\x00") == [UNKNOWN]
    assert file_bits(bytes_model, [Bytes()], write(folder, "zeros", b"\x00" * 9))["unknown"] == 0


def test_what_is_not_utf_8_cannot_be_read_as_characters(folder):
    vocabulary = Characters("ab")
    file = write(folder, "bad.txt", b"a\nb\xff")
    with pytest.raises(ValueError, match="line 2: not UTF-8"):
        file_bits(language_model(vocabulary), [vocabulary], file)


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz"])
def test_an_empty_file_is_one_clear_line(folder, bytes_model, suffix):
    file = write(folder, f"empty{suffix}", "")
    characters = Characters("ab")
    calls = [
        lambda: file_bits(bytes_model, [Bytes()], file),
        lambda: file_bits(language_model(characters), [characters], file),
        lambda: file_bits(translator(characters, characters), [characters] * 2, file),
        lambda: file_exact(translator(characters, characters), [characters] * 2, file),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=r": empty$") as raised:
            call()
        assert str(raised.value) == f"{file}: empty"


def test_a_missing_file_is_named(folder, bytes_model):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        file_bits(bytes_model, [Bytes()], folder / "nowhere")


def test_memory_does_not_grow_with_a_text(folder):
    """What Python holds, and the longest piece that a model ever sees."""
    vocabulary = Bytes()
    model = in_double(LanguageModelConfig(inner_channels=2, decoder=StackConfig(num_blocks=1))).float()
    longest: list[int] = []
    model.register_forward_pre_hook(lambda _, inputs: longest.append(inputs[0].shape[1]))

    def peak(num_bytes: int) -> int:
        file = write(folder, "growing", b"0123456789abcdef" * (num_bytes // 16))
        tracemalloc.start()
        assert file_bits(model, [vocabulary], file, chunk=1 << 13)["bytes"] == num_bytes
        traced = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return traced

    peak(1 << 14)  # what is made once
    assert peak(1 << 20) < peak(1 << 17) + 300_000  # 900 kB more to read; the rest of the process may need some too
    assert max(longest) == 1 << 13


def test_the_default_chunk_bounds_what_a_model_reads_at_once(folder):
    model = in_double(LanguageModelConfig(inner_channels=2, decoder=StackConfig(num_blocks=1))).float()
    seen: list[int] = []
    model.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].shape[1]))
    file_bits(model, [Bytes()], write(folder, "chunks", b"x" * 10_000))
    assert sum(seen) == 10_000
    assert max(seen) == CPU_CHUNK


# Pairs


@torch.no_grad()
def pair_bits_by_hand(model: Translator, source: list[int], target: list[int]) -> float:
    logits, _ = model(
        torch.tensor([[BEGIN, *target]]), model.start(torch.tensor([source], dtype=torch.long), [len(source)])
    )
    logs = logits[0].log_softmax(dim=-1)
    return -sum(logs[i, token].item() for i, token in enumerate([*target, END])) / math.log(2)


@given(st.lists(st.tuples(sentences, sentences), min_size=1, max_size=9), suffixes, st.integers(1, 4))
@example([("", "")], "", 1)
@example([("a", ""), ("b", "")], "", 9)
@example([("", "a")], "", 9)
def test_targets_have_bits_given_their_sources(folder, pairs, suffix, at_once):
    """Each target with its END, which counts as a byte and a character: the line's end."""
    source, target = Characters("abc ä"), Bytes()
    model = translator(source, target)
    file = write(folder, f"pairs.tsv{suffix}", "".join(f"{left}\t{right}\n" for left, right in pairs))
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(files, "PAIRS_AT_ONCE", at_once)
        result = file_bits(model, [source, target], file)
    expected = sum(pair_bits_by_hand(model, source.encode(left), target.encode(right)) for left, right in pairs)
    assert result["bits"] == pytest.approx(expected, **EXACT)
    assert result["bytes"] == sum(len(right.encode()) + 1 for _, right in pairs)
    assert result["characters"] == sum(len(right) + 1 for _, right in pairs)
    assert result["bits_per_byte"] == pytest.approx(expected / result["bytes"], **EXACT)
    assert result["bits_per_character"] == pytest.approx(expected / result["characters"], **EXACT)


def test_unknown_characters_of_targets_are_counted(folder):
    vocabulary = Characters("ab")
    file = write(folder, "unknown.tsv", "xxx\tab\na\txyb\n")  # those of sources have no bits
    assert file_bits(translator(vocabulary, vocabulary), [vocabulary] * 2, file)["unknown"] == 2


def test_empty_lines_and_a_line_without_a_tab(folder):
    vocabulary = Bytes()
    model = translator(vocabulary, vocabulary)
    assert file_bits(model, [vocabulary] * 2, write(folder, "empty.tsv", "\n\n"))["characters"] == 2
    file = write(folder, "no tab.tsv", "a\tb\nab\n")
    for score in (file_bits, file_exact):
        with pytest.raises(ValueError, match=r"no tab\.tsv, line 2: no tab"):
            score(model, [vocabulary] * 2, file)


@given(st.lists(sentences, min_size=1, max_size=8), st.sampled_from([-50.0, 1.0, 50.0]))
@settings(max_examples=12)
def test_the_exact_share_is_that_of_targets_written_to_the_letter(folder, sources, bonus):
    """The targets are what the model itself writes, every other one spoilt by a character more."""
    vocabulary = Characters("abcäx😀 ")
    model = translator(vocabulary, vocabulary)
    with torch.no_grad():
        model.decoder.head.logits.bias[END] += bonus
        model.decoder.head.logits.bias[:END] -= 1e3  # nothing but text
        model.decoder.head.logits.bias[UNKNOWN] -= 1e3
    targets, right = [], 0
    for number, source in enumerate(sources):
        text, ended = write_by_hand(model, vocabulary, source)
        if not ended:
            targets.append(text[:-1])  # the model does not end there
        elif number % 2:
            targets.append(f"{text}a")
        else:
            targets.append(text)
            right += 1
    lines = [f"{source}\t{target}\n" for source, target in zip(sources, targets, strict=True)]
    result = file_exact(model, [vocabulary] * 2, write(folder, "exact.tsv", "".join(lines)))
    assert result["pairs"] == len(sources)
    assert result["exact"] == right / len(sources)


@torch.no_grad()
def write_by_hand(model: Translator, vocabulary: Characters, source: str) -> tuple[str, bool]:
    """What the model writes, at most 12 characters, and whether it has ended."""
    ids, written = vocabulary.encode(source), [BEGIN]
    while len(written) <= 12:
        logits, _ = model(torch.tensor([written]), model.start(torch.tensor([ids], dtype=torch.long), [len(ids)]))
        token = int(logits[0, -1].argmax())
        if token == END:
            return vocabulary.decode(written), True
        written.append(token)
    return vocabulary.decode(written), False


# The signature


def test_a_signature_says_what_was_measured(folder):
    text, pairs = write(folder, "news.txt", "aab"), write(folder, "news.tsv", "a\tb\n")
    vocabulary = Characters("ab")
    for model, file in ((language_model(vocabulary), text), (translator(vocabulary, vocabulary), pairs)):
        result = file_bits(model, [vocabulary] * 2, file)
        what, *facts = result["signature"].split("|")
        known = dict(fact.split(":") for fact in facts)
        assert what == "bits"
        assert known["data"] == file.name
        assert known["parameters"] == str(count_parameters(model))
        assert known["bytenet"] == __version__
        assert known["context"] == ("full" if file == text else "source and target, END counted")
        assert "precision" not in known
        signature = file_bits(model.float(), [vocabulary] * 2, file, dtype=torch.bfloat16)["signature"]
        assert "|precision:bfloat16|" in signature
    exact = file_exact(model, [vocabulary] * 2, pairs)["signature"]
    assert exact.startswith("exact|data:news.tsv|decoding:greedy|parameters:")
    assert exact.endswith(f"|bytenet:{__version__}")
