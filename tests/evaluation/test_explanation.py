"""What words depend on: labels that give the text back, and sums over what belongs together."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bytenet import Bytes, Characters, LanguageModelConfig, Pipeline, TranslatorConfig
from bytenet.decoding.config import DecodingConfig
from bytenet.evaluation.explanation import BEGIN_LABEL, END_LABEL, MOST_SYMBOLS, HeatMap, explain, words
from bytenet.evaluation.sensitivity import sensitivities
from bytenet.model.blocks import StackConfig
from bytenet.model.translator import UnfoldingConfig
from bytenet.vocabulary import BEGIN, END, VocabularyConfig
from tests.model.strategies import in_double

STACK = StackConfig(num_blocks=2, dilations=(1, 2))
SOURCE, TARGET = Characters("abc ,"), Bytes()
TEXTS = ["ab, c", "zwölf, €  3.14\n"]


@pytest.fixture(scope="module")
def translator():
    config = TranslatorConfig(
        source_vocabulary=VocabularyConfig(kind="characters", symbols=5),
        inner_channels=6,
        encoder=STACK,
        decoder=STACK,
        unfolding=UnfoldingConfig(multiple=4),
    )
    return in_double(config)


@pytest.fixture(scope="module")
def of_bytes():
    return in_double(TranslatorConfig(inner_channels=6, encoder=STACK, decoder=STACK))


@pytest.fixture(scope="module")
def language_model():
    return in_double(LanguageModelConfig(inner_channels=6, decoder=STACK))


# Words


@given(st.text(max_size=20))
@example(" \t a")
@example("\ud800 ¼")
def test_words_joined_are_the_text(text):
    found = words(text)
    assert "".join(found) == text
    assert all(found)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The cat, it sat.", ["The ", "cat", ", ", "it ", "sat", "."]),
        ("don't  pay 3.14!?\n", ["don't  ", "pay ", "3.14", "!?\n"]),
        ("well-known 'word'", ["well-known ", "'", "word", "'"]),
        ("  x\u3000y", ["  ", "x\u3000", "y"]),
        ("हिन्दी में", ["हिन्दी ", "में"]),  # vowel signs are marks, not letters
        ("", []),
    ],
)
def test_spaces_belong_to_the_word_before_them(text, expected):
    assert list(words(text)) == expected


# Heat maps


@pytest.mark.parametrize("by", ["word", "character"])
@pytest.mark.parametrize("ended", [True, False])
def test_labels_joined_are_the_texts(translator, by, ended):
    found = explain(translator, [SOURCE, TARGET], *TEXTS, by=by, ended=ended)
    assert "".join(found.from_source.inputs) == TEXTS[0]
    assert "".join(found.from_target.inputs) == BEGIN_LABEL + TEXTS[1]
    for heat_map in (found.from_source, found.from_target):
        assert "".join(heat_map.outputs) == TEXTS[1] + END_LABEL * ended
        assert heat_map.magnitudes.shape == heat_map.shares.shape == (len(heat_map.inputs), len(heat_map.outputs))


def test_a_character_has_the_sum_of_its_bytes(translator):
    ids = [torch.tensor(vocabulary.encode(text)) for vocabulary, text in zip((SOURCE, TARGET), TEXTS, strict=True)]
    read = torch.cat([torch.tensor([BEGIN]), ids[1]])
    wanted = torch.cat([ids[1], torch.tensor([END])])
    by_source, by_target = sensitivities(translator, ids[0], read, wanted)
    found = explain(translator, [SOURCE, TARGET], *TEXTS, by="character")
    bounds, rows = [0], [0, 1]  # of the outputs, and of BEGIN and the same as inputs
    for character in TEXTS[1]:
        bounds.append(bounds[-1] + len(character.encode()))
        rows.append(rows[-1] + len(character.encode()))
    bounds.append(bounds[-1] + 1)
    for column, (begin, end) in enumerate(pairwise(bounds)):
        of_source = by_source[:, begin:end].sum(dim=1)
        of_target = [by_target[first:last, begin:end].sum() for first, last in pairwise(rows)]
        np.testing.assert_allclose(found.from_source.magnitudes[:, column], of_source)
        np.testing.assert_allclose(found.from_target.magnitudes[:, column], of_target)


def test_a_word_has_the_sum_of_its_characters(translator, language_model):
    for model, vocabularies, texts in (
        (translator, [SOURCE, TARGET], TEXTS),
        (language_model, [TARGET], [TEXTS[1], None]),
    ):
        by_word, by_character = (explain(model, vocabularies, *texts, by=by) for by in ("word", "character"))
        for large, small in (
            (by_word.from_source, by_character.from_source),
            (by_word.from_target, by_character.from_target),
        ):
            if large is not None:
                inputs, outputs = member_of(large.inputs), member_of(large.outputs)
                np.testing.assert_allclose(large.magnitudes, inputs @ small.magnitudes @ outputs.T)


def member_of(labels: tuple[str, ...]) -> np.ndarray:
    """(words, characters): 1 where a word holds a character."""
    holders = [number for number, label in enumerate(labels) for _ in label]
    return (np.arange(len(labels))[:, None] == np.array(holders)).astype(float)


@given(st.text("abc ,", min_size=1, max_size=9), st.text("aä€ .", max_size=9), st.sampled_from(["word", "character"]))
@settings(max_examples=8)
@example("a", "€€€€€€€€€", "character")
def test_columns_have_the_sum_one(translator, source, target, by):
    """But for outputs far behind the source's representation, which depend on nothing of it."""
    found = explain(translator, [SOURCE, TARGET], source + "a", target, by=by)
    np.testing.assert_allclose(found.from_target.shares.sum(axis=0), 1)
    from_source = found.from_source
    depends = from_source.magnitudes.any(axis=0)
    assert depends[0]
    assert (from_source.magnitudes >= 0).all()
    np.testing.assert_allclose(from_source.shares.sum(axis=0), depends)


