"""Ways to read a text whose letters are not in the case that a model of typeset sentences knows.

People type in small letters, and shout in capitals. A model that has hardly read either knows the words nonetheless, if
they are given to it as a sentence has them.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

_BEFORE = r"""[\s'"“‘«(\[¿¡-]*"""  # what may stand before a sentence's first letter
_FIRST_LETTER = re.compile(f"{_BEFORE}[^\\W\\d_]")
_FIRST_LETTERS = re.compile(rf"""((?:^|[.!?…]['"’”»)]*\s){_BEFORE})([^\W\d_])""")
_WORD = re.compile(r"[^\W\d_]+")
_WORD_INSIDE = re.compile(r"(?<=[\w,;] )[^\W\d_]+")  # of a sentence: what begins one has a capital anyway
NO_NAMES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Reading:
    """A text to translate in the place of another."""

    text: str
    in_capitals: bool = False
    """Whether its translation is to be put in capitals."""

    def restored(self, translation: str) -> str:
        """A translation of this reading, in the case of what was read."""
        return translation.upper() if self.in_capitals else translation


def is_word(text: str) -> bool:
    """Whether it is all letters."""
    return _WORD.fullmatch(text) is not None


def readings(text: str, *, begins: bool = True, names: Mapping[str, str] = NO_NAMES) -> tuple[Reading, ...]:
    """The text as it is, and if it is in capitals alone or begins with a small letter, as a sentence.

    `begins` says whether a sentence begins with the text, or goes on; `names` how words in small letters are written.
    """
    as_it_is = Reading(text)
    in_capitals = text.isupper() and sum(map(str.isalpha, text)) > 1
    read = text.lower() if in_capitals else text
    begins_small = begins and (first := _FIRST_LETTER.match(read)) and first[0][-1].islower()
    if in_capitals or begins_small:
        read = _WORD.sub(lambda found: names.get(found[0], found[0]), read)
    if begins_small:
        read = _FIRST_LETTERS.sub(lambda found: found[1] + found[2].title(), read)
    return (as_it_is,) if read == text else (as_it_is, Reading(read, in_capitals))


def usual_names(texts: Iterable[str], *, share: float = 0.9, least: int = 5, most: int = 2000) -> tuple[str, ...]:
    """Words that are written with capitals inside of sentences nearly always, as they are: I, Berlin, EU.

    Those that occur `least` times or more, the most frequent ones first.
    """
    forms: dict[str, Counter[str]] = defaultdict(Counter)
    for text in texts:
        if not text.isupper():
            for form in _WORD_INSIDE.findall(text):
                forms[form.lower()][form] += 1
    found: Counter[str] = Counter()
    for small, counts in forms.items():
        ((form, count),) = counts.most_common(1)
        if form != small and count >= max(least, share * counts.total()):
            found[form] = count
    return tuple(form for form, _ in found.most_common(most))
