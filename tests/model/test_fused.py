"""The fused block equals the plain one: on a GPU, or with TRITON_INTERPRET=1 and Triton installed, anywhere."""

from dataclasses import dataclass
from typing import Literal

import pytest
import torch
from torch import Tensor

from bytenet.model.blocks import Block, StackConfig
from bytenet.model.convolution import CausalConvolution, CentredConvolution
from bytenet.model.fused import available, fused_block

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

pytestmark = [
    pytest.mark.skipif(
        not available(torch.zeros(1, device=DEVICE)), reason="needs Triton, and a GPU or TRITON_INTERPRET=1"
    ),
    pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS"),  # a backward pass that begins with a product
    pytest.mark.filterwarnings("ignore:Conversion of an array:DeprecationWarning"),  # the interpreter of Triton 3.6
]


@dataclass(frozen=True)
class Case:
    kind: Literal["relu", "multiplicative"]
    causal: bool
    kernel_width: int = 3
    dilation: int = 1
    inner_channels: int = 16
    length: int = 17
    batch: int = 2
    empty_history: bool = False
    use_history: bool = False
    """Whether the loss also reads the history that the block returns."""
    dropout: float = 0.0

    def block(self) -> Block:
        config = StackConfig(block=self.kind, kernel_width=self.kernel_width, dropout=self.dropout)
        block = Block(config, self.inner_channels, CausalConvolution if self.causal else CentredConvolution)
        with torch.no_grad():  # norms that do something, and a branch as large as the residual
            for parameter in block.parameters():
                if parameter.ndim == 1:
                    parameter += 0.3 * torch.randn_like(parameter)
            block.expand.weight *= config.num_blocks**0.5
        return block.to(DEVICE)

    def inputs(self) -> tuple[Tensor, Tensor | None]:
        """x (B, T, 2d), history (B, (K-1)·dilation, d)"""
        x = 0.5 + 2 * torch.randn(self.batch, self.length, 2 * self.inner_channels)
        history = torch.randn(self.batch, (self.kernel_width - 1) * self.dilation, self.inner_channels).relu()
        x, history = x.bfloat16().float(), history.bfloat16().float()  # the same text in every precision
        return x.to(DEVICE), history.mul(not self.empty_history).to(DEVICE) if self.causal else None


def results(case: Case, block: Block, dtype: torch.dtype, *, fused: bool) -> dict[str, Tensor]:
    """Outputs and all gradients of one random loss, by name, in float64."""
    torch.manual_seed(2)
    x, history = (None if value is None else value.to(dtype).requires_grad_() for value in case.inputs())
    assert x is not None
    block.zero_grad()
    torch.manual_seed(3)  # what dropout draws
    y, after = fused_block(block, x, history, case.dilation) if fused else block.plain(x, history, case.dilation)
    y.backward(torch.randn(y.shape).to(y), retain_graph=case.use_history)
    if case.use_history:
        after.backward(torch.randn(after.shape).to(after))
    named = {"y": y, "after": after, "d_x": x.grad, "d_history": None if history is None else history.grad}
    named |= {f"d_{name}": parameter.grad for name, parameter in block.named_parameters()}
    return {name: value.detach().double() for name, value in named.items() if value is not None}


def error(value: Tensor, reference: Tensor) -> float:
    assert value.shape == reference.shape
    return float((value - reference).norm() / (reference.norm() + 1e-6)) if value.numel() else 0.0


KINDS = ("relu", "multiplicative")
CASES = [
    *(Case(kind, causal) for kind in KINDS for causal in (True, False)),
    *(Case("multiplicative", True, kernel_width=width, dilation=2, length=9) for width in (1, 2, 4)),
    *(Case("relu", True, kernel_width=width, dilation=3, inner_channels=6) for width in (1, 2, 4)),
    *(Case(kind, False, kernel_width=1, length=5) for kind in KINDS),
    Case("relu", False, kernel_width=5, dilation=2, inner_channels=6),
    *(Case("multiplicative", causal, inner_channels=d, dilation=4) for causal in (True, False) for d in (6, 24)),
    *(Case("multiplicative", causal, length=length) for causal in (True, False) for length in (1, 2)),
    *(Case(kind, causal, dilation=20) for kind in KINDS for causal in (True, False)),
    *(Case(kind, True, empty_history=True, dilation=2) for kind in KINDS),
    *(Case(kind, causal, dropout=0.4) for kind in KINDS for causal in (True, False)),
    *(Case(kind, True, use_history=True, dilation=dilation) for kind in KINDS for dilation in (2, 12)),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_equals_the_plain_block(case: Case) -> None:
    torch.manual_seed(1)
    block = case.block()
    fused = results(case, block, torch.float32, fused=True)
    reference = results(case, block.double(), torch.float64, fused=False)
    assert fused.keys() == reference.keys()
    assert {name: error(fused[name], reference[name]) for name in fused} == {
        name: pytest.approx(0, abs=1e-5) for name in reference
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("causal", [True, False])
def test_half_precision_is_no_worse_than_the_plain_block(kind: Literal["relu", "multiplicative"], causal: bool) -> None:
    torch.manual_seed(1)
    case = Case(kind, causal, dilation=2, inner_channels=24)
    block = case.block().bfloat16().float()  # so that no precision starts with an error
    fused = results(case, block, torch.bfloat16, fused=True)
    plain = results(case, block, torch.bfloat16, fused=False)
    exact = results(case, block.double(), torch.float64, fused=False)
    # where a GPU rounds to the nearest number, the interpreter cuts off, which moves more values over the ReLU's edge
    names = exact if DEVICE == "cuda" else {"y", "after"} & exact.keys()
    for name in names:
        assert error(fused[name], exact[name]) <= 1.5 * error(plain[name], exact[name]) + 2e-3, name


def test_history_may_be_read_alone() -> None:
    """A loss on the returned history alone, with no gradient for y."""
    torch.manual_seed(1)
    case = Case("multiplicative", True, dilation=2)
    block = case.block()
    gradients = []
    for forward in (fused_block, Block.forward):
        x, history = case.inputs()
        x.copy_(torch.linspace(-1, 1, x.numel()).view_as(x)).requires_grad_()
        _, after = forward(block, x, history, case.dilation)
        assert after is not None
        after.square().sum().backward()
        gradients.append(x.grad)
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5)


def test_without_gradients_nothing_is_recorded() -> None:
    case = Case("multiplicative", True)
    x, history = case.inputs()
    with torch.no_grad():
        y, after = fused_block(case.block(), x, history, case.dilation)
    assert after is not None
    assert not y.requires_grad
    assert not after.requires_grad


def test_any_split_of_a_text_gives_the_same_outputs() -> None:
    torch.manual_seed(1)
    case = Case("multiplicative", True, dilation=3)
    block = case.block()
    x, history = case.inputs()
    whole, end = fused_block(block, x, history, case.dilation)
    parts = []
    for part in x.split([1, 9, 7], dim=1):
        y, history = fused_block(block, part, history, case.dilation)
        parts.append(y)
    torch.testing.assert_close(torch.cat(parts, dim=1), whole)
    torch.testing.assert_close(history, end)