def test_a_column_of_nothing_stays_nothing():
    heat_map = HeatMap(inputs=("a", "b"), outputs=("c", "d"), magnitudes=np.array([[0.0, 3.0], [0.0, 1.0]]))
    assert heat_map.shares.tolist() == [[0, 0.75], [0, 0.25]]
    assert heat_map.strongest(0, 5) == []
    assert heat_map.strongest(1, 5) == [("a", 0.75), ("b", 0.25)]
    assert heat_map.strongest(1, 1) == [("a", 0.75)]


def test_a_language_model_explains_its_text_by_itself(language_model):
    text = "zwölf Boxkämpfer"
    found = explain(language_model, [TARGET], text, None, by="character")
    assert found.from_source is None
    assert found.from_target.inputs == (BEGIN_LABEL, *text)
    assert found.from_target.outputs == tuple(text)
    assert found.from_target.shares[0, 0] == 1  # BEGIN is all that the first output can see
    sees_itself = np.diag(found.from_target.magnitudes, -1).nonzero()[0]
    assert [text[place] for place in sees_itself] == ["ö", "ä"]  # its second byte, the first one
    assert not np.tril(found.from_target.magnitudes, -2).any()


def test_without_a_target_the_translation_is_explained(translator):
    pipeline = Pipeline(translator, [SOURCE, TARGET])
    (best,) = next(pipeline.translations(["abc"]))
    found = pipeline.explain("abc", by="character")
    assert "".join(found.from_target.outputs) == best.text + END_LABEL * best.ended
    given_ = pipeline.explain("abc", best.text, "character")
    columns = len(found.from_target.outputs)
    np.testing.assert_allclose(given_.from_source.magnitudes[:, :columns], found.from_source.magnitudes)


@pytest.mark.parametrize("ended", [True, False])
def test_what_is_translated_by_sentences_is_explained_by_sentences(of_bytes, ended):
    sources, targets, done = ["Äb, cd.  ", "Be it. ", "Co, "], ["Zwölf. ", "3 €!  ", "Aa"], []
    texts = "".join(sources), "".join(targets)
    found = explain(
        of_bytes, [Bytes(), TARGET], *texts, ended=ended, by="character", by_sentence=True,
        watch=lambda *each: done.append(each),
    )  # fmt: skip
    by_source, by_target = np.zeros(found.from_source.magnitudes.shape), np.zeros(found.from_target.magnitudes.shape)
    row = column = 0
    for source, target in zip(sources, targets, strict=True):
        own = [source.rstrip(), target.rstrip()]
        alone = explain(of_bytes, [Bytes(), TARGET], *own, ended=ended and target == targets[-1], by="character")
        for whole, part, first in (
            (by_source, alone.from_source.magnitudes, row),
            (by_target[1:], alone.from_target.magnitudes[1:], column),
        ):
            whole[first : first + len(part), column : column + part.shape[1]] = part
        by_target[0, column : column + len(alone.from_target.outputs)] = alone.from_target.magnitudes[0]
        row, column = row + len(source), column + len(target)
    np.testing.assert_allclose(found.from_source.magnitudes, by_source)
    np.testing.assert_allclose(found.from_target.magnitudes, by_target)
    number = len(texts[1].encode()) + ended
    assert done[-1] == (number, number)
    assert done == sorted(done)


def test_where_sentences_do_not_pair_the_text_is_explained_as_a_whole(of_bytes):
    texts = "Äb, cd. Be it.", "Aa"
    found = [explain(of_bytes, [Bytes(), TARGET], *texts, by_sentence=each) for each in (True, False)]
    assert (found[0].from_source.magnitudes == found[1].from_source.magnitudes).all()


def test_a_model_that_splits_explains_by_sentences(of_bytes):
    texts, vocabularies = ("Äb, cd. Be it.", "Aa! B."), [Bytes(), TARGET]
    for split in (0, 50):
        found = Pipeline(of_bytes, vocabularies, decoding=DecodingConfig(split=split)).explain(*texts)
        assert found.from_source.magnitudes[0, -2] == 0 if split else found.from_source.magnitudes[0, -2] > 0


def test_what_cannot_be_explained_is_refused(translator, language_model, monkeypatch):
    translating, reading = Pipeline(translator, [SOURCE, TARGET]), Pipeline(language_model, [TARGET])
    monkeypatch.setattr(translating, "translations", lambda texts: pytest.fail("searched in vain"))
    long = "a" * (MOST_SYMBOLS + 1)
    for call, message in (
        (lambda: translating.explain(""), "the source is empty"),
        (lambda: translating.explain(" \n"), "the source is empty"),
        (lambda: reading.explain(""), "the text is empty"),
        (lambda: translating.explain(long), "the source has 501 symbols, and at most 500"),
        (lambda: translating.explain("a", long), "the target has 501 symbols"),
        (lambda: reading.explain("ä" * 251), "the text has 502 symbols"),
        (lambda: reading.explain("a", "b"), "a language model explains a text"),
        (lambda: translating.explain("a", by="letter"), 'not "letter"'),
    ):
        with pytest.raises(ValueError, match=message):
            call()
