"""Beyond the paper: heads that learn to predict targets beyond the next one, in training alone.

They make a position look further than the spelling of a word. The model does not keep them, so they are made to be
cheap: they share their norms, and their logits come in the precision of the blocks.

Shapes: B rows, T positions, d inner channels, C = 2d, H heads, V vocabulary.
"""

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bytenet.model import LanguageModel, Model, Translator, fused
from bytenet.model.convolution import Pointwise
from bytenet.model.decoder import rectified
from bytenet.model.normalization import LayerNorm
from bytenet.vocabulary import PAD


class Lookahead(nn.Module):
    """Beside the model's own head, so many others, each as large: for the target after the next one and further."""

    def __init__(self, model: Model, number: int, weight: float) -> None:
        super().__init__()
        if not isinstance(model, LanguageModel | Translator):
            raise ValueError("training.lookahead is for ByteNets alone")
        symbols, inner = model.decoder.head.logits.weight.shape
        self.weight = weight
        self.first_norm = LayerNorm(2 * inner)
        self.reduce = nn.ModuleList(Pointwise(2 * inner, inner) for _ in range(number))
        self.second_norm = LayerNorm(inner)
        self.logits = nn.ModuleList(Pointwise(inner, symbols, bias=True) for _ in range(number))

    def forward(self, x: Tensor, targets: Tensor) -> Tensor:
        """x (B, T, C), which the model's own head reads, its targets (B, T) -> weighted nats, summed over all"""
        matrices = torch.cat([cast("Tensor", reduce.weight) for reduce in self.reduce]).to(x.dtype)  # (H·d, C)
        h = F.linear(rectified(self.first_norm, x), matrices)  # (B, T, H·d)
        h = rectified(self.second_norm, h.view(-1, len(self.reduce), x.shape[-1] // 2))  # (B·T, H, d)
        loss = torch.zeros((), device=x.device)
        for distance, (guess, logits) in enumerate(zip(h.unbind(1), self.logits, strict=True), start=1):
            assert isinstance(logits, Pointwise)
            further = F.pad(targets[:, distance:], (0, min(distance, targets.shape[1])), value=PAD).flatten()
            loss = loss + self.weight / distance * nats(guess, logits, further)
        return loss


def nats(h: Tensor, logits: Pointwise, targets: Tensor) -> Tensor:
    """h (B·T, d), targets (B·T,) -> what all targets but PAD cost, summed"""
    assert logits.bias is not None
    if fused.available(h):
        return fused.fused_guess(h, logits.weight, logits.bias, targets)
    return F.cross_entropy(logits(h).to(logits.bias.dtype), targets, ignore_index=PAD, reduction="sum")
