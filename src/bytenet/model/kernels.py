"""The Triton kernels of the fused residual block (fused.py): what stands between its matrix products.

Shapes: M = B·T rows, C channels, K kernel width. A name that starts with d_ is the gradient of what it names.

Each kernel touches each value in memory once and computes in float32.

A row is handled as one block of BLOCK channels, the next power of two; the ones past C are masked. What differs from
call to call (rows, positions, dilation) is never specialised on, so that nothing is compiled again for a new length.
Backward kernels are persistent: each program takes every n-th row and keeps its part of the norm's gradients in
registers, so that these cost no memory traffic until one last row of partial sums a program.
"""
# mypy: disable-error-code="no-untyped-def,no-untyped-call,no-any-return,untyped-decorator"

import os

import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]
import triton.language as tl  # type: ignore[import-not-found,import-untyped,unused-ignore]

from bytenet.model import normalization

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"  # read here, as triton does: when the kernels are defined
EPSILON = tl.constexpr(normalization.EPSILON)
STAGES = tl.constexpr(3)  # while a row is computed, the next two are on their way


@triton.jit
def tanh(x):
    return 2 * tl.sigmoid(2 * x) - 1  # exact to 1e-7 of its range; the hardware's own tanh only to 5e-4


@triton.jit
def load(pointer, channels, inside):
    """(BLOCK,), float32; 0 outside."""
    return tl.load(pointer + channels, mask=inside, other=0).to(tl.float32)


@triton.jit
def load_groups(pointer, channels, inside, CHANNELS: tl.constexpr):
    """(4·C,) in memory -> (BLOCK, 2, 2): joined, the four groups share each reduction over the channels."""
    first = tl.join(load(pointer, channels, inside), load(pointer + CHANNELS, channels, inside))
    second = tl.join(load(pointer + 2 * CHANNELS, channels, inside), load(pointer + 3 * CHANNELS, channels, inside))
    return tl.join(first, second)


@triton.jit
def split_groups(groups):
    """(BLOCK, 2, 2) -> four times (BLOCK,), in the order of `load_groups`."""
    first, second = tl.split(groups)
    group1, group2 = tl.split(first)
    group3, group4 = tl.split(second)
    return group1, group2, group3, group4


@triton.jit
def store_groups(pointer, channels, inside, groups, CHANNELS: tl.constexpr):
    group1, group2, group3, group4 = split_groups(groups)
    tl.store(pointer + channels, group1, mask=inside)
    tl.store(pointer + CHANNELS + channels, group2, mask=inside)
    tl.store(pointer + 2 * CHANNELS + channels, group3, mask=inside)
    tl.store(pointer + 3 * CHANNELS + channels, group4, mask=inside)


@triton.jit
def standardize(x, inside, CHANNELS: tl.constexpr):
    """x (BLOCK, ...) -> mean 0 and variance 1 over the channels, and the factor that was needed for it."""
    centred = tl.where(inside, x - tl.sum(x, 0, keep_dims=True) / CHANNELS, 0)
    scale = tl.rsqrt(tl.sum(centred * centred, 0, keep_dims=True) / CHANNELS + EPSILON)
    return centred * scale, scale


@triton.jit
def standardize_backward(gradient, standard, scale, CHANNELS: tl.constexpr):
    """The gradient of x from that of `standardize(x)`; both are 0 outside the channels."""
    mean, slope = tl.split(tl.sum(tl.join(gradient, gradient * standard), 0, keep_dims=True) / CHANNELS)
    return scale * (gradient - mean - standard * slope)


