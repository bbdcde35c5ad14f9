"""The kernels of a decoding step, each and as whole blocks, against plain torch in float64: on a GPU, or with
TRITON_INTERPRET=1 and Triton installed, anywhere.
"""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from bytenet.model.blocks import MultiplicativeUnit
from bytenet.model.convolution import CausalConvolution
from bytenet.model.fused import available
from bytenet.model.normalization import EPSILON

pytest.importorskip("triton")
from bytenet.decoding import step_kernels as kernels
from bytenet.decoding.step_kernels import Tiles

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

pytestmark = [
    pytest.mark.skipif(
        not available(torch.zeros(1, device=DEVICE)), reason="needs Triton, and a GPU or TRITON_INTERPRET=1"
    ),
    pytest.mark.filterwarnings("ignore:Conversion of an array:DeprecationWarning"),  # the interpreter of Triton 3.6
]

# Relative errors; where a GPU rounds to the nearest bfloat16, the interpreter cuts off.
TOLERANCES = {torch.float32: 1e-5, torch.bfloat16: 2e-2}
TILES = [
    None,
    Tiles(block_m=16, block_n=16, block_k=16, split=1, num_warps=4, num_stages=2),
    Tiles(block_m=16, block_n=32, block_k=16, split=2, num_warps=2),
    Tiles(block_m=32, block_n=16, block_k=32, split=4, num_warps=4),
    Tiles(block_m=64, block_n=16, block_k=64, split=1, num_warps=4),
]


def random(*shape: int, dtype: torch.dtype = torch.float32, mean: float = 0.5) -> Tensor:
    """The same values in every precision."""
    return (mean + torch.randn(shape)).bfloat16().to(dtype).to(DEVICE)


