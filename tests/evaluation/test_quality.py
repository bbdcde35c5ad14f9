"""The quality of translations: sacrebleu's numbers, of any text, and a slow BLEU that agrees with them."""

import json
import math
import runpy
import sys
from collections import Counter

import pytest
import sacrebleu
from hypothesis import example, given
from hypothesis import strategies as st

from bytenet.evaluation import quality as quality_module
from bytenet.evaluation.quality import quality

EXACT = {"rel": 1e-9, "abs": 1e-9}
NAMES = ["bleu", "bleu_lowercase", "chrf"]
REFERENCES = ["The cat sat on the mat.", "Das Haus, in dem ich wohne, kostet 1.500 Euro.", "Straße & Öl"]
HYPOTHESES = ["The cat sat on a mat.", "Das haus, in dem ich wohne, kostet 1,500 Euro!", ""]

# Some that other programs take for the end of a line or of the text, or cannot write as UTF-8
odd_texts = st.text(st.sampled_from("aAbß€😀.,-1& \t\r\n\x00\x0b\x1c\x85\xa0\u2028\ufeff\ud800\udfff"), max_size=20)
odd_pairs = st.lists(st.tuples(odd_texts, odd_texts), min_size=1, max_size=6)
tokenised = st.lists(st.sampled_from(["a", "b", "B", "ß", ".", ",", "1.5"]), max_size=9).map(" ".join)


def quality_of(pairs):
    return quality([hypothesis for hypothesis, _ in pairs], [reference for _, reference in pairs])


@given(st.lists(odd_texts, max_size=6))
@example(REFERENCES)
def test_a_perfect_match_has_100_of_all(texts):
    texts = [*texts, "at least four words"]
    result = quality(texts, texts)
    assert [getattr(result, name) for name in NAMES] == pytest.approx([100] * 3, **EXACT)
    assert result.length_ratio == 1


@given(odd_pairs, st.randoms(use_true_random=False))
@example(list(zip(HYPOTHESES, REFERENCES, strict=True)), None)
def test_the_order_of_the_pairs_does_not_matter(pairs, random):
    shuffled = random.sample(pairs, len(pairs)) if random else pairs[::-1]
    assert quality_of([*shuffled, ("a", "a")]) == quality_of([("a", "a"), *pairs])


@given(odd_pairs)
@example(list(zip(HYPOTHESES, REFERENCES, strict=True)))
@example([("", "")])
@example([("a", "")])
@example([("", "a")])
@example([("\ud800", "\ud800 \u2028")])
def test_the_scores_are_those_of_sacrebleu(pairs):
    hypotheses, references = zip(*pairs, strict=True)
    result = quality(hypotheses, references)
    assert result.bleu == sacrebleu.corpus_bleu(hypotheses, [references]).score
    assert result.bleu_lowercase == sacrebleu.corpus_bleu(hypotheses, [references], lowercase=True).score
    assert result.chrf == sacrebleu.corpus_chrf(hypotheses, [references]).score


@given(st.lists(st.tuples(tokenised, tokenised), max_size=9))
@example([("a", "a b B ß ."), ("a a a", "a")])  # too short; a word too often
def test_bleu_is_that_of_its_definition(pairs):
    pairs = [*pairs, ("a b B ,", "a b B ,")]  # with a 4-gram that matches, nothing is smoothed
    result = quality_of(pairs)
    assert result.bleu == pytest.approx(slow_bleu([(left.split(), right.split()) for left, right in pairs]), **EXACT)
    lower = [(left.lower().split(), right.lower().split()) for left, right in pairs]
    assert result.bleu_lowercase == pytest.approx(slow_bleu(lower), **EXACT)


def slow_bleu(pairs: list[tuple[list[str], list[str]]]) -> float:
    """Papineni et al., 2002: clipped precisions of 1- to 4-grams, their geometric mean, the brevity penalty."""
    logs = []
    for n in range(1, 5):
        right = total = 0
        for pair in pairs:
            written, wanted = (Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1)) for words in pair)
            right += (written & wanted).total()
            total += written.total()
        logs.append(math.log(right / total))
    written, wanted = (sum(len(pair[side]) for pair in pairs) for side in (0, 1))
    return 100 * math.exp(sum(logs) / 4 + min(0, 1 - wanted / written))


def test_case_counts_but_in_bleu_lowercase():
    cased, lower = quality(HYPOTHESES, REFERENCES), quality([text.lower() for text in HYPOTHESES], REFERENCES)
    assert 0 < lower.bleu < cased.bleu < cased.bleu_lowercase
    assert lower.bleu_lowercase == cased.bleu_lowercase
    assert lower.chrf < cased.chrf


def test_the_length_ratio_is_by_characters():
    assert quality(["äöü", ""], ["a b", "😀 ."]).length_ratio == 0.5
    assert math.isnan(quality(["a", ""], ["", ""]).length_ratio)


def test_json_has_the_scores_and_how_they_came_about():
    result = quality(HYPOTHESES, REFERENCES).to_json()
    assert list(result) == [*NAMES, "length_ratio", "signatures"]
    assert json.loads(json.dumps(result)) == result
    version = sacrebleu.__version__
    assert result["signatures"] == {
        "bleu": f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{version}",
        "bleu_lowercase": f"nrefs:1|case:lc|eff:no|tok:13a|smooth:exp|version:{version}",
        "chrf": f"nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:{version}",
    }


def test_nothing_is_said_of_texts_that_look_tokenised(caplog, capfd):
    tokenised = ["It is so ."] * 200
    quality(tokenised, tokenised)
    assert not caplog.records
    assert capfd.readouterr() == ("", "")
    sacrebleu.corpus_bleu(tokenised, [tokenised])
    assert "tokenized period" in caplog.text  # sacrebleu itself would have


@pytest.mark.parametrize(
    ("hypotheses", "references", "message"),
    [
        ([], [], "no hypotheses to score"),
        (["a"], [], "1 hypotheses cannot be scored against 0 references"),
        (["a"], ["a", "b"], "1 hypotheses cannot be scored against 2 references"),
        (["a", "b"], ["a"], "2 hypotheses cannot be scored against 1 references"),
    ],
)
def test_a_mistake_is_one_clear_line(hypotheses, references, message):
    with pytest.raises(ValueError, match="scor") as raised:
        quality(hypotheses, references)
    assert str(raised.value) == message


def test_sacrebleu_is_loaded_only_to_score(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "sacrebleu"]:
        monkeypatch.setitem(sys.modules, name, None)  # to import it is an error now
    module = runpy.run_path(quality_module.__file__)
    with pytest.raises(ModuleNotFoundError, match="sacrebleu"):
        module["quality"](["a"], ["a"])
