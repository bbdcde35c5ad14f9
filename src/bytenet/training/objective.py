"""What is made small: the bits that a model needs for its targets."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bytenet.data.batches import Batch
from bytenet.model import LanguageModel, Model, RowState
from bytenet.training.config import TrainingConfig
from bytenet.vocabulary import NUM_CONTROLS, PAD


class Objective(nn.Module):
    """A model and its loss in one module, so that data-parallel wrappers see one call a batch."""

    def __init__(
        self, model: Model, config: TrainingConfig = TrainingConfig(), *, dtype: torch.dtype = torch.float32
    ) -> None:
        super().__init__()
        self.model, self.config, self.dtype = model, config, dtype

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The loss to follow downhill and the plain log-likelihood, negative and in nats; sums over all targets.

        The two differ by label smoothing alone.
        """
        logits, _ = self.model(self.with_noise(batch.inputs, self.config.noise), self.start(batch))
        logits, targets = logits.flatten(0, 1), batch.targets.flatten()
        nats = F.cross_entropy(logits, targets, ignore_index=PAD, reduction="sum")
        smoothing = self.config.label_smoothing
        if not smoothing:
            return nats, nats.detach()
        smooth = F.cross_entropy(logits, targets, ignore_index=PAD, reduction="sum", label_smoothing=smoothing)
        return smooth, nats.detach()

    def start(self, batch: Batch) -> RowState:
        if isinstance(self.model, LanguageModel):
            return self.model.start(len(batch.inputs), dtype=self.dtype)
        assert batch.source is not None
        source = self.with_noise(batch.source, self.config.source_noise)
        return self.model.start(source, batch.source_lengths, dtype=self.dtype)

    def with_noise(self, tokens: Tensor, share: float) -> Tensor:
        """In training, a share of the symbols of (B, T) gives way to others of the batch; padding and BEGIN stay."""
        if not share or not self.training:
            return tokens
        drawn = tokens.flatten()[torch.randint(tokens.numel(), tokens.shape, device=tokens.device)]
        replaced = torch.rand(tokens.shape, device=tokens.device) < share
        return torch.where(replaced & (tokens >= NUM_CONTROLS) & (drawn >= NUM_CONTROLS), drawn, tokens)
