"""Training pairs as they might have been: typed on a keyboard, in capitals, about other names and numbers.

Corpora are typeset, and speak of the same few people and years again and again. What a model is asked to translate
later often does neither. Both sides of a pair are changed alike, so that they stay translations of each other.
"""

# ruff: noqa: SIM905 (words in a string are easier to read than in a list)

import random
import re
from dataclasses import replace

from bytenet.data.pairs import Pair

_QUOTED = re.compile(r"‘([^‘]*?)’(?!\w)")  # the last one is no apostrophe within a word
_PLAIN = {
    **dict.fromkeys("“”„‟«»", '"'),
    **dict.fromkeys("‘’\u201a\u201b\u00b4`", "'"),  # low and reversed quotation marks, accents by themselves
    **dict.fromkeys("–—\u2212", "-"),  # the last one is a minus
    **dict.fromkeys("\u00a0\u202f", " "),  # spaces at which no line breaks
    "…": "...",
}
_TYPESET = re.compile(f"[{''.join(_PLAIN)}]")  # searched for: they are rare, and str.translate looks every character up
_WORD = re.compile(r"[^\W\d_]{3,}|\d+")

# What invented names are made of, the common ones several times.
_BEGINS = (
    *"b c d f g h j k l m n p r s t v w b d g h k l m n r s t y z".split(),
    *"bl br ch cl cr dr fl fr gl gr kl kr ph pl pr qu sch sh sk sl sp st str th tr zh".split(),
)
_MIDDLES = (*"aaaaaaaaeeeeeeeeiiiiiiioooooouuuuy", *"ai au ay ea ee ei eu ie oa oo ou á ä é í ó ö ü".split())
_ENDS = (*[""] * 30, *"b ck d f g k l ll m n nd ng nk nn nt p r rd rg rn rt s sk ss st t tz v x z".split())


class Rewriter:
    """Changes such shares of the pairs of a corpus; the same corpus in the same order in the same way."""

    def __init__(self, *, typed: float = 0.0, capitals: float = 0.0, renamed: float = 0.0) -> None:
        self.typed, self.capitals, self.renamed, self.chance = typed, capitals, renamed, random.Random(0)

    def __call__(self, pair: Pair) -> Pair:
        if self._happens(self.renamed):
            pair = renamed(pair, self.chance)
        if self._happens(self.typed):
            pair = replace(pair, source=typed(pair.source), target=typed(pair.target))
        if self._happens(self.capitals):
            pair = replace(pair, source=pair.source.upper(), target=pair.target.upper())
        return pair

    def _happens(self, share: float) -> bool:
        return bool(share) and self.chance.random() < share


def typed(text: str) -> str:
    """With the marks that keyboards have: straight quotation marks and apostrophes, hyphens for dashes, three dots."""
    return _TYPESET.sub(lambda mark: _PLAIN[mark[0]], _QUOTED.sub(r'"\1"', text))


def renamed(pair: Pair, chance: random.Random) -> Pair:
    """Words with a capital and numbers that stand on both sides give way to invented ones, the same on both.

    What stands on both sides is there to be copied: names, mostly. Who has only ever copied the same names knows them
    by heart, and cannot copy others.
    """
    common = set(_WORD.findall(pair.source)) & set(_WORD.findall(pair.target))
    others = {
        word: number_like(word, chance) if word.isdigit() else name_like(word, chance)
        for word in sorted(common)  # the order of a set is not the same every time
        if word.isdigit() or word[0].isupper()
    }
    if not others:
        return pair

    def other(text: str) -> str:
        return _WORD.sub(lambda found: others.get(found[0], found[0]), text)

    return replace(pair, source=other(pair.source), target=other(pair.target))


def name_like(word: str, chance: random.Random) -> str:
    """An invented name, in capitals if the word is."""
    syllables = chance.choice((1, 2, 2, 2, 3, 3, 3, 4))
    name = "".join(chance.choice(part) for _ in range(syllables) for part in (_BEGINS, _MIDDLES, _ENDS))
    return name[: max(2, len(word))].upper() if word.isupper() else name.capitalize()


def number_like(number: str, chance: random.Random) -> str:
    """As many other digits; of a year of the last century or of this one, only the last two change."""
    kept = number[:2] if len(number) == 4 and number[:2] in ("19", "20") else ""
    digits = "".join(chance.choice("0123456789") for _ in number[len(kept) :])
    if not kept and number[0] != "0":
        digits = chance.choice("123456789") + digits[1:]
    return kept + digits
