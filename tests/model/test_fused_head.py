"""What is fused outside blocks equals plain operations: on a GPU, or with TRITON_INTERPRET=1 and Triton, anywhere."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from bytenet.model.fused import available, fused_guess, fused_nats, fused_norm_relu
from bytenet.vocabulary import PAD

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

pytestmark = [
    pytest.mark.skipif(
        not available(torch.zeros(1, device=DEVICE)), reason="needs Triton, and a GPU or TRITON_INTERPRET=1"
    ),
    pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS"),  # a backward pass that begins with a product
    pytest.mark.filterwarnings("ignore:Conversion of an array:DeprecationWarning"),  # the interpreter of Triton 3.6
]


def with_gradients(function: Callable[..., Tensor], *values: Tensor) -> list[Tensor]:
    """What a function gives and the gradients of all its values, in float64."""
    leaves = [value.detach().clone().requires_grad_() for value in values]
    result = function(*leaves)
    result.backward(torch.linspace(-1, 2, result.numel()).view(result.shape).to(result))
    return [t.detach().double() for t in (result, *(leaf.grad for leaf in leaves)) if t is not None]


def check(fused: Callable[..., Tensor], plain: Callable[..., Tensor], *values: Tensor, tolerance: float = 1e-5) -> None:
    found = with_gradients(fused, *values)
    expected = with_gradients(plain, *(value.double() for value in values))
    for part, reference in zip(found, expected, strict=True):
        assert part.shape == reference.shape
        assert (part - reference).norm() <= tolerance * reference.norm()


def targets(number: int, symbols: int) -> Tensor:
    """The first and the last symbol, and PAD, among them."""
    drawn = torch.randint(symbols, (number,))
    drawn[:4] = torch.tensor([PAD, symbols - 1, 0, PAD])
    return drawn.to(DEVICE)


@pytest.mark.parametrize(("shape"), [(2, 5, 24), (7, 32), (1, 1, 6)])
def test_a_norm_and_its_relu(shape: tuple[int, ...]) -> None:
    torch.manual_seed(1)
    x, weight, bias = (0.3 + torch.randn(s, device=DEVICE) for s in (shape, shape[-1:], shape[-1:]))
    check(fused_norm_relu, lambda x, weight, bias: F.layer_norm(x, shape[-1:], weight, bias).relu(), x, weight, bias)
    strided = torch.randn(*shape[:-1], 2 * shape[-1], device=DEVICE)[..., ::2]
    check(fused_norm_relu, lambda x, *norm: F.layer_norm(x, shape[-1:], *norm).relu(), strided, weight, bias)


@pytest.mark.parametrize("symbols", [5, 32, 77])
def test_what_targets_cost(symbols: int) -> None:
    torch.manual_seed(1)
    wanted = targets(23, symbols)
    logits = 4 * torch.randn(23, symbols, device=DEVICE)
    logits[5] += 1e4  # what all symbols of a position share makes no difference

    def plain(logits: Tensor) -> Tensor:
        return F.cross_entropy(logits, wanted, ignore_index=PAD, reduction="sum")

    check(lambda logits: fused_nats(logits, wanted), plain, logits)


@pytest.mark.parametrize("symbols", [5, 32, 77])
def test_what_guesses_cost(symbols: int) -> None:
    torch.manual_seed(1)
    wanted = targets(23, symbols)
    h = torch.randn(23, 16, device=DEVICE)
    weight, bias = torch.randn(symbols, 16, device=DEVICE), torch.randn(symbols, device=DEVICE)

    def plain(h: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return F.cross_entropy(F.linear(h, weight, bias), wanted, ignore_index=PAD, reduction="sum")

    def fused(h: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return fused_guess(h, weight, bias, wanted)

    check(fused, plain, h, weight, bias)
    rounded = (h.bfloat16().float(), weight.bfloat16().float(), bias)
    found = with_gradients(lambda h, *head: fused(h.bfloat16(), *head), *rounded)
    expected = with_gradients(lambda h, weight, bias: plain(h.double(), weight.double(), bias.double()), *rounded)
    for part, reference in zip(found, expected, strict=True):
        assert (part - reference).norm() <= 2e-2 * reference.norm()


def test_nothing_to_learn_costs_nothing() -> None:
    nothing = torch.full((4,), PAD, device=DEVICE)
    logits = torch.randn(4, 9, device=DEVICE, requires_grad=True)
    cost = fused_nats(logits, nothing)
    cost.backward()
    assert cost == 0
    assert logits.grad is not None
    assert not logits.grad.any()
