"""How a model learns: the `[training]` table of a recipe."""

import math
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """One run of training."""

    seed: int = 0
    """Decides the first weights, the order of the data and what dropout drops."""
    begins_with: str = ""
    """A built-in model, or the folder of a model or of a run, to go on from with other data: its weights and its
    vocabularies, and what of its network and its search the recipe does not name. Without, weights begin at random."""
    steps: int = 100_000
    """How many updates; with `minutes`, at most so many."""
    minutes: float = 0.0
    """A budget of wall-clock time that ends the run and its schedule; 0 for none."""
    batch_characters: int = 32_000
    """How many positions a step learns from at most, padding and both sides of a pair counted."""
    accumulation: int = 1
    """In how many parts, one after the other, a step goes over its batch; more need less memory."""
    optimizer: Literal["adam", "adamw", "muon"] = "adam"
    """Adam is the paper's; Muon takes matrices and leaves the rest to AdamW."""
    learning_rate: float = 3e-4
    """At its highest."""
    matrix_learning_rate: float = 1.5e-3
    """Muon's; scaled so that its updates are as large as AdamW's with the same rate."""
    matrices: Literal["blocks", "all"] = "blocks"
    """Which matrices Muon takes: those of the blocks, or those between and behind them, too, all but the logits'."""
    weight_decay: float = 0.0
    """With "adam" a term of the gradient, as in the paper; with the others a factor beside it."""
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """How the rate falls to nothing by the end of the run; the paper keeps it constant."""
    warmup: float = 0.0
    """The share of the run in which the rate rises to its highest."""
    clip: float = 0.0
    """The largest norm of a gradient; larger ones are scaled down to it. 0 for no limit."""
    label_smoothing: float = 0.0
    """The share of each target's probability that is spread over the vocabulary."""
    noise: float = 0.0
    """The share of the symbols before a target that are others in training, so that a model learns to go on after a
    mistake and less by heart."""
    source_noise: float = 0.0
    """The same for the symbols of sources."""
    lookahead: int = 0
    """Not in the paper: how many targets beyond the next one each position learns to predict, too, so that it looks
    further than the spelling of a word. Heads of their own do that, which the model does not keep."""
    lookahead_weight: float = 0.2
    """How much the first of them counts, beside 1 for the next target; the second half of that, the third a third."""
    average: float = 0.0
    """The decay of a running average of the weights, which is then the model; 0 for none."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Of the blocks; weights and their updates are always in float32."""
    shard: bool = False
    """With several processes: divide weights and optimiser among them (FSDP2) instead of repeating them (DDP)."""
    evaluate_every: int = 1000
    """How many steps lie between two validations; the model that validates best is kept."""
    validation_characters: int = 1_000_000
    """How much of the validation data, from its beginning, is read for that; 0 for all."""
    save_every: int = 1000
    """How many steps lie between two checkpoints."""
    log_every: int = 10
    """How many steps lie between two lines of metrics.jsonl."""
    tensorboard: bool = False
    """Also write the metrics for TensorBoard (the extra `tensorboard`)."""

    def __post_init__(self) -> None:
        for name in ("steps", "batch_characters", "accumulation", "evaluate_every", "save_every", "log_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        for name in ("seed", "minutes", "weight_decay", "clip", "validation_characters", "lookahead"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must be at least 0, not {getattr(self, name)}")
        for name in ("learning_rate", "matrix_learning_rate"):
            if not 0 < getattr(self, name) < 100:
                raise ValueError(f"{name} must be more than 0, not {getattr(self, name)}")
        for name in ("warmup", "label_smoothing", "noise", "source_noise", "average"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 0 and less than 1, not {getattr(self, name)}")
        if not 0 < self.lookahead_weight < math.inf:
            raise ValueError(f"lookahead_weight must be a positive number, not {self.lookahead_weight}")
        if self.shard and (self.optimizer == "muon" or self.average or self.lookahead):
            raise ValueError('shard does not go with optimizer = "muon", an average or lookahead')
