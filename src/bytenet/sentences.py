"""A line of text as pieces that a model of sentences can translate: one sentence each, and none too long."""

import re
from collections.abc import Iterator

# A full stop after one of these ends no sentence.
_ABBREVIATIONS = frozenset(
    """
    mr mrs ms dr prof st sr jr rev hon gen col capt lt sgt no nos vol fig eq pp vs cf approx inc ltd co corp dept est
    e.g i.e a.m p.m u.s u.k hr fr frl nr bzw z.b d.h u.a ca evtl ggf vgl usw str tel abs art bd s
    """.split()  # noqa: SIM905
)
_END = re.compile(
    r"""[.!?…]+["'“”’»)\]]*\s+(?=["'“„‘«(\[¿¡]*[^\W_a-z])"""  # the next word does not begin with a small letter
    r"""|[。！？]+[”’」』）]*\s*"""
)
_CLAUSE = re.compile(r"[;:,–—]\s+")
_WORD = re.compile(r"\s+")


def pieces(text: str, longest: int) -> Iterator[str]:
    """Pieces of at most so many characters, which joined are the text; spaces stand at the ends of pieces.

    A sentence that is too long is cut after a clause, else between words, else anywhere, as late as possible.
    """
    assert longest > 0
    start = 0
    for end in (*sentence_ends(text), len(text)):
        while end - start > longest:
            cut = start + _cut(text[start : start + longest])
            yield text[start:cut]
            start = cut
        if end > start:
            yield text[start:end]
            start = end


def sentence_pairs(source: str, target: str) -> list[tuple[str, str]]:
    """The sentences of a text with those of its translation; if there are not as many of both, both as they are."""
    sources, targets = (list(pieces(text, max(1, len(text)))) for text in (source, target))
    return list(zip(sources, targets, strict=True)) if len(sources) == len(targets) > 1 else [(source, target)]


def sentence_ends(text: str) -> Iterator[int]:
    """Where sentences end, the spaces after them included."""
    for found in _END.finditer(text):
        if found[0][0] == "." and _is_abbreviation(text[max(0, found.start() - 12) : found.start()]):
            continue
        yield found.end()


def _is_abbreviation(before: str) -> bool:
    """Whether a full stop after this need not end a sentence: an initial, an ordinal, an abbreviation."""
    word = before.split()[-1:] or [""]
    last = word[0].lstrip("\"'“‘«([")
    return (
        last.casefold() in _ABBREVIATIONS or (len(last) == 1 and last.isalpha()) or (last.isdigit() and len(last) < 3)
    )


def _cut(text: str) -> int:
    """How much of a text that has to be cut comes first."""
    for place in (_CLAUSE, _WORD):
        ends = [found.end() for found in place.finditer(text)]
        late = [end for end in ends if end > len(text) // 4]  # a few words by themselves are hard to translate
        if late:
            return late[-1]
    return len(text)
