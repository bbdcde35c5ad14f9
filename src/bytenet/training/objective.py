"""What is made small: the bits that a model needs for its targets."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bytenet.data.batches import Batch
from bytenet.model import LanguageModel, Model, RowState, Translator, fused
from bytenet.training.config import TrainingConfig
from bytenet.training.lookahead import Lookahead
from bytenet.vocabulary import NUM_CONTROLS, PAD


class Objective(nn.Module):
    """A model and its loss in one module, so that data-parallel wrappers see one call a batch."""

    def __init__(
        self, model: Model, config: TrainingConfig = TrainingConfig(), *, dtype: torch.dtype = torch.float32
    ) -> None:
        super().__init__()
        self.model, self.config, self.dtype = model, config, dtype
        self.heads = Lookahead(model, config.lookahead, config.lookahead_weight) if config.lookahead else nn.Identity()
        """For the targets beyond the next; nothing if there are none."""

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The loss to follow downhill and the plain log-likelihood, negative and in nats; sums over all targets.

        The two differ by label smoothing and what is said of targets beyond the next.
        """
        inputs, state = self.with_noise(batch.inputs, self.config.noise), self.start(batch)
        with read_by_head(self.model) as read:
            logits, _ = self.model(inputs, state)
        nats = self.nats(logits, batch.targets)
        smoothing = self.config.label_smoothing
        loss = self.nats(logits, batch.targets, label_smoothing=smoothing) if smoothing else nats
        if self.training and self.config.lookahead:
            loss = loss + self.heads(read[0], batch.targets)
        return loss, nats.detach()

    @staticmethod
    def nats(logits: Tensor, targets: Tensor, *, label_smoothing: float = 0.0) -> Tensor:
        """logits (B, T, V), targets (B, T) -> the sum over all but PAD"""
        logits, targets = logits.flatten(0, 1), targets.flatten()
        if fused.available(logits) and not label_smoothing:
            return fused.fused_nats(logits, targets)
        return F.cross_entropy(logits, targets, ignore_index=PAD, reduction="sum", label_smoothing=label_smoothing)

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


@contextmanager
def read_by_head(model: Model) -> Iterator[list[Tensor]]:
    """What the head of a ByteNet reads meanwhile, (B, T, C) each; of other models, nothing."""
    read: list[Tensor] = []
    if not isinstance(model, LanguageModel | Translator):
        yield read
        return
    hook = model.decoder.head.register_forward_pre_hook(lambda head, inputs: read.append(inputs[0]))
    try:
        yield read
    finally:
        hook.remove()
