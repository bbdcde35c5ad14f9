"""How a model wants to be used: the `[decoding]` table of a recipe, kept in the model's folder."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class DecodingConfig:
    """What a translator does with the lines that it is given, unless the user says otherwise."""

    split: int = 0
    """A line is translated sentence by sentence, at most so many characters at a time; 0: as it is."""

    languages: tuple[str, ...] = ()
    """The codes of the source's and the target's language, such as ["en", "de"]; for the server's users."""

    def __post_init__(self) -> None:
        if len(self.languages) not in (0, 2):
            raise ValueError(f"languages must be two codes, source and target, not {list(self.languages)}")
        if self.split < 0:
            raise ValueError(f"split must be at least 0, not {self.split}")
