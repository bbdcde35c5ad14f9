"""The Triton kernels of one decoding step, and what starts them: all write into tensors that are there already.

Shapes: n rows, d inner channels, C = 2d, K kernel width, V vocabulary, R_l = (K-1)·dilation + 1 slots of a ring.

`embed`, `add_norm_relu`, `norm_taps` and `gates` are what stands between the products, a program a row. `linear` is the
product for few rows, where time goes into reading the weights and into waiting; for many, a library's is better.

A block remembers h in a ring (R_l, capacity, d): slot t % R_l holds time t. Rows change places without a copy: a table
(R, capacity), int32, R the largest R_l, says in slot t % R which row of the ring holds the past of each row at time t.
`time` (), int64, is the current one, at least (K-1)·dilation; its slot is written by `embed`: each row is its own.

Nothing is compiled for a number of rows, a dilation or a time, and nothing waits for the device. With `pdl`
(programmatic dependent launch), a kernel may start while the one before it still runs: it asks for weights and loads
what the last kernel but one and those before it have written, then waits for the last one.
"""
# mypy: disable-error-code="no-untyped-def,no-untyped-call,no-any-return,untyped-decorator,assignment"

from dataclasses import dataclass
from typing import Any

import torch
import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]
import triton.language as tl  # type: ignore[import-not-found,import-untyped,unused-ignore]
from torch import Tensor

from bytenet.model import kernels
from bytenet.model.fused import next_power_of_two, num_warps
from bytenet.model.kernels import load, load_groups, split_groups, standardize, tanh

INTERPRETED = tl.constexpr(kernels.INTERPRETED)
ROW_CHANNELS = 4  # channels a thread of the kernels with one program a row: few, since few rows leave room for threads
MULTIPROCESSORS = 132  # of an H100 or H200; a guess elsewhere only costs time
LINE = 128  # bytes that one prefetch brings


@dataclass(frozen=True, kw_only=True)
class Tiles:
    """How a product is cut: a program makes block_m × block_n outputs from split · block_k of the depth at a time.

    Each of the split parts is a product of its own, which Triton gives to a warp; so split is 1 or num_warps.
    """

    block_m: int
    block_n: int
    block_k: int
    split: int = 1
    num_warps: int = 4
    num_stages: int = 4


