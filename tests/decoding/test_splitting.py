"""Texts in pieces: what goes in is cut, what comes out is whole, in order, and as soon as it is known."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bytenet.decoding.splitting import Splitting, Translation
from bytenet.sentences import pieces

texts = st.text(st.sampled_from("aB .!,\n"), max_size=40)


def shouted(parts: Iterator[str], n_best: int = 1) -> Iterator[list[Translation]]:
    for part in parts:
        yield [Translation(part.upper() + "!" * rank, -1.0 - rank, "C" not in part.upper()) for rank in range(n_best)]


@given(st.lists(texts), st.integers(0, 20))
def test_translations_of_pieces_are_joined_to_those_of_their_texts(found, longest):
    splitting = Splitting(longest)
    joined = [best.text for (best,) in splitting.join(shouted(splitting.cut(found)))]
    several = [bool(longest) and len(list(pieces(text, longest))) > 1 for text in found]
    assert joined == [(text.rstrip() if cut else text).upper() for text, cut in zip(found, several, strict=True)]


@given(texts, st.integers(0, 20))
def test_a_stream_is_what_the_best_translations_give(text, longest):
    streamed = "".join(Splitting(longest).stream(text, lambda part: iter(part.upper())))
    splitting = Splitting(longest)
    ((best,),) = splitting.join(shouted(splitting.cut([text])))
    assert streamed == best.text


def test_ranks_are_joined_with_each_other():
    splitting = Splitting(10)
    ((best, second),) = splitting.join(shouted(splitting.cut(["So it is. Be it so. C."]), n_best=2))
    assert (best.text, second.text) == ("SO IT IS. BE IT SO. C.", "SO IT IS.! BE IT SO.! C.!")
    assert (best.log_likelihood, second.log_likelihood) == (-3.0, -6.0)
    assert not best.ended  # one of the pieces has not


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
