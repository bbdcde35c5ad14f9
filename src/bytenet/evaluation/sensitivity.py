"""Fig. 6, its numbers: how much each output depends on each source input and on each target input before it.

Shapes: S source positions, T target positions, O outputs, L positions that a part of the model reads, C = 2d channels,
S tables of n-grams.

A magnitude is the norm of the gradient of an output's logit by the vector (C,) that the network reads at a position.
"""

import copy
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from bytenet.model import LanguageModel, State, Translator
from bytenet.model.blocks import Block
from bytenet.model.decoder import Decoder
from bytenet.model.encoder import Encoder
from bytenet.model.ngrams import NgramConfig, Ngrams, words_of

ByteNet = LanguageModel | Translator
Watch = Callable[[int, int], None]

PREFIX = 16  # so many outputs share a forward pass, which goes no further than the last of them


def sensitivities(
    model: ByteNet,
    source: Tensor | None,
    read: Tensor,
    wanted: Tensor,
    *,
    dtype: torch.dtype | None = None,
    watch: Watch = lambda done, all_: None,
) -> tuple[Tensor, Tensor]:
    """source (S,), None for a language model, read (T,), wanted (O,) at the first of these -> (S, O), (T, O)

    Each output is a backward pass of its own: on a CPU a batch of them is not faster. `watch` is told how many of all
    outputs are done.
    """
    model = private_copy(model)
    by_source, by_target = (
        torch.zeros(0 if ids is None else len(ids), len(wanted), dtype=torch.float64, device="cpu")
        for ids in (source, read)
    )
    inputs = [Inputs(model.decoder)]
    with torch.enable_grad():
        if isinstance(model, Translator):
            assert source is not None
            inputs.append(Inputs(model.encoder))
            state = model.start(source[None], [len(source)], dtype=dtype)
        else:
            state = model.start(dtype=dtype)
        for position, columns in enumerate(_output_by_output(model, state, read, wanted, inputs)):
            for found, column in zip((by_target, by_source), columns, strict=False):
                length = min(len(found), len(column))  # of the target a prefix was read, and of the source padding, too
                found[:length, position] = column[:length]
            watch(position + 1, len(wanted))
    return by_source, by_target


def _output_by_output(
    model: ByteNet, state: State, read: Tensor, wanted: Tensor, inputs: list["Inputs"]
) -> Iterator[list[Tensor]]:
    """For each output the magnitudes of all inputs of each kind."""
    for first in range(0, len(wanted), PREFIX):
        end = min(first + PREFIX, len(wanted))
        logits, _ = model(read[None, :end], state)
        for position in range(first, end):
            # not in the paper: of which quantity; Simonyan et al., whom it cites, take the score before the softmax
            score = logits[0, position, wanted[position]]
            gradients = torch.autograd.grad(score, [kind.vectors for kind in inputs], retain_graph=True)
            yield [kind.by_token(gradient[0]) for kind, gradient in zip(inputs, gradients, strict=True)]


def private_copy(model: ByteNet) -> ByteNet:
    """The same model in evaluation, with the same weights in the same memory, of which no gradient is asked."""
    weights = {id(weight): nn.Parameter(weight.detach(), requires_grad=False) for weight in model.parameters()}
    private = copy.deepcopy(model, weights).eval()
    for module in private.modules():
        if isinstance(module, Block):
            module.forward = module.plain  # type: ignore[method-assign]  # the fused one computes weights' gradients
    return private


class Inputs:
    """The vectors that an encoder or a decoder has read last, and what they are made of."""

    def __init__(self, part: Encoder | Decoder) -> None:
        self.tokens, self.vectors = torch.empty(0, dtype=torch.long), torch.empty(0)
        self.shares: Tensor | None = None
        part.embedding.register_forward_hook(self._keep_vectors)
        self.centred = isinstance(part, Encoder)
        if part.ngrams is not None:
            part.ngrams.register_forward_hook(self._keep_shares)

    def _keep_vectors(
        self, embedding: nn.Module, arguments: tuple[Tensor, torch.dtype | None], vectors: Tensor
    ) -> None:
        """What n-grams add later has the same gradient."""
        self.tokens, self.vectors = arguments[0], vectors.requires_grad_()  # (1, L), (1, L, C)

    def _keep_shares(self, ngrams: Ngrams, arguments: tuple[Tensor, torch.dtype], added: Tensor) -> None:
        own, parts = self.vectors[0].detach(), ngrams.parts(arguments[0])[0]
        self.shares = token_shares(own, parts, list(self._made_of(ngrams.config)))

    def _made_of(self, config: NgramConfig) -> Iterator[Tensor]:
        """For each table (L, L): which tokens make up what a position has looked up there."""
        place = torch.arange(self.tokens.shape[1], device=self.tokens.device)
        distance = place - place[:, None]
        for size in config.sizes:
            after = (size - 1) // 2 if self.centred else 0
            yield (after - size < distance) & (distance <= after)
        if config.words:
            yield words_of(self.tokens[0], config, around=self.centred)

    def by_token(self, gradient: Tensor) -> Tensor:
        """gradient (L, C) -> (L,) in float64: its norm at each position, divided among the tokens read there"""
        norms: Tensor = gradient.double().norm(dim=-1)
        if self.shares is not None:
            norms = norms @ self.shares
        return norms.cpu()


def token_shares(own: Tensor, parts: Tensor, made_of: list[Tensor]) -> Tensor:
    """own (L, C), parts (L, S, C), made_of (L, L) a part -> (L, L): how much of a position's vector is each token's

    A token's own embedding and its n-grams have shares as their lengths are; an n-gram's is divided equally among the
    tokens that it is made of. Each row has the sum 1.
    """
    # not in the paper, which has no n-grams: a look-up has no gradient by the tokens that it is made with
    lengths = torch.cat([own[:, None], parts], dim=1).double().norm(dim=-1)
    lengths = lengths / lengths.sum(dim=1, keepdim=True)
    shares = torch.diag(lengths[:, 0])
    for number, holds in enumerate(made_of, start=1):
        shares += lengths[:, number, None] * holds / holds.sum(dim=1, keepdim=True)
    return shares
