"""How a model wants to be used: the `[decoding]` table of a recipe, kept in the model's folder."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class DecodingConfig:
    """What a translator does with the lines that it is given, unless the user says otherwise."""

    split: int = 0
    """A line is translated sentence by sentence, at most so many characters at a time; 0: as it is."""

    def __post_init__(self) -> None:
        if self.split < 0:
            raise ValueError(f"split must be at least 0, not {self.split}")
