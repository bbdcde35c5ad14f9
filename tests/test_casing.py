"""Ways to read a text: itself always, and as a sentence where its letters are in capitals or begin small."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bytenet.casing import Reading, readings, usual_names
from bytenet.decoding.config import DecodingConfig


@given(st.text(), st.booleans())
def test_the_first_reading_is_the_text_itself(text, begins):
    first, *others = readings(text, begins=begins)
    assert first == Reading(text)
    assert len(others) <= 1
    assert all(other.text != text and other.text.casefold() == text.casefold() for other in others)


@given(st.text(st.sampled_from("abc AB.!é")), st.booleans())
def test_a_sentence_is_read_in_one_way(rest, begins):
    text = f"It is {rest}"
    assert readings(text, begins=begins) == (Reading(text),)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("i am tired", "I am tired"),
        ("é vero", "É vero"),
        ("“so it is”, he said", "“So it is”, he said"),
        (" hello. how are you? fine!", " Hello. How are you? Fine!"),
        ("he said: “stop it!” nobody did", "He said: “stop it!” Nobody did"),
        ("www.example.com is down", "Www.example.com is down"),
    ],
)
def test_what_begins_small_is_read_with_capitals_too(text, read):
    assert readings(text) == (Reading(text), Reading(read))


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("THE CAT SLEEPS.", "The cat sleeps."),
        ("IT IS 5 PM!", "It is 5 pm!"),
        ("ÜBERMUT", "Übermut"),
    ],
)
def test_what_is_in_capitals_is_read_as_a_sentence_too_and_given_back_in_capitals(text, read):
    as_it_is, other = readings(text)
    assert other == Reading(read, in_capitals=True)
    assert (as_it_is.restored("Große Stadt"), other.restored("Große Stadt")) == ("Große Stadt", "GROSSE STADT")


def test_what_goes_on_does_not_begin():
    assert readings("and so on", begins=False) == (Reading("and so on"),)
    assert readings("AND SO ON", begins=False) == (Reading("AND SO ON"), Reading("and so on", in_capitals=True))


@pytest.mark.parametrize("text", ["", "I", "A.", "3 dogs", "5 pm", "12.50", "日本語", "So it is.", "McDonald is here"])
def test_other_texts_are_read_as_they_are(text):
    assert readings(text) == (Reading(text),)


NAMES = {"i": "I", "eu": "EU", "mcdonald": "McDonald"}


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (
            "mcdonald said that i and the eu can't agree; who am i?",
            "McDonald said that I and the EU can't agree; who am I?",
        ),
        ("WHO AM I?", "Who am I?"),
        ("i'm in the eu-zone", "I'm in the EU-zone"),
    ],
)
def test_names_are_written_as_they_are_usually(text, read):
    assert readings(text, names=NAMES)[1].text == read


def test_names_change_nothing_that_is_a_sentence_or_goes_on():
    assert readings("So am i.", names=NAMES) == (Reading("So am i."),)
    assert readings("and so am i", names=NAMES, begins=False) == (Reading("and so am i"),)


def test_names_are_what_has_capitals_inside_of_sentences():
    texts = [
        "Then I saw Tom.",
        "The EU? Tom, I think, saw may bells in May.",
        "YOU AND ME",
        "Who did Tom and I see? The EU",
    ]
    # may is not always written May, and what begins a sentence does not count
    assert usual_names(texts, least=1) == ("I", "Tom", "EU")
    assert usual_names(texts, least=3) == ("I",)
    assert usual_names(texts, least=1, most=2) == ("I", "Tom")
    assert usual_names([*texts, "So said the tom."], least=1) == ("I", "EU")
    assert usual_names([*texts, "So said the tom."], least=1, share=0.6) == ("I", "Tom", "EU")


@given(st.lists(st.text(st.sampled_from("aA ,.²Ⅳé_1") | st.characters(), max_size=12)))
def test_a_recipe_takes_whatever_names_there_are(texts):
    names = usual_names([f"see {text}" for text in texts], least=1)
    assert DecodingConfig(names=names).names == names


def test_a_name_is_a_word():
    with pytest.raises(ValueError, match='names must be words of letters, not "New York"'):
        DecodingConfig(names=("York", "New York"))
