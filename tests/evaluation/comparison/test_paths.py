"""Paths: walks find what a search of the graph finds, and gradients are where there are paths."""

from collections import deque
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bytenet.evaluation.comparison.cost import random_texts
from bytenet.evaluation.comparison.paths import (
    NEURAL_GPU_REACH,
    NEVER,
    bidirectional,
    gradient_support,
    recurrent,
    shortest_paths,
    through_blocks,
)
from bytenet.evaluation.comparison.rows import DIGITS, ROWS, deepened, unfolded_as
from bytenet.model.baselines.neural_gpu import ConvolutionalUnit
from bytenet.model.translator import UnfoldingConfig
from tests.model.strategies import in_double, stack_configs, table_1

MODELS = table_1(
    source_vocabulary=DIGITS,
    target_vocabulary=DIGITS,
    inner_channels=6,
    unfolding=UnfoldingConfig(a=1.0, b=1.0, multiple=3),
)


def embedded(length: int) -> np.ndarray:
    return np.where(np.eye(length, dtype=bool), 0.0, NEVER)


def searched(edges: set[tuple[tuple, tuple]], starts: list[tuple], ends: list[tuple]) -> np.ndarray:
    """Breadth first over a graph of single steps."""
    distances = np.full((len(starts), len(ends)), NEVER)
    for number, start in enumerate(starts):
        found, queue = {start: 0}, deque([start])
        while queue:
            node = queue.popleft()
            for before, after in edges:
                if before == node and after not in found:
                    found[after] = found[node] + 1
                    queue.append(after)
        distances[number] = [found.get(end, NEVER) for end in ends]
    return distances


@given(stack_configs(centred=True), st.integers(1, 6), st.booleans())
def test_a_walk_through_blocks_is_a_search_of_their_graph(stack, length, centred):
    edges = set()
    for layer, dilation in enumerate(stack.block_dilations):
        for position in range(length):
            for tap in range(stack.kernel_width):
                back = tap - stack.kernel_width // 2 if centred else tap
                edges.add(((layer, position - back * dilation), (layer + 1, position)))
    starts = [(0, position) for position in range(length)]
    ends = [(stack.num_blocks, position) for position in range(length)]
    expected = searched({edge for edge in edges if 0 <= edge[0][1] < length}, starts, ends)
    assert np.array_equal(through_blocks(stack, embedded(length), centred=centred), expected)


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("both_ways", [False, True])
def test_a_walk_along_a_recurrence_is_a_search_of_its_graph(layers, both_ways):
    """Of a layer both ways, what the two directions hold stands side by side."""
    length, edges = 5, set()
    for layer in range(1, layers + 1):
        for position in range(length):
            for way in (1, -1) if both_ways else (1,):
                below = [(layer - 1, position, other) for other in (1, -1)]
                edges |= {(node, (layer, position, way)) for node in below}
                edges.add(((layer, position - way, way), (layer, position, way)))
    starts = [(0, position, 1) for position in range(length)]
    ways = [[(layers, position, way) for position in range(length)] for way in (1, -1)]
    expected = np.minimum(*(searched(edges, starts, ends) for ends in ways))
    walk = bidirectional if both_ways else recurrent
    assert np.array_equal(walk(embedded(length), layers), expected)


@pytest.mark.parametrize("row", MODELS)
@pytest.mark.parametrize(("source", "target"), [(8, 12), (3, 2)])
def test_gradients_are_where_paths_are(row, source, target):
    paths = shortest_paths(MODELS[row], source, target)
    by_source, by_target = gradient_support(in_double(MODELS[row]), random_texts(source), random_texts(target))
    assert by_source.tolist() == np.isfinite(paths.from_source).tolist()
    assert by_target.tolist() == np.isfinite(paths.from_target).tolist()


def test_an_input_is_no_output_before_it_and_one_step_is_the_least():
    for config in MODELS.values():
        paths = shortest_paths(config, 5, 6)
        assert np.isinf(paths.from_target[np.tril_indices(6, -1)]).all()
        assert np.isfinite(paths.from_target.diagonal()).all()
        assert paths.from_source.min() >= 1


def test_a_step_of_the_neural_gpu_reaches_so_far():
    """Its gradients from one end of a network to the other would not show it."""
    torch.manual_seed(0)
    unit = ConvolutionalUnit(6, 6).double()
    memory = torch.randn(1, 11, 6, dtype=torch.float64, requires_grad=True)
    mask = torch.ones(1, 11, 1, dtype=torch.bool)
    (gradient,) = torch.autograd.grad(unit(memory, mask)[0, 5].sum(), memory)
    reached = gradient[0].any(dim=1).nonzero()[:, 0].tolist()
    assert reached == list(range(5 - NEURAL_GPU_REACH, 5 + NEURAL_GPU_REACH + 1))


def test_convolutions_that_reach_far_connect_any_two_tokens():
    """Table 1's c; those of the small networks that learn to copy do not."""
    (bytenet,) = (row.config for row in ROWS if row.name == "ByteNet")
    shallow = unfolded_as(bytenet, UnfoldingConfig(multiple=1))
    assert np.isinf(shortest_paths(shallow, 40, 48).from_source).any()
    deep = shortest_paths(deepened(shallow), 40, 48)
    assert set(deep.from_source.flatten()) == {20}
    assert set(deep.from_target[np.triu_indices(48)]) == {10}


def test_a_severed_network_goes_through_its_first_column():
    whole = MODELS["Recurrent ByteNet, RNN and RNN"]
    through_all, through_one = (shortest_paths(replace(whole, severed=severed), 8, 8) for severed in (False, True))
    assert np.array_equal(through_all.from_target, through_one.from_target)
    assert (through_one.from_source >= through_all.from_source).all()
    assert through_one.from_source[7, 7] > through_all.from_source[7, 7] + 7