@triton.jit(do_not_specialize=["length", "dilation"])
def norm_relu(
    x, weight, bias, taps, length, dilation,
    CHANNELS: tl.constexpr, BLOCK: tl.constexpr, KERNEL_WIDTH: tl.constexpr, ORIGIN: tl.constexpr,
):  # fmt: skip
    """x (M, C) -> h = relu(LN(x)), written where a kernel will read it: taps (M, K·C), slot i of a row t is h at
    t + (i - ORIGIN)·dilation. Slots that look past the text are not written.
    """
    row = tl.program_id(0)
    position = row % length
    channels = tl.arange(0, BLOCK)
    inside = channels < CHANNELS
    standard, _ = standardize(load(x + row.to(tl.int64) * CHANNELS, channels, inside), inside, CHANNELS)
    h = tl.maximum(standard * load(weight, channels, inside) + load(bias, channels, inside), 0)
    for i in tl.static_range(KERNEL_WIDTH):
        offset = (i - ORIGIN) * dilation
        reached = (position >= offset) & (position < length + offset)
        slot = (row - offset).to(tl.int64) * KERNEL_WIDTH + i
        tl.store(taps + slot * CHANNELS + channels, h, mask=inside & reached)


@triton.jit(do_not_specialize=["rows", "length", "dilation"])
def norm_relu_backward(
    d_taps, direct, x, weight, bias, residual, d_x, partial, rows, length, dilation,
    CHANNELS: tl.constexpr, BLOCK: tl.constexpr, KERNEL_WIDTH: tl.constexpr, ORIGIN: tl.constexpr,
):  # fmt: skip
    """Backward of `norm_relu`: gathers what it scattered, plus direct (M, C) or None of what read h itself.

    Writes d_x (M, C), to which residual (M, C) or None is added, and partial (programs, 2, C): sums of the
    gradients of weight and bias.
    """
    channels = tl.arange(0, BLOCK)
    inside = channels < CHANNELS
    scale = load(weight, channels, inside)
    shift = load(bias, channels, inside)
    d_weight = tl.zeros((BLOCK,), tl.float32)
    d_bias = tl.zeros((BLOCK,), tl.float32)
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        position = row % length
        start = tl.cast(row, tl.int64) * CHANNELS
        gradient = tl.zeros((BLOCK,), tl.float32)
        for i in tl.static_range(KERNEL_WIDTH):
            offset = (i - ORIGIN) * dilation
            reached = (position >= offset) & (position < length + offset)
            slot = tl.cast(row - offset, tl.int64) * KERNEL_WIDTH + i
            gradient += load(d_taps + slot * CHANNELS, channels, inside & reached)
        if direct is not None:
            gradient += load(direct + start, channels, inside)
        standard, deviation = standardize(load(x + start, channels, inside), inside, CHANNELS)
        gradient = tl.where(standard * scale + shift > 0, gradient, 0)
        d_weight += gradient * standard
        d_bias += gradient
        result = standardize_backward(gradient * scale, standard, deviation, CHANNELS)
        if residual is not None:
            result += load(residual + start, channels, inside)
        tl.store(d_x + start + channels, result, mask=inside)
    partial += tl.program_id(0) * 2 * CHANNELS
    tl.store(partial + channels, d_weight, mask=inside)
    tl.store(partial + CHANNELS + channels, d_bias, mask=inside)


@triton.jit
def gates(
    mixed, taps, weight, bias, out,
    CHANNELS: tl.constexpr, BLOCK: tl.constexpr, KERNEL_WIDTH: tl.constexpr, ORIGIN: tl.constexpr,
):  # fmt: skip
    """mixed (M, 4·C), taps (M, K·C) with h in slot ORIGIN -> out (M, C) = g1 ⊙ tanh(g2 ⊙ h + g3 ⊙ u)."""
    row = tl.program_id(0).to(tl.int64)
    channels = tl.arange(0, BLOCK)
    inside = channels < CHANNELS
    groups = load_groups(mixed + row * 4 * CHANNELS, channels, inside, CHANNELS)
    standard, _ = standardize(groups, inside[:, None, None], CHANNELS)
    scale = load_groups(weight, channels, inside, CHANNELS)
    shift = load_groups(bias, channels, inside, CHANNELS)
    g1, g2, g3, u = split_groups(standard * scale + shift)
    h = load(taps + (row * KERNEL_WIDTH + ORIGIN) * CHANNELS, channels, inside)
    result = tl.sigmoid(g1) * tanh(tl.sigmoid(g2) * h + tl.sigmoid(g3) * tanh(u))
    tl.store(out + row * CHANNELS + channels, result, mask=inside)


