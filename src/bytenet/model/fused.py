"""A residual block as one operation with its backward written by hand: matrix products and the kernels of kernels.py.

Shapes: B rows of text, T positions, M = B·T, d inner channels, C = 2d, K kernel width, G = 4d (multiplicative) or d.

It computes what `Block.forward` of blocks.py computes, which is the reference and the only way where there is no
Triton, a mask or a second multiplicative unit. Nothing is compiled for a dilation or a length.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from bytenet.model.convolution import CausalConvolution
from bytenet.vocabulary import PAD

if TYPE_CHECKING:
    from bytenet.model.blocks import Block, MultiplicativeUnit, NormalizedConvolution

try:
    from bytenet.model import kernels
except ImportError:  # Triton comes with the CUDA builds of torch alone
    kernels = None  # type: ignore[assignment]

PLAIN = "BYTENET_PLAIN"

# Warps of a persistent kernel that a multiprocessor works on at once, and channels a thread: the fastest of a search on
# one H200 at d = 512. Few warps with much in flight each win: a row in one or two warps needs hardly any barrier.
NORM_WARPS, NORM_CHANNELS = 12, 16
GATES_WARPS, GATES_CHANNELS = 8, 8


def available(x: Tensor) -> bool:
    """Whether `fused_block` can run on x here; `BYTENET_PLAIN=1` in the environment says no."""
    if kernels is None or os.environ.get(PLAIN):
        return False
    return (x.is_cuda or kernels.INTERPRETED) and x.dtype in (torch.float32, torch.bfloat16)


def fused_block(block: "Block", x: Tensor, history: Tensor | None, dilation: int) -> tuple[Tensor, Tensor | None]:
    """x (B, T, C), history (B, (K-1)·dilation, d) or None if centred -> `block(x, history, dilation)`."""
    transform = cast("MultiplicativeUnit | NormalizedConvolution", block.transform)
    convolution = transform.convolution
    causal = isinstance(convolution, CausalConvolution)
    assert block.second_unit is None
    assert causal or (history is None and convolution.kernel_width % 2 == 1)
    window = Window(
        batch=x.shape[0],
        length=x.shape[1],
        kernel_width=convolution.kernel_width,
        origin=convolution.kernel_width - 1 if causal else convolution.kernel_width // 2,
        dilation=dilation,
    )
    if causal:
        expected = (window.batch, window.reach, x.shape[2] // 2)
        history = x.new_empty(expected) if history is None and window.reach == 0 else history
        assert history is not None
        assert history.shape == expected
    with torch.cuda.device_of(x):  # type: ignore[no-untyped-call]  # Triton starts kernels on the current device
        y, after = FusedBlock.apply(  # type: ignore[no-untyped-call]
            window, block.dropout if block.training else 0.0, x, history,
            block.first_norm.weight, block.first_norm.bias, block.reduce.weight,
            block.second_norm.weight, block.second_norm.bias, convolution.mix.weight,
            transform.norm.weight, transform.norm.bias, block.expand.weight,
        )  # fmt: skip
    return y, after


@dataclass(frozen=True, kw_only=True)
class Window:
    """What the taps of a convolution hold: slot i of position t is position t + (i - origin)·dilation."""

    batch: int
    length: int
    kernel_width: int
    origin: int
    dilation: int

    @property
    def reach(self) -> int:
        return (self.kernel_width - 1) * self.dilation

    @property
    def kept(self) -> int:
        """How many positions of the text the next history holds."""
        return min(self.length, self.reach)

    @property
    def pointwise(self) -> "Window":
        return replace(self, kernel_width=1, origin=0)

    def slots(self, taps: Tensor) -> Tensor:
        """(M, K·d) -> (B, T, K, d)"""
        return taps.view(self.batch, self.length, self.kernel_width, taps.shape[1] // self.kernel_width)

    def starts(self) -> Iterator[tuple[int, slice, slice]]:
        """Slots, their positions that see before the text, and where a history holds what these see."""
        for slot in range(self.origin):
            missing = min(self.length, (self.origin - slot) * self.dilation)
            start = slot * self.dilation
            yield slot, slice(0, missing), slice(start, start + missing)

    def ends(self) -> Iterator[tuple[int, slice]]:
        """Slots, and their positions that see past the end of the text."""
        for slot in range(self.origin + 1, self.kernel_width):
            yield slot, slice(max(0, self.length - (slot - self.origin) * self.dilation), self.length)


class FusedBlock(torch.autograd.Function):
    """`Block.forward` on flat rows. A name that starts with d_ is the gradient of what it names."""

    @staticmethod
    def forward(
        ctx: Any, window: Window, dropout: float, x: Tensor, history: Tensor | None, *parameters: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """The parameters in the order in which the block uses them; they are cast to the precision of x."""
        first_weight, first_bias, reduce, second_weight, second_bias, mix, third_weight, third_bias, expand = parameters
        reduce, mix, expand = reduce.to(x.dtype), mix.to(x.dtype), expand.to(x.dtype)
        rows = x.flatten(0, 1).contiguous()

        activated = norm_relu(rows, first_weight, first_bias, window.pointwise)  # (M, C)
        reduced = activated @ reduce.t()  # (M, d)
        taps = norm_relu(reduced, second_weight, second_bias, window)  # (M, K·d)
        fill_borders(taps, history, window)
        mixed = taps @ mix.t()  # (M, G)
        if is_gated(mixed, reduced):
            out = gates(mixed, taps, third_weight, third_bias, window)  # (M, d)
        else:
            out = norm_relu(mixed, third_weight, third_bias, window.pointwise)  # (M, d)
        mask = None
        if dropout:
            out, mask = torch.native_dropout(out, dropout, train=True)
        y = torch.addmm(rows, out, expand.t())  # (M, C)

        norms = (first_weight, first_bias, second_weight, second_bias, third_weight, third_bias)
        ctx.save_for_backward(rows, activated, reduced, taps, mixed, out, mask, reduce, mix, expand, *norms)
        ctx.set_materialize_grads(False)
        ctx.window, ctx.dropout, ctx.parameter_dtype = window, dropout, parameters[0].dtype
        return y.view(x.shape), None if history is None else next_history(taps, history, window)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator,no-untyped-call,unused-ignore]
    def backward(ctx: Any, d_y: Tensor | None, d_after: Tensor | None) -> tuple[Tensor | None, ...]:
        """d_y (B, T, C), d_after (B, (K-1)·dilation, d): of the history that was returned; None for zeros."""
        rows, activated, reduced, taps, mixed, out, mask, reduce, mix, expand, *norms = ctx.saved_tensors
        first_weight, first_bias, second_weight, second_bias, third_weight, third_bias = norms
        window, dtype = ctx.window, ctx.parameter_dtype
        d_y = torch.zeros_like(rows) if d_y is None else d_y.reshape(rows.shape).contiguous()

        d_out = d_y @ expand  # (M, d)
        d_expand = weight_gradient(d_y, out, dtype)
        if mask is not None:
            d_out = torch.ops.aten.native_dropout_backward(d_out, mask, 1 / (1 - ctx.dropout))
        if is_gated(mixed, reduced):
            d_mixed, d_h, d_third = gates_backward(d_out, mixed, taps, third_weight, third_bias, window)
        else:
            d_mixed, d_third = norm_relu_backward(d_out, mixed, third_weight, third_bias, window.pointwise)
            d_h = None
        d_taps = d_mixed @ mix  # (M, K·d)
        d_mix = weight_gradient(d_mixed, taps, dtype)
        if d_after is not None:
            d_h = add_tail(torch.zeros_like(reduced) if d_h is None else d_h, d_after, window)
        d_reduced, d_second = norm_relu_backward(d_taps, reduced, second_weight, second_bias, window, direct=d_h)
        d_activated = d_reduced @ reduce  # (M, C)
        d_reduce = weight_gradient(d_reduced, activated, dtype)
        d_rows, d_first = norm_relu_backward(
            d_activated, rows, first_weight, first_bias, window.pointwise, residual=d_y
        )
        d_x = d_rows.view(window.batch, window.length, rows.shape[1])
        d_history = history_gradient(d_taps, d_after, window) if ctx.needs_input_grad[3] else None
        return None, None, d_x, d_history, *d_first, d_reduce, *d_second, d_mix, *d_third, d_expand


def fused_norm_relu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """x (..., C) -> relu(LN(x)), for norms that stand outside blocks."""
    with torch.cuda.device_of(x):  # type: ignore[no-untyped-call]
        y: Tensor = FusedNormRelu.apply(x, weight, bias)  # type: ignore[no-untyped-call]
    return y


class FusedNormRelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        rows = x.reshape(-1, x.shape[-1]).contiguous()
        ctx.save_for_backward(rows, weight, bias)
        return norm_relu(rows, weight, bias, all_rows(rows)).view(x.shape)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator,no-untyped-call,unused-ignore]
    def backward(ctx: Any, d_y: Tensor) -> tuple[Tensor, ...]:
        rows, weight, bias = ctx.saved_tensors
        d_y_rows = d_y.reshape(rows.shape).contiguous()
        d_x, d_norm = norm_relu_backward(d_y_rows, rows, weight, bias, all_rows(rows))
        return d_x.view(d_y.shape), *d_norm


def all_rows(rows: Tensor) -> Window:
    """Of rows (M, D) that no kernel reaches over."""
    return Window(batch=1, length=len(rows), kernel_width=1, origin=0, dilation=1)


def fused_nats(logits: Tensor, targets: Tensor) -> Tensor:
    """logits (M, V), targets (M,) -> what all targets but PAD cost, summed; F.cross_entropy in one pass."""
    with torch.cuda.device_of(logits):  # type: ignore[no-untyped-call]
        nats: Tensor = FusedNats.apply(logits, targets)  # type: ignore[no-untyped-call]
    return nats


class FusedNats(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor) -> Tensor:
        costs, d_logits = nats_of(logits.contiguous(), None, targets, logits.dtype)
        ctx.save_for_backward(d_logits)
        return costs.sum()

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator,no-untyped-call,unused-ignore]
    def backward(ctx: Any, d_nats: Tensor) -> tuple[Tensor, None]:
        (d_logits,) = ctx.saved_tensors
        return d_logits * d_nats, None


def fused_guess(h: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
    """h (M, d), weight (V, d), bias (V,), targets (M,) -> the same, of logits that are computed in the precision of h
    and kept nowhere: the gradients are computed with what the targets cost.
    """
    with torch.cuda.device_of(h):  # type: ignore[no-untyped-call]
        nats: Tensor = FusedGuess.apply(h, weight, bias, targets)  # type: ignore[no-untyped-call]
    return nats


class FusedGuess(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
        symbols = len(weight)
        matrix = F.pad(weight, (0, 0, 0, -symbols % 8)).to(h.dtype)  # tensor cores take rows of whole 16 bytes
        costs, d_logits = nats_of(product(h, matrix.t(), bias.dtype), bias, targets, h.dtype)
        d_weight = product(d_logits.t(), h, weight.dtype)[:symbols]
        d_bias = d_logits.sum(0, dtype=bias.dtype)[:symbols]
        ctx.save_for_backward(d_logits @ matrix, d_weight, d_bias)
        return costs.sum()

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator,no-untyped-call,unused-ignore]
    def backward(ctx: Any, d_nats: Tensor) -> tuple[Tensor | None, ...]:
        d_h, d_weight, d_bias = ctx.saved_tensors
        return d_h * d_nats, d_weight * d_nats, d_bias * d_nats, None


def nats_of(logits: Tensor, bias: Tensor | None, targets: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """logits (M, W), targets (M,) -> what each target costs (M,), 0 where it is PAD, and in the precision asked for the
    gradient (M, W) of their sum. With a bias (V,), which is still to be added, only the first V of W are symbols.
    """
    num_rows, width = logits.shape
    costs, d_logits = logits.new_empty(num_rows), logits.new_empty(logits.shape, dtype=dtype)
    kernels.nats[num_rows,](
        logits, bias, targets.contiguous(), costs, d_logits,
        WIDTH=width, SYMBOLS=width if bias is None else len(bias), BLOCK=next_power_of_two(width), NOTHING=PAD,
        num_warps=num_warps(width, NORM_CHANNELS),
    )  # fmt: skip
    return costs, d_logits


def is_gated(mixed: Tensor, reduced: Tensor) -> bool:
    """Whether a convolution gave the four parts of a multiplicative unit."""
    return mixed.shape[1] != reduced.shape[1]


def weight_gradient(d_y: Tensor, x: Tensor, dtype: torch.dtype) -> Tensor:
    """d_y (M, D'), x (M, D) -> (D', D) in the precision of the parameters"""
    return product(d_y.t(), x, dtype)


def product(a: Tensor, b: Tensor, dtype: torch.dtype) -> Tensor:
    """a (M, N) @ b (N, D) in the precision asked for, on a GPU without a rounding in between."""
    if a.is_cuda and a.dtype == torch.bfloat16 and dtype == torch.float32:
        return torch.mm(a, b, out_dtype=dtype)
    return (a @ b).to(dtype)


def fill_borders(taps: Tensor, history: Tensor | None, window: Window) -> None:
    """Writes into taps (M, K·d) what they see outside the text: the history before it, or zeros."""
    slots = window.slots(taps)
    for slot, positions, source in window.starts():
        slots[:, positions, slot] = 0 if history is None else history[:, source]
    for slot, positions in window.ends():
        slots[:, positions, slot] = 0


def next_history(taps: Tensor, history: Tensor, window: Window) -> Tensor:
    """The last (K-1)·dilation positions of the history and h, which is one of the taps."""
    h = window.slots(taps)[:, window.length - window.kept :, window.origin]
    return torch.cat([history[:, window.length :], h], dim=1)


def add_tail(d_h: Tensor, d_after: Tensor, window: Window) -> Tensor:
    """d_h (M, d), to which the gradient of `next_history` is added in place."""
    tail = d_h.view(window.batch, window.length, d_h.shape[1])[:, window.length - window.kept :]
    tail += d_after[:, window.reach - window.kept :]
    return d_h


def history_gradient(d_taps: Tensor, d_after: Tensor | None, window: Window) -> Tensor:
    """(B, (K-1)·dilation, d): from `fill_borders` and from what `next_history` still keeps of the history."""
    slots = window.slots(d_taps)
    d_history = slots.new_zeros(window.batch, window.reach, slots.shape[-1])
    for slot, positions, source in window.starts():
        d_history[:, source] += slots[:, positions, slot]
    if d_after is not None:
        d_history[:, window.length :] += d_after[:, : window.reach - window.kept]
    return d_history


def norm_relu(x: Tensor, weight: Tensor, bias: Tensor, window: Window) -> Tensor:
    """x (M, D) -> relu(LN(x)) as taps (M, K·D), without their borders."""
    num_rows, channels = x.shape
    taps = x.new_empty(num_rows, window.kernel_width * channels)
    kernels.norm_relu[num_rows,](
        x, weight, bias, taps, window.length, window.dilation,
        **constants(channels, window), num_warps=num_warps(channels, NORM_CHANNELS),
    )  # fmt: skip
    return taps


def norm_relu_backward(
    d_taps: Tensor, x: Tensor, weight: Tensor, bias: Tensor, window: Window,
    *, direct: Tensor | None = None, residual: Tensor | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """d_taps (M, K·D), direct (M, D) of relu(LN(x)) itself -> d_x (M, D) with residual (M, D) added, and (2, D): the
    gradients of weight and bias.
    """
    num_rows, channels = x.shape
    warps = num_warps(channels, NORM_CHANNELS)
    programs = num_programs(x, NORM_WARPS // warps)
    d_x = torch.empty_like(x)
    partial = weight.new_empty(programs, 2, channels, dtype=torch.float32)
    kernels.norm_relu_backward[programs,](
        d_taps, direct, x, weight, bias, residual, d_x, partial, num_rows, window.length, window.dilation,
        **constants(channels, window), num_warps=warps,
    )  # fmt: skip
    return d_x, partial.sum(0).to(weight.dtype)


def gates(mixed: Tensor, taps: Tensor, weight: Tensor, bias: Tensor, window: Window) -> Tensor:
    """mixed (M, 4·d), taps (M, K·d) -> (M, d), see `MultiplicativeUnit`."""
    num_rows, channels = mixed.shape[0], mixed.shape[1] // 4
    out = mixed.new_empty(num_rows, channels)
    kernels.gates[num_rows,](
        mixed, taps, weight, bias, out, **constants(channels, window), num_warps=num_warps(channels, GATES_CHANNELS)
    )
    return out


def gates_backward(
    d_out: Tensor, mixed: Tensor, taps: Tensor, weight: Tensor, bias: Tensor, window: Window
) -> tuple[Tensor, Tensor, Tensor]:
    """d_out (M, d) -> d_mixed (M, 4·d), d_h (M, d), and (2, 4·d): the gradients of weight and bias."""
    num_rows, channels = d_out.shape
    warps = num_warps(channels, GATES_CHANNELS)
    programs = num_programs(mixed, GATES_WARPS // warps)
    d_mixed, d_h = torch.empty_like(mixed), torch.empty_like(d_out)
    partial = weight.new_empty(programs, 2, 4 * channels, dtype=torch.float32)
    kernels.gates_backward[programs,](
        d_out, mixed, taps, weight, bias, d_mixed, d_h, partial, num_rows,
        **constants(channels, window), num_warps=warps,
    )  # fmt: skip
    return d_mixed, d_h, partial.sum(0).to(weight.dtype)


def constants(channels: int, window: Window) -> dict[str, int]:
    """What a kernel is compiled for."""
    return {
        "CHANNELS": channels,
        "BLOCK": next_power_of_two(channels),
        "KERNEL_WIDTH": window.kernel_width,
        "ORIGIN": window.origin,
    }


def next_power_of_two(number: int) -> int:
    return 1 << (number - 1).bit_length()


def num_warps(channels: int, channels_a_thread: int) -> int:
    return min(max(1, next_power_of_two(channels) // (32 * channels_a_thread)), 16)


def num_programs(rows: Tensor, a_multiprocessor: int) -> int:
    """How many programs share the rows (M, D): those that run at the same time, at least one."""
    return max(1, min(rows.shape[0], num_multiprocessors(rows.device) * max(1, a_multiprocessor)))


@cache
def num_multiprocessors(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).multi_processor_count
    return 1  # interpreted
