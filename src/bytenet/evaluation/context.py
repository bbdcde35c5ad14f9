"""Bits a symbol against context: how much of the past a language model makes use of."""

import torch
from torch import Tensor
from torch.nn import functional as F

from bytenet.evaluation.bits import BATCH_POSITIONS, Bits, sum_bits
from bytenet.model import LanguageModel
from bytenet.vocabulary import BEGIN


@torch.no_grad()
def context_bits(
    model: LanguageModel,
    text: Tensor,
    context: int,
    *,
    positions: int = 20_000,
    seed: int = 0,
    dtype: torch.dtype | None = None,
) -> Bits:
    """The bits of so many symbols at random places of a text (n,), each predicted from BEGIN and the `context` symbols
    before it alone: as at the start of a window in training. Contexts up to the receptive field are compared on the
    same symbols.
    """
    if not 0 <= context < len(text):
        raise ValueError(f"a context of {context:,} symbols needs a longer text than {len(text):,}")
    device = next(model.parameters()).device
    generator = torch.Generator("cpu").manual_seed(seed)
    first = min(len(text) - 1, max(context, model.config.receptive_field))
    places = torch.randint(first, len(text), (positions,), generator=generator, device="cpu")
    window = torch.arange(-context, 1, device="cpu")
    total = 0.0
    for part in torch.split(places, max(1, BATCH_POSITIONS // (context + 1))):
        tokens = text[part[:, None] + window].long().to(device)  # (B, context + 1)
        inputs = F.pad(tokens[:, :-1], (1, 0), value=BEGIN)
        logits, _ = model(inputs, model.start(len(part), dtype=dtype))
        total += sum_bits(logits[:, -1], tokens[:, -1])
    return Bits(total, positions)
