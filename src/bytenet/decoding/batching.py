"""Which texts are read together, and how they lie in one tensor."""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from bytenet.vocabulary import PAD

Ids = npt.NDArray[np.int32]


def batches(lengths: Sequence[int], cost: Callable[[int], int], budget: int, most: int) -> list[list[int]]:
    """Indices in batches of similar lengths, each of at most so many and of a cost within the budget, or of one alone.

    The batch that holds the first index comes first, so that results can be handed out in order early.
    """
    found: list[list[int]] = []
    total = 0
    for i in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        total += cost(i)
        if not found or len(found[-1]) == most or total > budget:
            found.append([])
            total = cost(i)
        found[-1].append(i)
    return sorted(found, key=min)


def padded(rows: Sequence[Ids]) -> Tensor:
    """(B, longest), filled up with PAD"""
    longest = max(len(row) for row in rows)
    return torch.stack([F.pad(torch.from_numpy(row).long(), (0, longest - len(row)), value=PAD) for row in rows])
