"""How a model wants to be used: the `[decoding]` table of a recipe, kept in the model's folder."""

from dataclasses import dataclass

from bytenet.casing import is_word
from bytenet.decoding.beam_search import BeamConfig
from bytenet.decoding.splitting import Splitting


@dataclass(frozen=True, kw_only=True)
class DecodingConfig:
    """What a translator does with the lines that it is given, unless the user says otherwise."""

    beam: int = BeamConfig.beam
    """Hypotheses a sentence that are followed at once; 1 is greedy."""

    length_penalty: float = BeamConfig.length_penalty
    """Log-likelihoods are divided by ((5 + length) / 6) to this power; 0 leaves them as they are."""

    split: int = 0
    """A line is translated sentence by sentence, at most so many characters at a time; 0: as it is."""

    recase: bool = False
    """What is in capitals, or begins with a small letter, is read as a sentence, too; the likelier is taken."""

    names: tuple[str, ...] = ()
    """For `recase`: words with capitals inside of sentences, too; if none, training takes them from its sources."""

    languages: tuple[str, ...] = ()
    """The codes of the source's and the target's language, such as ["en", "de"]; for the server's users."""

    def __post_init__(self) -> None:
        BeamConfig(beam=self.beam, length_penalty=self.length_penalty)  # checks both
        if len(self.languages) not in (0, 2):
            raise ValueError(f"languages must be two codes, source and target, not {list(self.languages)}")
        if strange := [name for name in self.names if not is_word(name)]:
            raise ValueError(f'names must be words of letters, not "{strange[0]}"')
        if self.split < 0:
            raise ValueError(f"split must be at least 0, not {self.split}")

    def beam_config(
        self, *, beam: int | None = None, n_best: int = 1, length_penalty: float | None = None
    ) -> BeamConfig:
        """How to search; None is the model's own choice."""
        if beam is None and n_best > self.beam:
            raise ValueError(f"n_best must be from 1 to the model's beam of {self.beam}, not {n_best}; or name a beam")
        return BeamConfig(
            beam=self.beam if beam is None else beam,
            n_best=n_best,
            length_penalty=self.length_penalty if length_penalty is None else length_penalty,
        )

    def splitting(self, split: int | None = None, recase: bool | None = None) -> Splitting:
        """What is done with lines before and after the search; None is the model's own choice."""
        return Splitting(self.split if split is None else split, self.recase if recase is None else recase, self.names)
