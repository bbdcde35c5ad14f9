"""Long texts go through a model of sentences in pieces, and their translations come out whole."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from bytenet.sentences import pieces


@dataclass(frozen=True)
class Translation:
    """One translation of a source."""

    text: str
    log_likelihood: float
    """Natural logarithm, END included if it ended."""
    ended: bool
    """False: cut off at the length limit."""


class Splitting:
    """Cuts texts on their way in and joins the translations of their pieces on the way out, in order."""

    def __init__(self, longest: int) -> None:
        """`longest` is how many characters a piece has at most; 0 leaves texts as they are."""
        if longest < 0:
            raise ValueError(f"split must be at least 0, not {longest}")
        self.longest = longest
        self.gaps: deque[list[str]] = deque()

    def cut(self, texts: Iterable[str]) -> Iterator[str]:
        """The pieces of all texts, one after the other."""
        for text in texts:
            cut, gaps = self._pieces(text)
            self.gaps.append(gaps)
            yield from cut

    def join(self, found: Iterator[list[Translation]]) -> Iterator[list[Translation]]:
        """Translations of the texts from those of their pieces: the best of all, then the second best, ..."""
        for first in found:
            gaps = self.gaps.popleft()
            if len(gaps) == 1:
                yield first
                continue
            of_pieces = [first, *islice(found, len(gaps) - 1)]
            yield [_joined(same_rank, gaps) for same_rank in zip(*of_pieces, strict=False)]

    def stream(self, text: str, write: Callable[[str], Iterator[str]]) -> Iterator[str]:
        """What `write` makes of each piece of a text, and what stands between them."""
        for piece, gap in zip(*self._pieces(text), strict=True):
            yield from write(piece)
            if gap:
                yield gap

    def _pieces(self, text: str) -> tuple[list[str], list[str]]:
        """The pieces, and the spaces after each."""
        cut = list(pieces(text, self.longest)) if self.longest else []
        if len(cut) < 2:
            return [text], [""]
        stripped = [piece.rstrip() for piece in cut]
        gaps = [piece[len(bare) :] for piece, bare in zip(cut, stripped, strict=True)]
        return stripped, [*gaps[:-1], ""]


def _joined(translations: tuple[Translation, ...], gaps: list[str]) -> Translation:
    return Translation(
        text="".join(each.text + gap for each, gap in zip(translations, gaps, strict=True)),
        log_likelihood=sum(each.log_likelihood for each in translations),
        ended=all(each.ended for each in translations),
    )
