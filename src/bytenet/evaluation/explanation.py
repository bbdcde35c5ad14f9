"""Fig. 6, its words: what each word or character of a target depends on."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bytenet.evaluation.sensitivity import ByteNet, Watch, sensitivities
from bytenet.model import LanguageModel, Model
from bytenet.sentences import sentence_pairs
from bytenet.vocabulary import BEGIN, END, Vocabulary

By = Literal["word", "character"]

BEGIN_LABEL, END_LABEL = "▸", "■"
MOST_SYMBOLS = 500  # of a source or a target: time grows with the square of the length, to a minute (docs/results.md)
WORD = re.compile("w+(?:ow+)*s*|o+s*|s+")  # of kinds of characters: in words, spaces, others


@dataclass(frozen=True, kw_only=True)
class HeatMap:
    """How much outputs (columns) depend on inputs (rows)."""

    inputs: tuple[str, ...]
    """Words or characters; joined, they are the text, for a target with BEGIN_LABEL before it."""
    outputs: tuple[str, ...]
    """Words or characters; joined, they are the target, with END_LABEL behind it if it has ended."""
    magnitudes: npt.NDArray[np.float64]
    """(inputs, outputs): norms of gradients, summed over the symbols of an input and those of an output."""

    @property
    def shares(self) -> npt.NDArray[np.float64]:
        """(inputs, outputs): each column has the sum 1, or 0 if the output depends on none of these inputs."""
        # not in the paper: that columns are normalised by their sum
        totals = self.magnitudes.sum(axis=0)
        return self.magnitudes / np.where(totals > 0, totals, 1.0)

    def strongest(self, output: int, number: int) -> list[tuple[str, float]]:
        """The inputs with the largest shares of an output, and these; none with nothing."""
        shares = self.shares[:, output]
        order = np.argsort(-shares, kind="stable")[:number].tolist()
        return [(self.inputs[i], float(shares[i])) for i in order if shares[i] > 0]

    def to_json(self) -> dict[str, Any]:
        return {
            "inputs": self.inputs,
            "outputs": self.outputs,
            "shares": self.shares.tolist(),
            "magnitudes": self.magnitudes.tolist(),
        }


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """The two heat maps of Fig. 6."""

    by: By
    from_source: HeatMap | None
    """None for a language model."""
    from_target: HeatMap

    def to_json(self) -> dict[str, Any]:
        from_source = self.from_source and self.from_source.to_json()
        return {"by": self.by, "from_source": from_source, "from_target": self.from_target.to_json()}


@dataclass(frozen=True)
class Pieces:
    """A text in words or characters, as a model reads it."""

    labels: tuple[str, ...]
    widths: tuple[int, ...]
    """How many symbols each has."""
    ids: tuple[int, ...]
    """Of the symbols."""

    def __add__(self, other: "Pieces") -> "Pieces":
        return Pieces(self.labels + other.labels, self.widths + other.widths, self.ids + other.ids)


BEGIN_PIECE = Pieces((BEGIN_LABEL,), (1,), (BEGIN,))
END_PIECE = Pieces((END_LABEL,), (1,), (END,))


def explain(
    model: Model,
    vocabularies: Sequence[Vocabulary],
    source: str,
    target: str | None,
    *,
    ended: bool = True,
    by: By = "word",
    by_sentence: bool = False,
    **options: Any,
) -> Explanation:
    """What each word or character of a target depends on, and its END if it has `ended`.

    `by_sentence`: the source was translated sentence by sentence, so that nothing depends on another sentence. A
    language model explains a text, without a target. Options as for `sensitivities`.
    """
    if not isinstance(model, ByteNet):
        raise ValueError(f"only ByteNets can be explained, and this is of the kind {model.config.kind}")
    if isinstance(model, LanguageModel):
        if target is not None:
            raise ValueError("a language model explains a text and takes no target")
        read, outputs = None, split(source, vocabularies[0], "text", by)
        inputs = BEGIN_PIECE + outputs
    else:
        assert target is not None
        read, written = split(source, vocabularies[0], "source", by), split(target, vocabularies[1], "target", by)
        inputs, outputs = BEGIN_PIECE + written, written + END_PIECE if ended else written
    pairs = sentence_pairs(source, target) if by_sentence and target is not None else []
    if len(pairs) > 1:
        by_source, by_target = _of_sentences(model, vocabularies, pairs, ended, **options)
    else:
        by_source, by_target = _sensitivities(
            model, None if read is None else read.ids, inputs.ids, outputs.ids, **options
        )
    return Explanation(
        by=by,
        from_source=None if read is None else summed(by_source, read, outputs),
        from_target=summed(by_target, inputs, outputs),
    )


def _sensitivities(
    model: ByteNet, source: Sequence[int] | None, read: Sequence[int], wanted: Sequence[int], **options: Any
) -> tuple[Tensor, Tensor]:
    device = next(model.parameters()).device
    return sensitivities(
        model,
        None if source is None else torch.tensor(source, device=device),
        torch.tensor(read, device=device),
        torch.tensor(wanted, device=device),
        **options,
    )


def _of_sentences(
    model: ByteNet,
    vocabularies: Sequence[Vocabulary],
    pairs: Sequence[tuple[str, str]],
    ended: bool,
    *,
    watch: Watch = lambda done, all_: None,
    **options: Any,
) -> tuple[Tensor, Tensor]:
    """As `sensitivities`, of texts whose sentences were translated one by one, without the spaces after them."""
    lengths = [(len(vocabularies[0].encode(source)), len(vocabularies[1].encode(target))) for source, target in pairs]
    num_sources, num_targets = (sum(column) for column in zip(*lengths, strict=True))
    by_source, by_target = (
        torch.zeros(rows, num_targets + ended, dtype=torch.float64, device="cpu")
        for rows in (num_sources, 1 + num_targets)
    )
    at_source = at_target = 0
    for number, (source, target) in enumerate(pairs, start=1):
        is_last = number == len(pairs)
        read = vocabularies[0].encode(source.rstrip())
        written = vocabularies[1].encode(target if is_last else target.rstrip())
        wanted = [*written, END] if is_last and ended else written
        found_source, found_target = _sensitivities(
            model, read, [BEGIN, *written], wanted,
            watch=lambda done, _, before=at_target: watch(before + done, num_targets + ended), **options,
        )  # fmt: skip
        columns = slice(at_target, at_target + len(wanted))
        by_source[at_source : at_source + len(read), columns] = found_source
        by_target[0, columns] = found_target[0]
        by_target[1 + at_target : 1 + at_target + len(written), columns] = found_target[1:]
        at_source, at_target = at_source + lengths[number - 1][0], at_target + lengths[number - 1][1]
    return by_source, by_target


def split(text: str, vocabulary: Vocabulary, what: str, by: By) -> Pieces:
    """A text that can be explained in pieces."""
    if by not in get_args(By):
        raise ValueError(f'by must be "word" or "character", not "{by}"')
    ids = vocabulary.encode(text)
    if len(ids) > MOST_SYMBOLS:
        raise ValueError(f"the {what} has {len(ids):,} symbols, and at most {MOST_SYMBOLS} can be explained")
    if not text.strip() and what != "target":
        raise ValueError(f"the {what} is empty")
    labels = words(text) if by == "word" else tuple(text)
    return Pieces(labels, tuple(len(vocabulary.encode(label)) for label in labels), tuple(ids))


def words(text: str) -> tuple[str, ...]:
    """Words and runs of punctuation, each with the spaces behind it; joined, they are the text.

    One mark between letters or digits is part of a word: "don't", "3.14".
    """
    # not in the paper: what a word is, and where spaces belong
    return tuple(text[found.start() : found.end()] for found in WORD.finditer("".join(map(_kind, text))))


def _kind(character: str) -> str:
    if character.isspace():
        return "s"
    return "w" if unicodedata.category(character)[0] in "LMN" else "o"


def summed(values: Tensor, inputs: Pieces, outputs: Pieces) -> HeatMap:
    """values (symbols of the inputs, symbols of the outputs) -> their sums over each input and output"""
    matrix = values.numpy()
    for axis, pieces in enumerate((inputs, outputs)):
        assert sum(pieces.widths) == matrix.shape[axis]
        matrix = np.add.reduceat(matrix, np.cumsum((0, *pieces.widths[:-1])), axis=axis)
    return HeatMap(inputs=inputs.labels, outputs=outputs.labels, magnitudes=matrix)