def norm(channels: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """The weight and the bias of a norm that does something."""
    return random(channels, dtype=dtype, mean=1), random(channels, dtype=dtype, mean=0.2)


def norm_relu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.layer_norm(x.double(), x.shape[-1:], weight.double(), bias.double(), EPSILON).relu()


def error(value: Tensor, reference: Tensor) -> float:
    assert value.shape == reference.shape
    return float((value.double() - reference.double()).norm() / reference.double().norm())


@dataclass(frozen=True)
class Case:
    rows: int = 12
    inner_channels: int = 16
    kernel_width: int = 3
    dilation: int = 3
    dtype: torch.dtype = torch.float32
    tiles: Tiles | None = None
    wide_weights: bool = False
    """Whether a norm's parameters stay float32 beside products in bfloat16."""

    @property
    def norm_dtype(self) -> torch.dtype:
        return torch.float32 if self.wide_weights else self.dtype

    @property
    def tolerance(self) -> float:
        return TOLERANCES[self.dtype]


CASES = [
    *(Case(rows=rows, tiles=tiles) for rows, tiles in zip((1, 12, 17, 40, 40), TILES, strict=True)),
    *(Case(rows=3, inner_channels=6, tiles=tiles) for tiles in TILES[:3]),
    *(Case(rows=3, inner_channels=40, tiles=tiles) for tiles in TILES),
    *(Case(kernel_width=width, dilation=dilation) for width in (1, 2) for dilation in (1, 3)),
    *(Case(rows=16, inner_channels=d, kernel_width=4, tiles=TILES[2]) for d in (6, 16, 40)),
    *(Case(rows=rows, inner_channels=40, dtype=torch.bfloat16, wide_weights=rows < 12) for rows in (1, 3, 17)),
    *(Case(rows=12, dtype=torch.bfloat16, tiles=tiles) for tiles in TILES[1:4]),
]


@dataclass(frozen=True)
class Ring:
    """A ring full of a random past, random ancestors, and a time."""

    ring: Tensor
    table: Tensor
    time: Tensor

    @classmethod
    def random(cls, case: Case, time: int) -> "Ring":
        slots, capacity = (case.kernel_width - 1) * case.dilation + 1, case.rows + 2
        return cls(
            ring=random(slots, capacity, case.inner_channels, dtype=case.dtype),
            table=torch.randint(capacity, (slots + 2, capacity), dtype=torch.int32).to(DEVICE),
            time=torch.tensor(time, device=DEVICE),
        )

    def taps(self, case: Case, h: Tensor) -> Tensor:
        """h (n, d), what the ring will hold of the current time -> (n, K·d), float64"""
        taps = []
        for age in range((case.kernel_width - 1) * case.dilation, 0, -case.dilation):
            moment = int(self.time) - age
            ancestors = self.table[moment % len(self.table), : case.rows].long()
            taps.append(self.ring[moment % len(self.ring)][ancestors].double())
        return torch.cat([*taps, h.double()], dim=1)

    def after(self, case: Case, h: Tensor) -> Tensor:
        after = self.ring.double()
        after[int(self.time) % len(after), : case.rows] = h.double()
        return after


def times(case: Case) -> list[int]:
    """The first there is, one at the end of the ring, and a large one."""
    reach = (case.kernel_width - 1) * case.dilation
    return [reach, 2 * reach + 1, 100_003]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_products_of_rows(case: Case) -> None:
    torch.manual_seed(1)
    depth, columns, dtype = 2 * case.inner_channels, case.inner_channels + 3, case.dtype
    x, weight = random(case.rows, depth, dtype=dtype), random(columns, depth, dtype=dtype)
    out = torch.full((case.rows, columns), torch.nan, dtype=dtype, device=DEVICE)
    kernels.linear(x, weight, out, ahead=random(7, 64, dtype=dtype), tiles=case.tiles)
    assert error(out, x.double() @ weight.double().t()) < case.tolerance


@pytest.mark.parametrize("case", CASES, ids=str)
def test_taps(case: Case) -> None:
    torch.manual_seed(1)
    d, dtype = case.inner_channels, case.dtype
    y, normalization = random(case.rows, d, dtype=dtype), norm(d, case.norm_dtype)
    h = norm_relu(y, *normalization)
    for time in times(case):
        past = Ring.random(case, time)
        taps = past.taps(case, h)
        ring, out = past.ring.clone(), torch.full(taps.shape, torch.nan, dtype=dtype, device=DEVICE)
        kernels.norm_taps(y, *normalization, ring, past.table, past.time, case.dilation, out)
        assert error(out, taps) < case.tolerance
        assert torch.equal(out[:, :-d].double(), taps[:, :-d])
        assert error(ring, past.after(case, h)) < case.tolerance


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("conditioned", [True, False])
def test_embedding(dtype: torch.dtype, conditioned: bool) -> None:
    torch.manual_seed(1)
    rows, channels, start, length = 5, 12, 8, 4
    embedding, representation = random(9, channels, dtype=dtype), random(3, length, channels, dtype=dtype)
    tokens, source_of_row = torch.randint(9, (rows,)).to(DEVICE), torch.randint(3, (rows,)).to(DEVICE)
    for time in (start, start + 2, start + length - 1, start + length, start + 1000):
        table = torch.full((6, 7), -1, dtype=torch.int32, device=DEVICE)
        x = torch.full((rows, channels), torch.nan, device=DEVICE)
        source = (representation, source_of_row) if conditioned else (None, None)
        kernels.embed(tokens, embedding, *source, start, table, torch.tensor(time, device=DEVICE), x)
        expected = embedding[tokens].float()
        if conditioned:
            expected = expected + representation[source_of_row, min(time - start, length - 1)].float()
        assert torch.equal(x, expected)
        assert table[time % 6].tolist() == [0, 1, 2, 3, 4, -1, -1]
        assert int((table >= 0).sum()) == rows


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("inner_channels", [6, 16, 40])
def test_gates(inner_channels: int, dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    case = Case(inner_channels=inner_channels, dtype=dtype)
    unit = MultiplicativeUnit(inner_channels, 1, CausalConvolution).double().to(DEVICE)
    parameters = norm(4 * inner_channels, dtype)
    unit.norm.weight.data, unit.norm.bias.data = (value.double() for value in parameters)
    mixed, h = (random(case.rows, channels, dtype=dtype) for channels in (4 * inner_channels, inner_channels))
    unit.convolution.forward = lambda *_: (mixed.double(), None)  # type: ignore[method-assign]
    with torch.no_grad():
        expected, _ = unit(h.double(), None, 1)

    out = torch.empty_like(h)
    kernels.gates(mixed, *parameters, h, None, out)
    assert error(out, expected) < case.tolerance
    for time in times(case):
        past = Ring.random(case, time)
        past.ring[time % len(past.ring), : case.rows] = h
        kernels.gates(mixed, *parameters, past.ring, past.time, out.fill_(torch.nan))
        assert error(out, expected) < case.tolerance


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("channels", [12, 80])
def test_add_norm_relu(channels: int, dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    x, delta, h = random(17, channels), random(17, channels, dtype=dtype), random(17, channels, dtype=dtype)
    normalization = norm(channels)
    total = x + delta
    kernels.add_norm_relu(x, delta, *normalization, h)
    assert error(x, total) < 1e-6
    assert error(h, norm_relu(total, *normalization)) < TOLERANCES[dtype]
    for value in (x, delta):
        before = value.clone()
        kernels.add_norm_relu(value, None, *normalization, h.fill_(torch.nan))
        assert torch.equal(value, before)
        assert error(h, norm_relu(value, *normalization)) < TOLERANCES[dtype]


@pytest.mark.parametrize("rows", [1, 12, 16, 17, 40, 128])
@pytest.mark.parametrize("depth", [6, 512, 800, 1600])
@pytest.mark.parametrize("columns", [6, 512, 2048, 3200])
def test_chosen_tiles_fit(rows: int, columns: int, depth: int) -> None:
    tiles = kernels.choose_tiles(rows, columns, depth)
    sizes = (tiles.block_m, tiles.block_n, tiles.block_k, tiles.split, tiles.num_warps)
    assert all(size & (size - 1) == 0 for size in sizes)
    assert sizes[0] >= 16
    assert min(sizes[1:3]) >= 8
    on_their_way = 2 * tiles.num_stages * tiles.split * tiles.block_k * (tiles.block_m + tiles.block_n)
    assert on_their_way <= 232_448  # bytes of shared memory
