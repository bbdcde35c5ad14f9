"""Sect. 3.3: the embedding of tokens."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Embedding(nn.Embedding):
    """Rows of a table, in the precision that is asked for."""

    def forward(self, tokens: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        """tokens (B, T) -> (B, T, C)"""
        if tokens.is_cuda:  # the few rows of the table are cast, not what is looked up; their gradients sum in float32
            return F.embedding(tokens, self.weight.to(dtype))
        found: Tensor = super().forward(tokens)
        return found.to(dtype)
