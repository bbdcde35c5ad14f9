"""Optimisers and schedules."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bytenet.model.convolution import Pointwise
from bytenet.training.config import TrainingConfig
from bytenet.training.optimizers import Muon, build_optimizers, orthogonalize, rate_factor
from tests.model.strategies import language_models, translators


@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 4))
def test_orthogonalizing_keeps_directions_and_evens_out_their_sizes(rows, columns, number):
    torch.manual_seed(rows * 100 + columns * 10 + number)
    matrices = torch.randn(number, rows, columns)
    u, before, v = torch.linalg.svd(matrices, full_matrices=False)
    after = orthogonalize(matrices)
    torch.testing.assert_close(
        u.mT @ after @ v.mT, torch.diag_embed(torch.diagonal(u.mT @ after @ v.mT, dim1=-2, dim2=-1)), atol=1e-4, rtol=0
    )
    large = before > 0.05 * before.amax(dim=-1, keepdim=True)
    sizes = torch.linalg.svdvals(after)
    assert ((sizes > 0.5) & (sizes < 1.4))[large].all()


def test_matrices_of_one_shape_are_treated_as_each_would_be_alone():
    torch.manual_seed(0)
    shapes = [(4, 6), (4, 6), (6, 4), (3, 3)]
    together = [torch.nn.Parameter(torch.randn(shape)) for shape in shapes]
    alone = [torch.nn.Parameter(parameter.detach().clone()) for parameter in together]
    optimizer = Muon(together, lr=0.1, weight_decay=0.1)
    each = [Muon([parameter], lr=0.1, weight_decay=0.1) for parameter in alone]
    for _ in range(3):
        for a, b in zip(together, alone, strict=True):
            a.grad = torch.randn_like(a)
            b.grad = a.grad.clone()
        optimizer.step()
        for single in each:
            single.step()
    for a, b in zip(together, alone, strict=True):
        torch.testing.assert_close(a, b)


def test_the_parts_of_a_matrix_are_treated_as_each_would_be_alone():
    torch.manual_seed(0)
    whole = torch.nn.Parameter(torch.randn(12, 5))
    parts = [torch.nn.Parameter(part.clone()) for part in whole.detach().chunk(4)]
    optimizers = [Muon([whole], lr=0.1, weight_decay=0.1, parts=4), Muon(parts, lr=0.1, weight_decay=0.1)]
    for _ in range(3):
        whole.grad = torch.randn_like(whole)
        for part, gradient in zip(parts, whole.grad.chunk(4), strict=True):
            part.grad = gradient.clone()
        for optimizer in optimizers:
            optimizer.step()
    torch.testing.assert_close(whole, torch.cat(parts))


def test_muon_in_bfloat16_goes_where_muon_goes_but_for_rounding():
    torch.manual_seed(0)
    begin, gradient = torch.randn(8, 24), torch.randn(8, 24)
    updates = []
    for dtype in (torch.float32, torch.bfloat16):
        matrix = torch.nn.Parameter(begin.clone())
        matrix.grad = gradient.clone()
        Muon([matrix], lr=1.0, dtype=dtype).step()
        updates.append(matrix.detach() - begin)
    assert 0 < (updates[1] - updates[0]).norm() / updates[0].norm() < 0.05


@given(
    st.one_of(language_models(), translators()),
    st.sampled_from(["adam", "adamw", "muon"]),
    st.sampled_from(["blocks", "all"]),
)
def test_every_parameter_has_one_optimizer(model, name, matrices):
    config = TrainingConfig(optimizer=name, matrices=matrices)
    groups = [(type(each), group) for each in build_optimizers(model, config) for group in each.param_groups]
    assert sorted(id(p) for _, group in groups for p in group["params"]) == sorted(map(id, model.parameters()))
    if name == "muon" and matrices == "all":  # Muon has all products but those for logits, which have a bias
        products = [module for module in model.modules() if isinstance(module, Pointwise)]
        own = {id(p) for kind, group in groups if kind is Muon for p in group["params"]}
        assert own == {id(module.weight) for module in products if module.bias is None}


@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine"])
@given(progress=st.floats(0, 1), warmup=st.sampled_from([0.0, 0.1, 0.5]))
def test_a_rate_rises_in_the_warmup_and_then_never_again(schedule, progress, warmup):
    config = TrainingConfig(schedule=schedule, warmup=warmup)
    factor, later = rate_factor(config, progress), rate_factor(config, min(1.0, progress + 0.05))
    assert 0 <= factor <= 1
    if progress >= warmup:
        assert later <= factor + 1e-12
    elif progress + 0.05 <= warmup:
        assert later >= factor


def test_schedules_by_hand():
    half = {
        name: rate_factor(TrainingConfig(schedule=name, warmup=0.2), 0.6) for name in ("constant", "linear", "cosine")
    }
    assert half == {"constant": 1.0, "linear": pytest.approx(0.5), "cosine": pytest.approx(0.5)}
    assert rate_factor(TrainingConfig(schedule="linear"), 1.0) == 0
    assert rate_factor(TrainingConfig(schedule="cosine"), 0.25) == pytest.approx(0.5 + 0.5 * math.cos(math.pi / 4))
    assert rate_factor(TrainingConfig(warmup=0.5), 0.25) == 0.5
