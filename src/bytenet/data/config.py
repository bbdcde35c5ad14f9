"""What a model learns from: the `[data]` table of a recipe."""

from dataclasses import dataclass
from typing import Literal

from bytenet.data.pairs import PairFiles


@dataclass(frozen=True, kw_only=True)
class TextConfig:
    """Files of text, or of any bytes, for a language model; plain, .gz or .xz, read one after the other."""

    kind: Literal["text"] = "text"
    train: tuple[str, ...]
    """The files to learn from."""
    validation: tuple[str, ...] = ()
    """The files to validate on; without any, the end of the training text is held out."""
    held_out: float = 0.01
    """The share of the training text that is held out where no validation file is named."""
    window: int = 500
    """How many characters are read at a time in training."""
    context: int = 100
    """How many of them are context only: read, but not learnt from."""

    def __post_init__(self) -> None:
        check_train(self.train)
        check_held_out(self.held_out)
        if self.window < 1:
            raise ValueError(f"window must be at least 1, not {self.window}")
        if not 0 <= self.context < self.window:
            raise ValueError(f"context must be at least 0 and less than window, not {self.context}")


@dataclass(frozen=True, kw_only=True)
class PairsConfig:
    """Sentence pairs for a translator: TSV files (source, tab, target) or aligned files; plain, .gz or .xz."""

    kind: Literal["pairs"] = "pairs"
    train: tuple[str, ...] = ()
    """TSV files to learn from."""
    train_source: tuple[str, ...] = ()
    """Files of sources, one a line, aligned with those of `train_target`."""
    train_target: tuple[str, ...] = ()
    """Files of targets."""
    validation: tuple[str, ...] = ()
    """TSV files to validate on; without any, some of the training pairs are held out."""
    validation_source: tuple[str, ...] = ()
    """Files of sources to validate on."""
    validation_target: tuple[str, ...] = ()
    """Files of targets to validate on."""
    held_out: float = 0.01
    """The share of the training pairs that is held out where no validation file is named."""
    max_length: int = 500
    """Pairs with a longer side are dropped; 0 for no limit."""
    max_ratio: float = 0.0
    """Pairs with one side more than so many times as long as the other are dropped; 0 for no limit."""
    typed: float = 0.0
    """The share of the training pairs that are read with the marks that keyboards have: straight quotation marks and
    apostrophes, hyphens for dashes, on both sides."""
    capitals: float = 0.0
    """The share of the training pairs that are read in capitals, on both sides."""
    renamed: float = 0.0
    """The share of the training pairs in which names and numbers that stand on both sides give way to invented ones, so
    that a model learns to copy."""

    def __post_init__(self) -> None:
        check_train(self.train + self.train_source)
        check_held_out(self.held_out)
        for name in ("train", "validation"):
            sources, targets = getattr(self, f"{name}_source"), getattr(self, f"{name}_target")
            if len(sources) != len(targets):
                raise ValueError(
                    f"{name}_target must name as many files as {name}_source: {len(sources)}, not {len(targets)}"
                )
        if self.max_length < 0:
            raise ValueError(f"max_length must be at least 0, not {self.max_length}")
        if self.max_ratio != 0 and not self.max_ratio >= 1:
            raise ValueError(f"max_ratio must be at least 1, or 0 for no limit, not {self.max_ratio}")
        for name in ("typed", "capitals", "renamed"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must be from 0 to 1, not {getattr(self, name)}")

    @property
    def train_files(self) -> PairFiles:
        return PairFiles(tsv=self.train, source=self.train_source, target=self.train_target)

    @property
    def validation_files(self) -> PairFiles:
        return PairFiles(tsv=self.validation, source=self.validation_source, target=self.validation_target)


@dataclass(frozen=True, kw_only=True)
class DigitsConfig:
    """Strings of digits to copy or to reverse, made by the package: the smallest task that needs a translator."""

    kind: Literal["digits"] = "digits"
    task: Literal["copy", "reverse"] = "copy"
    """What the target is."""
    max_length: int = 40
    """Strings have 1 to so many digits."""
    pairs: int = 20_000
    """How many strings to learn from."""
    validation_pairs: int = 500
    """How many others to validate on; none of them is learnt from."""

    def __post_init__(self) -> None:
        for name in ("max_length", "pairs", "validation_pairs"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")


DataConfig = TextConfig | PairsConfig | DigitsConfig


def check_train(files: tuple[str, ...]) -> None:
    if not files:
        raise ValueError("train must name at least one file")


def check_held_out(share: float) -> None:
    if not 0 < share < 1:
        raise ValueError(f"held_out must be more than 0 and less than 1, not {share}")
