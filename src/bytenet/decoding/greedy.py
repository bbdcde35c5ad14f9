"""The most probable next token, again and again."""

from collections.abc import Sequence

import torch
from torch import Tensor

from bytenet.model import Translator
from bytenet.vocabulary import BEGIN, END


@torch.no_grad()
def greedy(model: Translator, source: Tensor, lengths: Sequence[int], max_length: int) -> list[list[int]]:
    """source (B, S) -> the target tokens of each row, without END; a row that has not ended by then is cut there."""
    state = model.start(source, lengths)
    token = torch.full((len(source), 1), BEGIN, device=source.device)
    ended = torch.zeros_like(token, dtype=torch.bool)
    written: list[Tensor] = []
    while len(written) < max_length and not ended.all():
        logits, state = model(token, state)
        token = logits.argmax(dim=-1)
        ended |= token == END
        written.append(token)
    return [until_end(row) for row in torch.cat(written, dim=1).tolist()] if written else [[] for _ in lengths]


def until_end(tokens: list[int]) -> list[int]:
    return tokens[: tokens.index(END)] if END in tokens else tokens
