"""Sect. 3.6: layer normalisation before every activation."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

EPSILON = 1e-5


class LayerNorm(nn.Module):
    """Over the channels of one position alone: over time or over the batch it would leak the future.

    With several groups, the channels are that many equal parts, each normalised by itself.
    """

    def __init__(self, channels: int, *, groups: int = 1) -> None:
        super().__init__()
        self.shape = (groups, channels // groups)
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, C) -> (B, T, C)"""
        weight, bias = self.weight.to(x.dtype), self.bias.to(x.dtype)
        if self.shape[0] == 1:
            return F.layer_norm(x, self.shape[1:], weight, bias, EPSILON)
        standard = F.layer_norm(x.view(*x.shape[:-1], *self.shape), self.shape[1:], eps=EPSILON)
        return torch.addcmul(bias, standard.flatten(-2), weight)
