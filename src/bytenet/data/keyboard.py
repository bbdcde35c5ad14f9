"""Pairs as people type them: corpora are typeset, what a model is asked to translate later often is not."""

import hashlib
import re
from dataclasses import replace

from bytenet.data.pairs import Pair

_QUOTED = re.compile(r"‘([^‘]*?)’(?!\w)")  # the last one is no apostrophe within a word
_PLAIN = {
    **dict.fromkeys(map(ord, "“”„‟«»"), '"'),
    **dict.fromkeys(map(ord, "‘’\u201a\u201b\u00b4`"), "'"),  # low and reversed quotation marks, accents by themselves
    **dict.fromkeys(map(ord, "–—\u2212"), "-"),  # the last one is a minus
    **dict.fromkeys(map(ord, "\u00a0\u202f"), " "),  # spaces at which no line breaks
    ord("…"): "...",
}


def typed(text: str) -> str:
    """With the marks that keyboards have: straight quotation marks and apostrophes, hyphens for dashes, three dots."""
    return _QUOTED.sub(r'"\1"', text).translate(_PLAIN)


def rewritten(pair: Pair, *, share_typed: float, share_capitals: float) -> Pair:
    """The pair, or, of such shares of all pairs, both of its sides as `typed`, or in capitals; the same every time."""
    if _falls_to(share_typed, "typed", pair):
        pair = replace(pair, source=typed(pair.source), target=typed(pair.target))
    if _falls_to(share_capitals, "capitals", pair):
        pair = replace(pair, source=pair.source.upper(), target=pair.target.upper())
    return pair


def _falls_to(share: float, what: str, pair: Pair) -> bool:
    if not share:
        return False
    text = f"{what} {pair.source}\t{pair.target}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=4).digest()) < share * 2**32