def choose_tiles(rows: int, columns: int, depth: int) -> Tiles:
    """As a search on one H200 had it."""
    if rows <= 16:
        return Tiles(block_m=16, block_n=8, block_k=64 if depth >= 256 else 16, split=4)
    row_tiles = -(-rows // 64)
    if row_tiles * -(-columns // 32) >= MULTIPROCESSORS / 2:
        return Tiles(block_m=64, block_n=32, block_k=64)
    return Tiles(block_m=64, block_n=16, block_k=128)


def embed(
    tokens: Tensor, embedding: Tensor, representation: Tensor | None, source_of_row: Tensor | None, start: int,
    table: Tensor, time: Tensor, x: Tensor, *, pdl: bool = False,
) -> None:  # fmt: skip
    """tokens (n,), embedding (V, C), representation (S, L, C) or None with its row for each of n, and the time of its
    first position: x (n, C), float32, is their sum; past L - 1 that one goes on. The table gets its current slot.
    """
    rows, channels = x.shape
    assert embedding.shape[1] == channels
    length = 0 if representation is None else representation.shape[1]
    start_kernel(
        embed_kernel, (rows,), tokens, embedding, representation, source_of_row, table, time, x,
        start, length, table.shape[0], table.shape[1], **row_constants(channels, None), pdl=pdl,
    )  # fmt: skip


def linear(
    x: Tensor, weight: Tensor, out: Tensor,
    *, ahead: Tensor | None = None, tiles: Tiles | None = None, pdl: bool = False,
) -> None:  # fmt: skip
    """x (n, D), weight (N, D): out (n, N) = x @ weight.T

    `ahead` are the weights of the next product: they are brought into the second-level cache meanwhile.
    """
    (rows, depth), columns = x.shape, weight.shape[0]
    assert weight.shape == (columns, depth)
    assert out.shape == (rows, columns)
    tiles = tiles or choose_tiles(rows, columns, depth)
    line = LINE // weight.element_size()
    num_lines = 0 if ahead is None or kernels.INTERPRETED else ahead.numel() // line
    start_kernel(
        product, (-(-columns // tiles.block_n), -(-rows // tiles.block_m)), x, weight, out, ahead, rows, num_lines,
        DEPTH=depth, COLUMNS=columns, LINE=line, **constants(tiles), pdl=pdl,
    )  # fmt: skip


def gates(
    mixed: Tensor, norm_weight: Tensor, norm_bias: Tensor, h: Tensor, time: Tensor | None, out: Tensor,
    *, warps: int | None = None, pdl: bool = False,
) -> None:  # fmt: skip
    """mixed (n, 4·d), norm (4·d,), h a ring (R_l, capacity, d), or (n, d) without a time -> out (n, d), see
    `MultiplicativeUnit`.
    """
    rows, channels = out.shape
    assert mixed.shape == (rows, 4 * channels)
    slots, capacity, _ = (1, *h.shape) if time is None else h.shape
    assert h.shape[-1] == channels
    assert capacity >= rows
    start_kernel(
        gates_kernel, (rows,), mixed, norm_weight, norm_bias, h, time, out, slots, capacity,
        **row_constants(channels, warps), pdl=pdl,
    )  # fmt: skip


def add_norm_relu(
    x: Tensor, delta: Tensor | None, norm_weight: Tensor, norm_bias: Tensor, h: Tensor,
    *, warps: int | None = None, pdl: bool = False,
) -> None:  # fmt: skip
    """x (n, D) += delta (n, D) if there is one; h (n, D) = relu(LN(x))"""
    rows, channels = x.shape
    assert h.shape == x.shape
    assert delta is None or delta.shape == x.shape
    start_kernel(
        add_norm_relu_kernel, (rows,), x, delta, norm_weight, norm_bias, h, **row_constants(channels, warps), pdl=pdl
    )


def norm_taps(
    y: Tensor, norm_weight: Tensor, norm_bias: Tensor,
    ring: Tensor, table: Tensor, time: Tensor, dilation: int, taps: Tensor,
    *, warps: int | None = None, pdl: bool = False,
) -> None:  # fmt: skip
    """y (n, d), norm (d,), ring (R_l, capacity, d), table (R, capacity):

    h = relu(LN(y)) goes into the ring, and all taps into taps (n, K·d), oldest first, h last.
    """
    rows, channels = y.shape
    kernel_width = taps.shape[1] // channels
    check_ring(y, ring, table, kernel_width, dilation)
    assert taps.shape == (rows, kernel_width * channels)
    start_kernel(
        norm_taps_kernel, (rows,), y, norm_weight, norm_bias, ring, table, time, taps,
        dilation, ring.shape[0], table.shape[0], ring.shape[1],
        KERNEL_WIDTH=kernel_width, **row_constants(channels, warps), pdl=pdl,
    )  # fmt: skip


def check_ring(y: Tensor, ring: Tensor, table: Tensor, kernel_width: int, dilation: int) -> None:
    slots, capacity, channels = ring.shape
    assert slots == (kernel_width - 1) * dilation + 1
    assert channels == y.shape[1]
    assert capacity >= y.shape[0]
    assert table.shape[0] >= slots
    assert table.shape[1] == capacity


def constants(tiles: Tiles) -> dict[str, int]:
    return {
        "BLOCK_M": tiles.block_m,
        "BLOCK_N": tiles.block_n,
        "BLOCK_K": tiles.block_k,
        "SPLIT": tiles.split,
        "num_warps": tiles.num_warps,
        "num_stages": tiles.num_stages,
    }


def row_constants(channels: int, warps: int | None) -> dict[str, int]:
    return {
        "CHANNELS": channels,
        "BLOCK": next_power_of_two(channels),
        "num_warps": warps or num_warps(channels, ROW_CHANNELS),
    }


def start_kernel(kernel: Any, grid: tuple[int, ...], *arguments: Any, pdl: bool, **options: Any) -> None:
    assert all(argument.is_contiguous() for argument in arguments if isinstance(argument, Tensor))
    pdl = pdl and not kernels.INTERPRETED
    if pdl:
        options["launch_pdl"] = True
    with torch.cuda.device_of(arguments[0]):  # Triton starts kernels on the current device
        kernel[grid](*arguments, PDL=pdl, **options)


@triton.jit
def wait(PDL: tl.constexpr):
    """For what earlier kernels write. From here on the next kernel may start, to wait in its turn."""
    if PDL:
        tl.extra.cuda.gdc_wait()
        tl.extra.cuda.gdc_launch_dependents()


@triton.jit
def prefetch(weight, num_lines, LINE: tl.constexpr):
    """Asks for weights to be brought into the second-level cache, a line after the other; all programs share them."""
    program = tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)
    lines = tl.arange(0, 128)
    for first in tl.range(program * 128, num_lines, tl.num_programs(0) * tl.num_programs(1) * 128):
        pointers = weight + tl.minimum(first + lines, num_lines - 1) * LINE
        tl.inline_asm_elementwise(
            "prefetch.global.L2 [$1]; // $0", "=r,l", [pointers], dtype=tl.int32, is_pure=False, pack=1
        )


@triton.jit
def depths(BLOCK_K: tl.constexpr, SPLIT: tl.constexpr):
    """(BLOCK_K,) or (SPLIT, BLOCK_K): what a program reads of the depth at a time.

    Against the last or the last but one axis of this, what has two axes broadcasts in either form.
    """
    result = tl.arange(0, BLOCK_K)
    if SPLIT > 1:
        result = tl.arange(0, SPLIT)[:, None] * BLOCK_K + result[None, :]
    return result


@triton.jit
def zeros(BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, SPLIT: tl.constexpr):
    """(BLOCK_M, BLOCK_N) or (SPLIT, BLOCK_M, BLOCK_N)"""
    result = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    if SPLIT > 1:
        result = tl.zeros((SPLIT, BLOCK_M, BLOCK_N), tl.float32)
    return result


@triton.jit
def multiply(left, right, total):
    """left (..., BLOCK_M, BLOCK_K) is cast to the precision of right (..., BLOCK_K, BLOCK_N)."""
    left = left.to(right.dtype)
    if INTERPRETED:  # which multiplies the bits of bfloat16
        left, right = left.to(tl.float32), right.to(tl.float32)
    return tl.dot(left, right, total, input_precision="ieee")


@triton.jit(do_not_specialize=["rows", "num_lines"])
def product(
    x, weight, out, ahead, rows, num_lines, DEPTH: tl.constexpr, COLUMNS: tl.constexpr, LINE: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """See `linear`."""
    if ahead is not None:
        prefetch(ahead, num_lines, LINE)
    column = (tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N))[None, :]
    row = (tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M))[:, None]
    wait(PDL)
    total = zeros(BLOCK_M, BLOCK_N, SPLIT)
    for first in tl.range(0, DEPTH, SPLIT * BLOCK_K):
        depth = first + depths(BLOCK_K, SPLIT)
        k = tl.expand_dims(depth, -2)
        left = tl.load(x + row * DEPTH + k, mask=(row < rows) & (k < DEPTH), other=0)
        k = tl.expand_dims(depth, -1)
        right = tl.load(weight + column * DEPTH + k, mask=(column < COLUMNS) & (k < DEPTH), other=0)
        total = multiply(left, right, total)
    if SPLIT > 1:
        total = tl.sum(total, 0)
    tl.store(out + row * COLUMNS + column, total, mask=(row < rows) & (column < COLUMNS))


@triton.jit(do_not_specialize=["start", "length", "table_slots", "capacity"])
def embed_kernel(
    tokens, embedding, representation, source_of_row, table, time, x, start, length, table_slots, capacity,
    CHANNELS: tl.constexpr, BLOCK: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """See `embed`."""
    row = tl.program_id(0).to(tl.int64)
    channels = tl.arange(0, BLOCK)
    inside = channels < CHANNELS
    wait(PDL)
    now = tl.load(time)
    tl.store(table + (now % table_slots) * capacity + row, row.to(tl.int32))
    value = load(embedding + tl.load(tokens + row) * CHANNELS, channels, inside)
    if representation is not None:
        position = tl.minimum(now - start, length - 1)
        value += load(representation + (tl.load(source_of_row + row) * length + position) * CHANNELS, channels, inside)
    tl.store(x + row * CHANNELS + channels, value, mask=inside)


@triton.jit(do_not_specialize=["slots", "capacity"])
def gates_kernel(
    mixed, weight, bias, h, time, out, slots, capacity, CHANNELS: tl.constexpr, BLOCK: tl.constexpr, PDL: tl.constexpr
):
    """See `gates`."""
    row = tl.program_id(0).to(tl.int64)
    channels = tl.arange(0, BLOCK)
    inside = channels < CHANNELS
    scale = load_groups(weight, channels, inside, CHANNELS)
    shift = load_groups(bias, channels, inside, CHANNELS)
    if time is not None:
        h += (tl.load(time).to(tl.int32) % slots).to(tl.int64) * capacity * CHANNELS
    h = load(h + row * CHANNELS, channels, inside)  # by the last kernel but one
    wait(PDL)
    groups = load_groups(mixed + row * 4 * CHANNELS, channels, inside, CHANNELS)
    standard, _ = standardize(groups, inside[:, None, None], CHANNELS)
    g1, g2, g3, u = split_groups(standard * scale + shift)
    result = tl.sigmoid(g1) * tanh(tl.sigmoid(g2) * h + tl.sigmoid(g3) * tanh(u))
    tl.store(out + row * CHANNELS + channels, result, mask=inside)


@triton.jit
def add_norm_relu_kernel(
    x, delta, weight, bias, h, CHANNELS: tl.constexpr, BLOCK: tl.constexpr, PDL: tl.constexpr
):  # fmt: skip
    """See `add_norm_relu`."""
    start = tl.program_id(0).to(tl.int64) * CHANNELS
    channels = tl.arange(0, BLOCK)
    inside = channels < CHANNELS
    scale, shift = load(weight, channels, inside), load(bias, channels, inside)
    wait(PDL)
    value = load(x + start, channels, inside)
    if delta is not None:
        value += load(delta + start, channels, inside)
        tl.store(x + start + channels, value, mask=inside)
    standard, _ = standardize(value, inside, CHANNELS)
    tl.store(h + start + channels, tl.maximum(standard * scale + shift, 0), mask=inside)


@triton.jit(do_not_specialize=["dilation", "slots", "table_slots", "capacity"])
def norm_taps_kernel(
    y, weight, bias, ring, table, time, taps, dilation, slots, table_slots, capacity,
    KERNEL_WIDTH: tl.constexpr, CHANNELS: tl.constexpr, BLOCK: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """See `norm_taps`."""
    row = tl.program_id(0).to(tl.int64)
    channels = tl.arange(0, BLOCK)
    inside = channels < CHANNELS
    scale, shift = load(weight, channels, inside), load(bias, channels, inside)
    now = tl.load(time).to(tl.int32)
    taps += row * KERNEL_WIDTH * CHANNELS + channels
    pasts = ()
    for tap in tl.static_range(KERNEL_WIDTH - 1):
        moment = now - (KERNEL_WIDTH - 1 - tap) * dilation
        ancestor = tl.load(table + (moment % table_slots).to(tl.int64) * capacity + row)
        past = ring + ((moment % slots).to(tl.int64) * capacity + ancestor) * CHANNELS
        pasts += (tl.load(past + channels, mask=inside),)  # by earlier steps
    wait(PDL)
    value = load(y + row * CHANNELS, channels, inside)
    for tap in tl.static_range(KERNEL_WIDTH - 1):
        tl.store(taps + tap * CHANNELS, pasts[tap], mask=inside)
    standard, _ = standardize(value, inside, CHANNELS)
    h = tl.maximum(standard * scale + shift, 0)
    tl.store(taps + (KERNEL_WIDTH - 1) * CHANNELS, h, mask=inside)
    tl.store(ring + ((now % slots).to(tl.int64) * capacity + row) * CHANNELS + channels, h, mask=inside)
