"""The models that come with the package."""

import pytest

from bytenet import load
from bytenet.model_folder import PRETRAINED, built_in
from bytenet.pipeline import Pipeline

MOST_MEGABYTES = {"text": 20, "en-de": 40}


@pytest.fixture(scope="module")
def text() -> Pipeline:
    return load("text", device="cpu")


@pytest.mark.parametrize("name", built_in())
def test_a_built_in_model_is_whole_small_and_has_a_card(name):
    folder = PRETRAINED / name
    assert load(name, device="cpu").name == name  # reads every file and compares its checksum
    assert sum(file.stat().st_size for file in folder.iterdir()) <= MOST_MEGABYTES[name] * 1_000_000
    card = (folder / "README.md").read_text(encoding="utf-8")
    for part in ("## Data and licence", "## Training", "## Measured", "## Limits"):
        assert part in card


def test_simple_sentences_come_out_right():
    model = load("en-de", device="cpu")
    sentences = {
        "The cat is sleeping on the sofa.": "Die Katze schläft auf dem Sofa.",
        "Where can I buy a ticket to Berlin?": "Wo kann ich eine Fahrkarte nach Berlin kaufen?",
        "She has lived in Munich for three years.": "Sie lebt schon seit drei Jahren in München.",
        "I lost my keys. They must be somewhere in the house.": "Ich habe meine Schlüssel verloren. "
        "Sie müssen irgendwo im Haus sein.",
    }
    assert model.translate(list(sentences)) == list(sentences.values())
    assert model.translate("THE CAT IS SLEEPING ON THE SOFA.") == "DIE KATZE SCHLÄFT AUF DEM SOFA."
    assert model.translate("the cat is sleeping on the sofa.") == "Die Katze schläft auf dem Sofa."
    assert model.translate("where can i buy a ticket to berlin?") == sentences["Where can I buy a ticket to Berlin?"]
    assert "".join(model.stream("i am tired.")) == model.translate("i am tired.", beam=1) == "Ich bin müde."


def test_text_knows_english_from_what_only_looks_like_it(text):
    written = "The river flows through the city, and its banks were settled in the nineteenth century."
    english, mistyped, backwards = text.score([written, written.replace("e", "q"), written[::-1]])
    assert english.bits_per_character < 2 < mistyped.bits_per_character
    assert english.bits_per_character < 2 < backwards.bits_per_character


def test_text_writes_words_that_it_has_read(text):
    written = "".join(text.generate("The city of ", length=120, temperature=0))
    words = {"the", "of", "and", "in", "a", "is", "was", "to"}
    assert len(words & set(written.lower().split())) >= 3
