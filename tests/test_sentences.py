"""Lines cut into sentences: nothing is lost, nothing is too long, and full stops that end nothing are left alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bytenet.sentences import pieces, sentence_pairs

texts = st.text(st.sampled_from("aB1 .!?,;\"'(。\n\té")) | st.text()


@given(texts, st.integers(1, 30))
def test_joined_pieces_are_the_text_and_none_is_too_long(text, longest):
    found = list(pieces(text, longest))
    assert "".join(found) == text
    assert all(0 < len(piece) <= longest for piece in found)


@pytest.mark.parametrize(
    "sentences",
    [
        ["Hello. ", "How are you? ", "I am fine!"],
        ["He said: “Stop it!” ", "Nobody did."],
        ["(It rained.) ", "We left."],
        ["Well... ", "That is that."],
        ["它很好。", "我喜欢它！", "是吗？"],
        ["Was ist das? ", "Ärger."],
        ["It cost 3.5 million in 1999. ", "Then it was sold."],
        ["Dr. Smith and Mrs. Jones met J. R. Miller, e.g. in St. Paul."],
        ["Am 3. Oktober kam z.B. Herr Prof. Meier."],
        ["The site is www.example.com and it works, i.e. it answers."],
        ["he wrote it all small. nobody knew where it ended."],
        ["No full stop at all"],
    ],
)
def test_sentences_are_found(sentences):
    assert list(pieces("".join(sentences), 200)) == sentences


@given(st.lists(st.sampled_from(["word", "longer", "a,", "of"]), min_size=10, max_size=60))
def test_a_long_sentence_is_cut_between_words(words):
    for piece in list(pieces(" ".join(words), 20))[:-1]:
        assert piece.endswith(" ")


def test_a_clause_is_preferred_to_a_word():
    text = "When the long meeting was over, everybody went back to the village."
    assert list(pieces(text, 40)) == ["When the long meeting was over, ", "everybody went back to the village."]


def test_a_word_that_is_too_long_is_cut_anywhere():
    assert list(pieces("a" * 45, 20)) == ["a" * 20, "a" * 20, "a" * 5]


def test_a_long_text_is_cut_in_linear_time():
    """A million characters: quadratic work would take minutes."""
    assert len(list(pieces("A short one. " * 80_000, 100))) == 80_000


@given(texts, texts)
def test_pairs_of_sentences_joined_are_the_texts(source, target):
    pairs = sentence_pairs(source, target)
    assert ("".join(one for one, _ in pairs), "".join(other for _, other in pairs)) == (source, target)


def test_sentences_are_paired_only_if_there_are_as_many():
    source, target = "He said: “Stop it!” Nobody did.", "Er sagte: „Hört auf!“ Niemand tat es."
    assert len(sentence_pairs(source, target)) == 2
    assert sentence_pairs(source, target + " Nein.") == [(source, target + " Nein.")]
