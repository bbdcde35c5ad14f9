"""Texts in pieces: what goes in is cut, what comes out is whole, in order, and as soon as it is known."""

import itertools
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bytenet.decoding.splitting import Splitting, Translation
from bytenet.sentences import pieces

texts = st.text(st.sampled_from("aB .!,\n"), max_size=40)


def shouted(parts: Iterator[str], n_best: int = 1) -> Iterator[list[Translation]]:
    for part in parts:
        score = -1.0 - sum(map(str.isupper, part))  # what has fewer capitals is likelier
        yield [
            Translation(part.upper() + "!" * rank, -1.0 - rank, "C" not in part.upper(), score - rank)
            for rank in range(n_best)
        ]


@given(st.lists(texts), st.integers(0, 20), st.booleans())
def test_translations_of_pieces_are_joined_to_those_of_their_texts(found, longest, recase):
    """`shouted` makes the same of a text in any case, so that it does not matter which reading is taken."""
    splitting = Splitting(longest, recase)
    joined = [best.text for (best,) in splitting.join(shouted(splitting.cut(found)))]
    several = [bool(longest) and len(list(pieces(text.rstrip(), longest))) > 1 for text in found]
    assert joined == [(text.rstrip() if cut else text).upper() for text, cut in zip(found, several, strict=True)]


@given(texts, st.integers(0, 20), st.booleans())
def test_a_stream_is_what_the_best_translations_give(text, longest, recase):
    streamed = "".join(Splitting(longest, recase).stream(text, copied_letters, copied))
    splitting = Splitting(longest, recase)
    ((best,),) = splitting.join(copied(splitting.cut([text])))
    assert streamed == best.text


def copied(parts: Iterable[str]) -> Iterator[list[Translation]]:
    for part in parts:
        yield [Translation(part, 0.0, True, -sum(map(str.isupper, part)))]


def copied_letters(part: str) -> Iterator[str]:
    return iter(part)


def test_the_likelier_reading_is_taken_and_capitals_come_back():
    texts = ["SO IT IS.", "so it is.", "AB", "So it is. SO IT IS. So"]
    splitting = Splitting(10, recase=True)
    assert [best.text for (best,) in splitting.join(copied(splitting.cut(texts)))] == [
        "SO IT IS.",
        "so it is.",
        "AB",
        "So it is. SO IT IS. So",
    ]
    assert list(splitting.cut(["SO IT IS."])) == ["SO IT IS.", "So it is."]


def test_translations_of_all_readings_are_ranked_together_and_none_comes_twice():
    splitting = Splitting(recase=True)
    asked = list(splitting.cut(["SO"]))
    found = {
        "SO": [Translation("ALSO", -1.0, True, -1.0), Translation("UND", -5.0, True, -5.0)],
        "So": [Translation("Also", -2.0, True, -2.0), Translation("Doch", -3.0, True, -3.0)],
    }
    (best,) = splitting.join(iter([found[text] for text in asked]))
    assert best == [Translation("ALSO", -1.0, True, -1.0), Translation("DOCH", -3.0, True, -3.0)]


def test_what_has_ended_is_preferred_to_what_was_cut_off():
    splitting = Splitting(recase=True)
    assert list(splitting.cut(["so"])) == ["so", "So"]
    (best,) = splitting.join(
        iter([[Translation("cut off", -1.0, False, -1.0)], [Translation("Ended", -9.0, True, -9.0)]])
    )
    assert best == [Translation("Ended", -9.0, True, -9.0)]


def test_only_what_begins_a_sentence_is_given_a_capital():
    """The second piece goes on where the first was cut."""
    cut = list(Splitting(20, recase=True).cut(["when it rained, all stayed. THEN IT STOPPED"]))
    assert cut == ["when it rained,", "When it rained,", "all stayed.", "THEN IT STOPPED", "Then it stopped"]


@given(st.lists(st.lists(st.integers(-9, 0), min_size=1, max_size=3), min_size=2, max_size=4), st.booleans())
def test_the_best_of_all_combinations_of_pieces_come_first(scores, ended):
    splitting = Splitting(10)
    asked = list(splitting.cut(["One two. " * len(scores)]))
    found = [
        [Translation(f"{part}{rank}", score / 2, ended, score) for rank, score in enumerate(sorted(own, reverse=True))]
        for part, own in zip(asked, scores, strict=True)
    ]
    (best,) = splitting.join(iter(found))
    every = sorted((sum(each.score for each in chosen) for chosen in itertools.product(*found)), reverse=True)
    assert [each.score for each in best] == every[: max(map(len, found))]
    assert [each.log_likelihood for each in best] == [each.score / 2 for each in best]
    assert best[0].text == " ".join(["One two.0"] * len(scores))
    assert len({each.text for each in best}) == len(best)
    assert all(each.ended == ended for each in best)


def test_what_is_cut_off_in_one_piece_is_cut_off():
    splitting = Splitting(10)
    ((best, second),) = splitting.join(shouted(splitting.cut(["So it is. Be it so. C."]), n_best=2))
    assert (best.text, second.text) == ("SO IT IS. BE IT SO. C.", "SO IT IS. BE IT SO. C.!")
    assert not best.ended
    assert not second.ended


def test_the_best_of_very_many_pieces_can_be_told():
    text = "A short one. " * 100_000
    splitting = Splitting(100)
    ((best, second),) = splitting.join(shouted(splitting.cut([text]), n_best=2))
    assert best.text == text.upper().rstrip()
    assert second.text == best.text + "!"


def test_a_text_is_done_as_soon_as_its_pieces_are():
    read: list[str] = []

    def arriving() -> Iterator[str]:
        for text in ("One. Two.", "Three."):
            read.append(text)
            yield text

    splitting = Splitting(10)
    joined = splitting.join(shouted(splitting.cut(arriving())))
    assert next(joined)[0].text == "ONE. TWO."
    assert read == ["One. Two."]


def test_a_limit_is_not_negative():
    with pytest.raises(ValueError, match="split must be at least 0"):
        Splitting(-1)
