"""Long texts go through a model of sentences in pieces, and their translations come out whole.

A piece in an unusual case goes through it in more than one reading.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate, chain, islice

from bytenet.casing import Reading, readings
from bytenet.sentences import pieces, sentence_ends


@dataclass(frozen=True)
class Translation:
    """One translation of a source."""

    text: str
    log_likelihood: float
    """Natural logarithm, END included if it ended."""
    ended: bool
    """False: cut off at the length limit."""
    score: float
    """What translations are compared by: the log-likelihood, divided by what the search's length penalty says."""


NOTHING_TO_TRANSLATE = Translation("", 0.0, True, 0.0)


@dataclass(frozen=True)
class Piece:
    """What is translated by itself: one of its readings will be taken."""

    readings: tuple[Reading, ...]
    gap: str
    """The spaces after it."""


class Splitting:
    """Cuts texts on their way in and joins the translations of their pieces on the way out, in order."""

    def __init__(self, longest: int = 0, recase: bool = False, names: Iterable[str] = ()) -> None:
        """`longest` is how many characters a piece has at most; 0 leaves texts as they are.

        With `recase`, a piece that is in capitals alone or begins with a small letter is read as a sentence, too, in
        which `names` are written as they are here, and the likelier translation is taken.
        """
        if longest < 0:
            raise ValueError(f"split must be at least 0, not {longest}")
        self.longest, self.recase = longest, recase
        self.names = {name.lower(): name for name in names}
        self.texts: deque[list[Piece]] = deque()

    def cut(self, texts: Iterable[str]) -> Iterator[str]:
        """What there is to translate of all texts, one after the other."""
        for text in texts:
            cut = self._pieces(text)
            self.texts.append(cut)
            yield from (reading.text for piece in cut for reading in piece.readings)

    def join(self, found: Iterator[list[Translation]]) -> Iterator[list[Translation]]:
        """Translations of the texts from those of their pieces: the best of all, then the second best, ..."""
        for first in found:
            found_here = chain([first], found)
            cut = self.texts.popleft()
            of_pieces = [_best(piece, islice(found_here, len(piece.readings))) for piece in cut]
            if len(cut) == 1:
                yield of_pieces[0]
            else:
                yield _combined(of_pieces, [piece.gap for piece in cut])

    def stream(
        self,
        text: str,
        write: Callable[[str], Iterator[str]],
        translate: Callable[[list[str]], Iterator[list[Translation]]],
    ) -> Iterator[str]:
        """What `write` makes of each piece of a text, and what stands between them.

        A piece with several readings comes at once, when `translate` has said which one is the best.
        """
        for piece in self._pieces(text):
            if len(piece.readings) == 1:
                yield from write(piece.readings[0].text)
            else:
                best, *_ = _best(piece, translate([reading.text for reading in piece.readings]))
                yield best.text
            if piece.gap:
                yield piece.gap

    def _pieces(self, text: str) -> list[Piece]:
        cut = list(pieces(text.rstrip(), self.longest)) if self.longest else []
        if len(cut) < 2:
            return [Piece(self._readings(text, begins=True), "")]
        starts, begins = accumulate(map(len, cut), initial=0), {0, *sentence_ends(text)}
        stripped = [piece.rstrip() for piece in cut]
        gaps = [piece[len(bare) :] for piece, bare in zip(cut, stripped, strict=True)]
        return [
            Piece(self._readings(bare, begins=start in begins), gap)
            for bare, start, gap in zip(stripped, starts, gaps, strict=False)
        ]

    def _readings(self, text: str, *, begins: bool) -> tuple[Reading, ...]:
        return readings(text, begins=begins, names=self.names) if self.recase else (Reading(text),)


def _best(piece: Piece, found: Iterable[list[Translation]]) -> list[Translation]:
    """The best translations of a piece's readings, those that ended first; no more than of each, and no text twice."""
    of_readings = [
        [replace(each, text=reading.restored(each.text)) for each in translations]
        for reading, translations in zip(piece.readings, found, strict=True)
    ]
    if len(of_readings) == 1:
        return of_readings[0]
    best: dict[str, Translation] = {}
    for each in sorted(chain(*of_readings), key=lambda each: (each.ended, each.score), reverse=True):
        best.setdefault(each.text, each)
    return list(best.values())[: max(map(len, of_readings))]


@dataclass(frozen=True)
class _Way:
    """A choice of a translation for each of the first pieces of a text."""

    score: float = 0.0
    log_likelihood: float = 0.0
    ended: bool = True
    last: "tuple[_Way, str] | None" = None
    """The choice for the pieces before the last one, and the text chosen for that, with the spaces after it."""

    def on(self, chosen: Translation, gap: str) -> "_Way":
        return _Way(
            score=self.score + chosen.score,
            log_likelihood=self.log_likelihood + chosen.log_likelihood,
            ended=self.ended and chosen.ended,
            last=(self, chosen.text + gap),
        )

    def translation(self) -> Translation:
        texts: list[str] = []
        way = self
        while way.last is not None:
            way, text = way.last
            texts.append(text)
        return Translation("".join(reversed(texts)), self.log_likelihood, self.ended, self.score)


def _combined(of_pieces: list[list[Translation]], gaps: list[str]) -> list[Translation]:
    """Of all combinations of the pieces' translations the best ones, as many as a piece has at most.

    Scores are sums, so whatever is among the best goes on from what was among the best one piece before: exactly, where
    all pieces' translations ended.
    """
    number = max(map(len, of_pieces))
    ways = [_Way()]
    for translations, gap in zip(of_pieces, gaps, strict=True):
        longer = [way.on(each, gap) for way in ways for each in translations]
        ways = sorted(longer, key=lambda way: (way.ended, way.score), reverse=True)[:number]
    return [way.translation() for way in ways]
