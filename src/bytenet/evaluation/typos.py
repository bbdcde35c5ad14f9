"""Texts as fingers in a hurry type them: how much does a model lose by it?"""

import random

_KEYBOARD = ("qwertyuiop", "asdfghjkl", "zxcvbnm")


def _neighbours() -> dict[str, str]:
    """The keys beside each letter's, and those above and below."""
    found = {}
    for row, letters in enumerate(_KEYBOARD):
        for place, letter in enumerate(letters):
            beside = letters[max(0, place - 1) : place] + letters[place + 1 : place + 2]
            above = _KEYBOARD[row - 1][place : place + 2] if row else ""
            below = _KEYBOARD[row + 1][max(0, place - 1) : place + 1] if row < 2 else ""
            found[letter] = beside + above + below
    return found


NEIGHBOURS = _neighbours()


def with_typos(text: str, share: float, *, seed: int = 0) -> str:
    """The text with a typo at so large a share of its letters: left out, doubled, swapped with the next one, or another
    key beside it. Nothing but the text, the share and the seed decides where.
    """
    if not 0 <= share <= 1:
        raise ValueError(f"the share of typos must be from 0 to 1, not {share}")
    chance = random.Random(f"{seed} {text}")
    written, place = [], 0
    while place < len(text):
        letter, following = text[place], text[place + 1 : place + 2]
        place += 1
        if not letter.isalpha() or chance.random() >= share:
            written.append(letter)
            continue
        kinds = ["left out", "doubled"]
        if letter.lower() in NEIGHBOURS:
            kinds.append("beside")
        if following.isalpha() and following != letter:
            kinds.append("swapped")
        match chance.choice(kinds):
            case "doubled":
                written.append(2 * letter)
            case "beside":
                beside = chance.choice(NEIGHBOURS[letter.lower()])
                written.append(beside.upper() if letter.isupper() else beside)
            case "swapped":
                written.append(following + letter)
                place += 1
    return "".join(written)
