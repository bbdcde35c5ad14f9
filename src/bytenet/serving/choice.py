"""One continuation of a prompt on its way to a client: its text as far as it is certain, and how likely it was."""

from dataclasses import dataclass, field
from typing import Any

from bytenet.pipeline import Pipeline
from bytenet.serving.jobs import Written
from bytenet.vocabulary import NUM_CONTROLS, Bytes, TextWriter


@dataclass
class Choice:
    """One continuation, as its symbols come in."""

    index: int
    pipeline: Pipeline
    stops: list[str]
    keep_likelihoods: bool
    echoes: int
    """How many of the symbols are the prompt's."""
    text: str = ""
    given: int = 0
    """Characters of it that were handed out."""
    finish: str | None = None
    symbols: int = 0
    own_from: int = 0
    """Where in the text the prompt ends."""
    likelihoods: list[tuple[Written, int]] = field(default_factory=list)
    """Of symbols that were not handed out, and where in the text the character of each stands."""

    def __post_init__(self) -> None:
        self.writer = TextWriter(self.pipeline.vocabularies[0])

    def put(self, written: Written) -> bool:
        """One symbol more; whether this is enough."""
        self.symbols += 1
        if self.keep_likelihoods:
            self.likelihoods.append((written, len(self.text)))
        self.text += self.writer.write(written.token)
        if self.symbols <= self.echoes:
            self.own_from = len(self.text)
            return False
        places = [self.text.find(stop, self.own_from) for stop in self.stops]
        if found := [place for place in places if place >= 0]:
            self.text, self.finish = self.text[: min(found)], "stop"
            return True
        return False

    def end(self, by_itself: bool) -> None:
        if self.finish is None:
            self.text += self.writer.close()
            self.finish = "stop" if by_itself else "length"

    def take(self) -> tuple[str, dict[str, Any] | None]:
        """What can be handed out by now: not what may turn out to be the beginning of a stop."""
        until = len(self.text)
        if self.finish is None and self.stops:
            until = max(self.given, until - max(map(len, self.stops)) + 1)
        text, self.given = self.text[self.given : until], until
        ready = [(w, place) for w, place in self.likelihoods if place < until or self.finish]
        self.likelihoods = self.likelihoods[len(ready) :]
        ready = [(w, place) for w, place in ready if place < len(self.text)]
        return text, self._logprobs(ready) if self.keep_likelihoods else None

    def _logprobs(self, ready: list[tuple[Written, int]]) -> dict[str, Any]:
        name = self._name
        return {
            "tokens": [name(written.token) for written, _ in ready],
            "token_logprobs": [written.log_probability for written, _ in ready],
            "top_logprobs": [{name(token): value for token, value in w.alternatives} for w, _ in ready],
            "text_offset": [place for _, place in ready],
        }

    def _name(self, token: int) -> str:
        """A symbol as text; a byte that is no character by itself by its number."""
        vocabulary = self.pipeline.vocabularies[0]
        if token < NUM_CONTROLS:
            return f"<{token}>"
        if isinstance(vocabulary, Bytes):
            byte = vocabulary.decode_bytes([token])
            return byte.decode("ascii") if byte.isascii() else f"bytes:\\x{byte[0]:02x}"
        return vocabulary.decode([token])
