"""Convolutions, layer norm and the multiplicative unit against slow references written from their definitions."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from bytenet.model.blocks import MultiplicativeUnit, Stack, StackConfig
from bytenet.model.convolution import CausalConvolution, CentredConvolution, Pointwise
from bytenet.model.decoder import joined
from bytenet.model.normalization import EPSILON, LayerNorm
from bytenet.model.translator import Stretched

small = st.integers(1, 5)


def convolve_by_loops(inputs: dict[int, Tensor], weight: Tensor, offsets: list[int], length: int) -> Tensor:
    """Position by position, tap by tap, channel by channel; `inputs` maps positions to (B, D), absent ones are zero."""
    width, channels = len(offsets), weight.shape[1] // len(offsets)
    kernel = weight.view(weight.shape[0], width, channels)
    rows = next(iter(inputs.values())).shape[0]
    result = torch.zeros(rows, length, weight.shape[0], dtype=weight.dtype)
    for t in range(length):
        for out in range(weight.shape[0]):
            for tap, offset in enumerate(offsets):
                for channel in range(channels):
                    if t + offset in inputs:
                        result[:, t, out] += kernel[out, tap, channel] * inputs[t + offset][:, channel]
    return result


@given(small, small, small, st.integers(1, 4), small)
def test_causal_convolution_is_its_definition(length, in_channels, out_channels, kernel_width, dilation):
    convolution = CausalConvolution(in_channels, out_channels, kernel_width).double()
    reach = (kernel_width - 1) * dilation
    x = torch.randn(2, length, in_channels, dtype=torch.float64)
    history = torch.randn(2, reach, in_channels, dtype=torch.float64)
    inputs = {t: x[:, t] for t in range(length)} | {t - reach: history[:, t] for t in range(reach)}
    offsets = [dilation * (i - kernel_width + 1) for i in range(kernel_width)]

    y, after = convolution(x, history, dilation)

    torch.testing.assert_close(y, convolve_by_loops(inputs, convolution.mix.weight, offsets, length))
    assert torch.equal(after, torch.cat([history, x], dim=1)[:, -reach:] if reach else x[:, :0])


@given(small, small, small, st.sampled_from([1, 3, 5]), small)
def test_centred_convolution_is_its_definition(length, in_channels, out_channels, kernel_width, dilation):
    convolution = CentredConvolution(in_channels, out_channels, kernel_width).double()
    x = torch.randn(2, length, in_channels, dtype=torch.float64)
    offsets = [dilation * (i - kernel_width // 2) for i in range(kernel_width)]

    y, _ = convolution(x, None, dilation)

    inputs = {t: x[:, t] for t in range(length)}
    torch.testing.assert_close(y, convolve_by_loops(inputs, convolution.mix.weight, offsets, length))


def test_centred_convolution_sees_nothing_behind_a_rows_end():
    convolution = CentredConvolution(3, 3, 3).double()
    x = torch.randn(2, 8, 3, dtype=torch.float64)
    mask = (torch.arange(8) < torch.tensor([[5], [8]]))[..., None]
    alone, _ = convolution(x[:1, :5], None, 2)
    together, _ = convolution(x, mask, 2)
    torch.testing.assert_close(together[:1, :5], alone)


@pytest.mark.parametrize("groups", [1, 4])
def test_layer_norm_normalises_the_channels_of_each_position_alone(groups):
    norm = LayerNorm(8 * groups, groups=groups).double()
    torch.nn.init.normal_(norm.weight)
    torch.nn.init.normal_(norm.bias)
    x = 3 + 5 * torch.randn(2, 6, 8 * groups, dtype=torch.float64)
    expected = torch.empty_like(x)
    for row in range(2):
        for position in range(6):
            for group in range(groups):
                part = slice(8 * group, 8 * group + 8)
                values = x[row, position, part]
                standard = (values - values.mean()) / (values.var(correction=0) + EPSILON).sqrt()
                expected[row, position, part] = standard * norm.weight[part] + norm.bias[part]
    torch.testing.assert_close(norm(x), expected)


@given(st.integers(1, 6), st.sampled_from([2, 5]), st.integers(1, 3), small)
def test_multiplicative_unit_is_its_formula(length, channels, kernel_width, dilation):
    unit = MultiplicativeUnit(channels, kernel_width, CausalConvolution).double()
    torch.nn.init.normal_(unit.norm.weight)
    torch.nn.init.normal_(unit.norm.bias)
    h = torch.randn(2, length, channels, dtype=torch.float64)
    history = torch.zeros(2, (kernel_width - 1) * dilation, channels, dtype=torch.float64)

    def gate(number: int) -> Tensor:
        part = slice(number * channels, (number + 1) * channels)
        offsets = [dilation * (i - kernel_width + 1) for i in range(kernel_width)]
        inputs = {t: h[:, t] for t in range(length)}
        convolved = convolve_by_loops(inputs, unit.convolution.mix.weight[part], offsets, length)
        return torch.layer_norm(convolved, [channels], unit.norm.weight[part], unit.norm.bias[part], EPSILON)

    g1, g2, g3, u = gate(0).sigmoid(), gate(1).sigmoid(), gate(2).sigmoid(), gate(3).tanh()
    y, _ = unit(h, history, dilation)
    torch.testing.assert_close(y, g1 * torch.tanh(g2 * h + g3 * u))


def test_blocks_begin_with_as_large_a_part_as_is_asked_for():
    torch.manual_seed(0)
    x = torch.randn(4, 64, 64)
    added = {}
    for begins in ("shared", "full", "zero"):
        stack = Stack(StackConfig(num_blocks=16, kernel_width=1, begins=begins), 32, CausalConvolution)
        y, _ = stack(x, [None] * 16)
        added[begins] = (y - x).square().mean().item()
    assert added["zero"] == 0
    assert 0.2 < added["shared"] < 1  # of the variance 1 of x
    assert 8 < added["full"] / added["shared"] < 32


def test_what_is_joined_side_by_side_need_not_lie_so():
    join = Pointwise(12, 6).double()
    x, source = (torch.randn(2, 5, 6, dtype=torch.float64, requires_grad=True) for _ in range(2))
    found = torch.autograd.grad(joined(join, x, source).square().sum(), [x, source, join.weight])
    expected = torch.autograd.grad(join(torch.cat([x, source], dim=-1)).square().sum(), [x, source, join.weight])
    torch.testing.assert_close(found, expected)


def test_a_repeated_position_learns_from_all_that_stands_on_it():
    x = torch.randn(2, 5, 6, dtype=torch.float64, requires_grad=True)
    places = torch.tensor([0, 0, 1, 3, 3, 3, 4])  # and nothing stands on 2
    assert torch.equal(Stretched.apply(x, places), x[:, places])
    (found,) = torch.autograd.grad(Stretched.apply(x, places).pow(3).sum(), x)
    (expected,) = torch.autograd.grad(x[:, places].pow(3).sum(), x)
    torch.testing.assert_close(found, expected)
