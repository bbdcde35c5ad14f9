"""Text to ids and back."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bytenet.vocabulary import (
    BEGIN,
    END,
    PAD,
    UNKNOWN,
    Bytes,
    Characters,
    TextWriter,
    VocabularyConfig,
    vocabulary_from_json,
)

any_text = st.text(st.characters(exclude_categories=()))  # lone surrogates too


@given(any_text)
def test_bytes_cover_every_text(text):
    assert Bytes().decode(Bytes().encode(text)) == text


@given(st.binary())
def test_bytes_cover_every_byte_string(data):
    vocabulary = Bytes()
    ids = vocabulary.encode(data)
    assert vocabulary.decode_bytes(ids) == data
    assert not {PAD, BEGIN, END} & set(ids)
    assert all(id_ < len(vocabulary) for id_ in ids)


@given(st.binary(min_size=1), st.binary())
def test_fewer_bytes_cover_the_texts_made_of_them(corpus, data):
    vocabulary = Bytes.from_corpus([corpus], symbols=200)
    assert vocabulary.decode_bytes(vocabulary.encode(corpus)) == corpus
    for byte, id_ in zip(data, vocabulary.encode(data), strict=True):
        assert (id_ == UNKNOWN) == (byte not in corpus)


@given(any_text)
def test_characters_cover_the_texts_made_of_them(text):
    vocabulary = Characters.from_corpus([text], symbols=1000)
    assert vocabulary.decode(vocabulary.encode(text)) == text


@given(any_text, any_text)
def test_an_unknown_character_is_no_padding(corpus, text):
    vocabulary = Characters.from_corpus([corpus], symbols=5)
    ids = vocabulary.encode(text)
    assert len(ids) == len(text)
    for character, id_ in zip(text, ids, strict=True):
        assert id_ > UNKNOWN if character in vocabulary.symbols else id_ == UNKNOWN
        assert id_ != PAD


@given(any_text, any_text)
def test_unknown_symbols_are_counted(corpus, text):
    characters, some_bytes = Characters.from_corpus([corpus], symbols=5), Bytes.from_corpus([corpus], symbols=5)
    data = text.encode("utf-8", "surrogatepass")
    expected = sum(character not in characters.symbols for character in text)
    assert characters.count_unknown(characters.encode_array(text)) == expected
    assert some_bytes.count_unknown(some_bytes.encode_array(text)) == sum(b not in some_bytes.symbols for b in data)
    assert Bytes().count_unknown(Bytes().encode_array(text)) == 0


@given(st.one_of(st.binary(), st.text().map(str.encode)))
@example(b"\x00\x01\xff")  # in the full vocabulary, 0x00 has the id that stands for UNKNOWN in the others
def test_all_bytes_know_every_byte(data):
    assert Bytes().count_unknown(Bytes().encode_array(data)) == 0


def written(vocabulary: Bytes | Characters, ids: list[int]) -> list[str]:
    writer = TextWriter(vocabulary)
    return [*(writer.write(id_) for id_ in ids), writer.close()]


@given(st.one_of(st.text().map(str.encode), st.binary(), st.lists(st.sampled_from("ä€😀".encode())).map(bytes)))
@example("a😀".encode()[:-1])
@example(b"\xe2\x82\xe2\x82\xac")
def test_bytes_written_one_by_one_are_the_text(data):
    """Whatever the bytes; and each character is there as soon as its last byte is."""
    pieces = written(Bytes(), Bytes().encode(data))
    assert "".join(pieces) == data.decode("utf-8", "replace")
    text = ""
    for end, piece in enumerate(pieces[:-1], start=1):
        text += piece
        whole = data[:end].decode("utf-8", "replace")
        assert whole.startswith(text)
        assert text == whole or whole[len(text) :] == "\N{REPLACEMENT CHARACTER}" * (len(whole) - len(text))


@given(st.text())
def test_characters_of_a_text_are_written_whole(text):
    pieces = written(Bytes(), Bytes().encode(text))
    assert [piece for piece in pieces if piece] == list(text)
    assert pieces[-1] == ""


@given(any_text, any_text)
def test_characters_written_one_by_one_are_the_text(corpus, text):
    vocabulary = Characters.from_corpus([corpus], symbols=20)
    ids = [BEGIN, *vocabulary.encode(text), END, PAD]
    pieces = written(vocabulary, ids)
    assert "".join(pieces) == vocabulary.decode(ids)
    assert all(len(piece) == 1 for piece in pieces[1:-3])


def test_the_most_frequent_characters_are_kept():
    vocabulary = Characters.from_corpus(["banana", "bandana"], symbols=2)
    assert set(vocabulary.symbols) == {"a", "n"}
    assert vocabulary.decode(vocabulary.encode("nab")) == "na\N{REPLACEMENT CHARACTER}"


def test_equally_frequent_characters_are_kept_in_a_fixed_order():
    assert Characters.from_corpus(["dcba"], 2).symbols == Characters.from_corpus(["abcd"], 2).symbols == ("a", "b")


def test_control_symbols_are_not_text():
    for vocabulary in (Bytes(), Characters("ab")):
        assert vocabulary.decode([BEGIN, *vocabulary.encode("ab"), END, PAD, PAD]) == "ab"


@pytest.mark.parametrize("vocabulary", [Bytes(), Characters("abc")])
def test_an_id_outside_the_vocabulary_is_refused(vocabulary):
    for id_ in (-1, len(vocabulary)):
        with pytest.raises(ValueError, match="outside the vocabulary"):
            vocabulary.decode([id_])


@pytest.mark.parametrize("vocabulary", [Bytes(), Bytes(b"abc"), Characters("aä😀\ud800")])
def test_json_keeps_a_vocabulary(vocabulary):
    assert vocabulary_from_json(json.loads(json.dumps(vocabulary.to_json()))) == vocabulary


@pytest.mark.parametrize(
    "value",
    [
        None,
        {},
        {"kind": "words", "symbols": []},
        {"kind": "bytes"},
        {"kind": "bytes", "symbols": [256]},
        {"kind": "bytes", "symbols": [1, 1]},
        {"kind": "characters", "symbols": ["ab"]},
        {"kind": "characters", "symbols": [1]},
        {"kind": "characters", "symbols": ["a", "a"]},
    ],
)
def test_what_is_no_vocabulary_is_refused(value):
    with pytest.raises(ValueError, match=r"symbol|vocabulary"):
        vocabulary_from_json(value)


@pytest.mark.parametrize(
    ("config", "vocabulary"),
    [
        (VocabularyConfig(), Bytes()),
        (VocabularyConfig(kind="bytes", symbols=3), Bytes(b"abc")),
        (VocabularyConfig(kind="characters", symbols=3), Characters("abc")),
    ],
)
def test_a_config_knows_its_vocabularys_size(config, vocabulary):
    assert config.size == len(vocabulary)


@pytest.mark.parametrize("vocabulary", [Characters("aß9 -.é"), Bytes(), Bytes(b"a9 -.\xe9")])
def test_words_are_made_of_letters_and_digits(vocabulary):
    separators = {vocabulary.decode([i]) for i in vocabulary.separators()}
    assert separators >= {" ", "-", "."}
    assert not any(symbol.isalnum() for symbol in separators)
    assert all(symbol.isascii() for symbol in separators)
    assert not set(vocabulary.separators()) & {PAD, BEGIN, END}
