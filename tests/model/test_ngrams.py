"""Embeddings of n-grams and words: what stands in which row, and what that adds."""

import re
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from bytenet.model import LanguageModelConfig
from bytenet.model.ngrams import NgramConfig, Ngrams, rows_around, rows_ending
from bytenet.vocabulary import PAD
from tests.model.strategies import NGRAMS, VOCABULARY, in_double, random_tokens

configs = st.sampled_from([config for config in NGRAMS if config.num_tables])


@given(configs, st.integers(1, 9))
def test_each_size_and_words_have_a_table_of_their_own(config, length):
    rows = rows_ending(random_tokens(3, config.reach + length), config)
    assert rows.shape == (3, length, config.num_tables)
    first = 0
    for number, own in enumerate(config.table_rows):
        assert ((first <= rows[..., number]) & (rows[..., number] < first + own)).all()
        first += own
    assert first == len(Ngrams(config, 8).embedding.weight)


@given(configs, st.integers(0, 5))
def test_an_n_gram_has_the_same_row_wherever_it_stands(config, offset):
    for number, size in enumerate(config.sizes):
        ngram = random_tokens(1, size)
        ends = []
        for before in (0, offset):
            text = torch.cat([random_tokens(1, config.reach + before), ngram], dim=1)
            ends.append(rows_ending(text, config)[0, -1, number])
        assert ends[0] == ends[1]


@pytest.mark.parametrize("size", [2, 3, 6])
def test_different_n_grams_seldom_share_a_row(size):
    """Every token counts, and so does their order: as many share a row as by chance, within a factor of two."""
    config = NgramConfig(sizes=(size,), rows=1024)
    torch.manual_seed(size)
    ngrams = torch.randint(3, 260, (20_000, size))
    others = {"reversed": ngrams.flip(1)}
    for place in range(size):
        others[f"another token {place}"] = ngrams.clone()
        others[f"another token {place}"][:, place] ^= 1
    for what, changed in others.items():
        different = (ngrams != changed).any(1)
        shared = (rows_ending(ngrams, config) == rows_ending(changed, config))[different].float().mean()
        assert shared < 2 / 1024, what


def test_common_n_grams_spread_over_the_table():
    config = NgramConfig(sizes=(2,), rows=4096)
    pairs = torch.cartesian_prod(torch.arange(3, 67), torch.arange(3, 67))  # as many as there are rows
    used = rows_ending(pairs, config).unique().numel()
    assert 0.6 < used / 4096 < 0.67  # 1 - 1/e of the rows, if by chance


@given(configs)
def test_the_embeddings_of_all_n_grams_are_mixed_into_the_tokens_own(config):
    ngrams = Ngrams(config, 8).double()
    tokens = random_tokens(2, config.reach + 5)
    rows = rows_ending(tokens, config)
    found = ngrams(rows, torch.float64)
    for row in range(2):
        for position in range(5):
            beside = torch.cat([ngrams.embedding.weight[index] for index in rows[row, position]])
            torch.testing.assert_close(found[row, position], ngrams.mix.weight @ beside)


@given(configs)
def test_a_position_is_in_the_middle_of_the_n_grams_around_it(config):
    tokens = random_tokens(2, 7)
    around = rows_around(tokens, config)
    for position in range(7):
        for i, size in enumerate(config.sizes):
            first, last = position - size // 2, position + (size - 1) // 2
            ngram = torch.stack(
                [tokens[:, at] if 0 <= at < 7 else torch.full((2,), PAD) for at in range(first, last + 1)], dim=1
            )
            before = torch.full((2, config.reach + 1 - size), PAD)
            alone = rows_ending(torch.cat([before, ngram], dim=1), config)
            assert torch.equal(around[:, position, i], alone[:, 0, i])


def rows_of_words(text: str, config: NgramConfig, look_up: Callable[[Tensor, NgramConfig], Tensor]) -> list[int]:
    """In which row of the table of words each character of a text has its word; a space is the token 9."""
    tokens = torch.tensor([[9 if character == " " else ord(character) for character in text]])
    if look_up is rows_ending:
        tokens = F.pad(tokens, (config.reach, 0), value=PAD)
    return look_up(tokens, config)[0, :, -1].tolist()


WORDS = NgramConfig(sizes=(2,), words=8, separators=(9,), rows=100_003, channels=2)


def test_all_of_a_word_around_a_position_has_one_row():
    text = "the cat sees the other cat"
    rows = rows_of_words(text, WORDS, rows_around)
    of_word = {}
    for start, word in ((m.start(), m[0]) for m in re.finditer(r"\S+", text)):
        own = set(rows[start : start + len(word)])
        assert len(own) == 1
        assert of_word.setdefault(word, own) == own
    assert len(set(map(min, of_word.values()))) == len(of_word)
    assert len({row for row, character in zip(rows, text, strict=True) if character == " "}) == 1


def test_a_word_so_far_has_the_same_row_whatever_came_before_it():
    rows, others = (rows_of_words(text, WORDS, rows_ending) for text in ("so that", "as the"))
    assert rows[-4:-1] != others[-3:]
    assert rows[3:5] == others[3:5]  # th
    assert rows[5] != others[5]
    assert len(set(rows[3:])) == 4


@pytest.mark.parametrize("look_up", [rows_ending, rows_around])
def test_of_long_words_only_so_much_counts(look_up):
    rows = rows_of_words("abcdefghijklmnop", WORDS, look_up)
    others = rows_of_words("zbcdefghijklmnoz", WORDS, look_up)
    seen = [
        set(range(max(0, i - 7), i + 1)) if look_up is rows_ending else set(range(i, min(16, i + 8))) for i in range(16)
    ]
    if look_up is rows_around:
        seen = [set(range(max(0, max(s) - 7), max(s) + 1)) for s in seen]
    assert [a == b for a, b in zip(rows, others, strict=True)] == [not s & {0, 15} for s in seen]


def test_an_n_gram_is_left_out_as_a_whole_and_the_others_make_up_for_it():
    config = NgramConfig(sizes=(2, 3), rows=64, channels=4, dropout=0.5)
    ngrams = Ngrams(config, 8).double()
    ngrams.mix.weight.data = torch.eye(8, dtype=torch.float64)
    rows = rows_ending(random_tokens(50, config.reach + 9), config)
    dropped = ngrams(rows, torch.float64).view(50, 9, 2, 4)
    kept = ngrams.eval()(rows, torch.float64).view(50, 9, 2, 4)
    out = (dropped == 0).all(-1)
    assert 0.4 < out.double().mean() < 0.6
    torch.testing.assert_close(dropped[~out], 2 * kept[~out])


def test_without_sizes_there_is_nothing_beside_the_papers_embedding():
    model = in_double(LanguageModelConfig(vocabulary=VOCABULARY, inner_channels=6))
    assert model.decoder.ngrams is None
    assert model.start(2).tokens is None


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"sizes": (1, 2)}, "sizes must be at least 2"),
        ({"sizes": (3, 2)}, "sizes must rise"),
        ({"sizes": (2, 2)}, "sizes must rise"),
        ({"words": -1}, "words must be at least 0"),
        ({"word_rows": -1}, "word_rows must be at least 0"),
        ({"rows": 0}, "rows must be at least 1"),
        ({"channels": 0}, "channels must be at least 1"),
        ({"dropout": 1.0}, "dropout must be at least 0 and less than 1"),
    ],
)
def test_an_impossible_config_is_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        NgramConfig(**wrong)
