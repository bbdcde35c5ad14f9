"""Ways to read a text whose letters are not in the case that a model of typeset sentences knows.

People type in small letters, and shout in capitals. A model that has hardly read either knows the words nonetheless, if
they are given to it as a sentence has them.
"""

import re
from dataclasses import dataclass

_BEFORE = r"""[\s'"“‘«(\[¿¡-]*"""  # what may stand before a sentence's first letter
_FIRST_LETTER = re.compile(f"{_BEFORE}[^\\W\\d_]")
_FIRST_LETTERS = re.compile(rf"""((?:^|[.!?…]['"’”»)]*\s){_BEFORE})([^\W\d_])""")


@dataclass(frozen=True)
class Reading:
    """A text to translate in the place of another."""

    text: str
    in_capitals: bool = False
    """Whether its translation is to be put in capitals."""

    def restored(self, translation: str) -> str:
        """A translation of this reading, in the case of what was read."""
        return translation.upper() if self.in_capitals else translation


def readings(text: str, *, begins: bool = True) -> tuple[Reading, ...]:
    """The text as it is, and if it is in capitals alone or begins with a small letter, as a sentence.

    `begins` says whether a sentence begins with the text, or goes on.
    """
    as_it_is = Reading(text)
    in_capitals = text.isupper() and sum(map(str.isalpha, text)) > 1
    read = text.lower() if in_capitals else text
    if begins and (first := _FIRST_LETTER.match(read)) and first[0][-1].islower():
        read = _FIRST_LETTERS.sub(lambda found: found[1] + found[2].title(), read)
    return (as_it_is,) if read == text else (as_it_is, Reading(read, in_capitals))
