"""What is made small: the bits that a model needs for its targets."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bytenet.data.batches import Batch
from bytenet.model import LanguageModel, Model, RowState
from bytenet.vocabulary import PAD


class Objective(nn.Module):
    """A model and its loss in one module, so that data-parallel wrappers see one call a batch."""

    def __init__(self, model: Model, *, label_smoothing: float = 0.0, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.model = model
        self.label_smoothing = label_smoothing
        self.dtype = dtype

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The loss to follow downhill and the plain log-likelihood, negative and in nats; sums over all targets.

        The two differ by label smoothing alone.
        """
        logits, _ = self.model(batch.inputs, self.start(batch))
        logits, targets = logits.flatten(0, 1), batch.targets.flatten()
        nats = F.cross_entropy(logits, targets, ignore_index=PAD, reduction="sum")
        if not self.label_smoothing:
            return nats, nats.detach()
        smooth = F.cross_entropy(
            logits, targets, ignore_index=PAD, reduction="sum", label_smoothing=self.label_smoothing
        )
        return smooth, nats.detach()

    def start(self, batch: Batch) -> RowState:
        if isinstance(self.model, LanguageModel):
            return self.model.start(len(batch.inputs), dtype=self.dtype)
        assert batch.source is not None
        return self.model.start(batch.source, batch.source_lengths, dtype=self.dtype)
