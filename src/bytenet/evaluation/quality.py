"""How good translations are: BLEU and chrF by sacrebleu, each with the signature that says how it was computed."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Quality:
    """Of a corpus of translations, against one reference each. The scores are from 0 to 100, but for rounding."""

    bleu: float
    """With sacrebleu's defaults: tokenizer 13a, case counts, exponential smoothing. 0 without any 4-gram."""
    bleu_lowercase: float
    """The same, of the texts in lower case."""
    chrf: float
    """chrF2: character n-grams up to 6, without whitespace; case counts."""
    length_ratio: float
    """Of all hypotheses to all references, by characters (code points, whitespace too); nan if no reference has any."""
    signatures: dict[str, str]
    """sacrebleu's, in full, by the name of the score."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def quality(hypotheses: Sequence[str], references: Sequence[str]) -> Quality:
    """The quality of detokenized hypotheses, each against its reference. Any text will do, an empty one too."""
    from sacrebleu.metrics.bleu import BLEU  # here: it takes 70 ms
    from sacrebleu.metrics.chrf import CHRF

    if len(hypotheses) != len(references):  # sacrebleu drops what has no counterpart
        raise ValueError(f"{len(hypotheses)} hypotheses cannot be scored against {len(references)} references")
    if not hypotheses:
        raise ValueError("no hypotheses to score")
    # force: no warnings of texts that look tokenized; the scores are the same
    metrics = {"bleu": BLEU(force=True), "bleu_lowercase": BLEU(force=True, lowercase=True), "chrf": CHRF()}
    scores = {name: float(metric.corpus_score(hypotheses, [references]).score) for name, metric in metrics.items()}
    # sacrebleu knows the number of references, a part of the signature, only once it has scored
    signatures = {name: str(metric.get_signature()) for name, metric in metrics.items()}
    characters = [sum(map(len, texts)) for texts in (hypotheses, references)]
    ratio = characters[0] / characters[1] if characters[1] else math.nan
    return Quality(**scores, length_ratio=ratio, signatures=signatures)