@triton.jit(do_not_specialize=["rows"])
def gates_backward(
    d_out, mixed, taps, weight, bias, d_mixed, d_h, partial, rows,
    CHANNELS: tl.constexpr, BLOCK: tl.constexpr, KERNEL_WIDTH: tl.constexpr, ORIGIN: tl.constexpr,
):  # fmt: skip
    """Backward of `gates`: writes d_mixed (M, 4·C), d_h (M, C), and partial (programs, 2, 4·C): sums of
    the gradients of weight and bias.
    """
    channels = tl.arange(0, BLOCK)
    inside = channels < CHANNELS
    scale = load_groups(weight, channels, inside, CHANNELS)
    shift = load_groups(bias, channels, inside, CHANNELS)
    d_weight = tl.zeros_like(scale)
    d_bias = tl.zeros_like(shift)
    for i in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        row = tl.cast(i, tl.int64)
        groups = load_groups(mixed + row * 4 * CHANNELS, channels, inside, CHANNELS)
        h = load(taps + (row * KERNEL_WIDTH + ORIGIN) * CHANNELS, channels, inside)
        gradient = load(d_out + row * CHANNELS, channels, inside)

        standard, deviation = standardize(groups, inside[:, None, None], CHANNELS)
        g1, g2, g3, u = split_groups(standard * scale + shift)
        g1, g2, g3, u = tl.sigmoid(g1), tl.sigmoid(g2), tl.sigmoid(g3), tanh(u)
        product = tanh(g2 * h + g3 * u)

        inner = gradient * g1 * (1 - product * product)
        tl.store(d_h + row * CHANNELS + channels, inner * g2, mask=inside)
        first = tl.join(gradient * product * g1 * (1 - g1), inner * h * g2 * (1 - g2))
        second = tl.join(inner * u * g3 * (1 - g3), inner * g3 * (1 - u * u))
        gate_gradient = tl.join(first, second)

        d_weight += gate_gradient * standard
        d_bias += gate_gradient
        result = standardize_backward(gate_gradient * scale, standard, deviation, CHANNELS)
        store_groups(d_mixed + row * 4 * CHANNELS, channels, inside, result, CHANNELS)
    partial += tl.program_id(0) * 8 * CHANNELS
    store_groups(partial, channels, inside, d_weight, CHANNELS)
    store_groups(partial + 4 * CHANNELS, channels, inside, d_bias, CHANNELS)


@triton.jit
def nats(
    logits, bias, targets, costs, d_logits,
    WIDTH: tl.constexpr, SYMBOLS: tl.constexpr, BLOCK: tl.constexpr, NOTHING: tl.constexpr,
):  # fmt: skip
    """logits (M, W), of which the first V are symbols, plus bias (V,) or None, targets (M,) -> costs (M,), the negative
    log-likelihoods, 0 where there is NOTHING to learn, and d_logits (M, W), the gradient of their sum.
    """
    row = tl.program_id(0).to(tl.int64)
    symbols = tl.arange(0, BLOCK)
    inside = symbols < SYMBOLS
    x = load(logits + row * WIDTH, symbols, inside)
    if bias is not None:
        x += load(bias, symbols, inside)
    x = tl.where(inside, x, float("-inf"))
    x -= tl.max(x, 0)
    parts = tl.exp(x)
    total = tl.sum(parts, 0)
    target = tl.load(targets + row)
    is_target = symbols == target
    learnt = target != NOTHING
    cost = tl.log(total) - tl.sum(tl.where(is_target, x, 0), 0)
    tl.store(costs + row, tl.where(learnt, cost, 0))
    gradient = tl.where(learnt, parts / total - tl.where(is_target, 1.0, 0.0), 0)
    tl.store(d_logits + row * WIDTH + symbols, gradient, mask=symbols < WIDTH)
