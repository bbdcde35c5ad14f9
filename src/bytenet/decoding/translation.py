"""Many sources of many lengths: put into batches that fit into memory, searched, handed out as they are found."""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch

from bytenet.decoding.batching import Ids, batches, padded
from bytenet.decoding.beam_search import BeamConfig, Hypothesis, beam_search
from bytenet.decoding.engine import Engine
from bytenet.model import AnyTranslator, Translator
from bytenet.model.blocks import StackConfig

MAX_ROWS = {"cpu": 768, "cuda": 1024}  # beyond this a step's time grows with the rows, and first results come later
SHARE_OF_MEMORY = 0.25


def search_all(
    model: AnyTranslator,
    engine: Engine,
    sources: Sequence[Ids],
    limits: Sequence[int],
    config: BeamConfig,
    *,
    dtype: torch.dtype | None = None,
    batch: int | None = None,
) -> Iterator[tuple[int, list[Hypothesis]]]:
    """(number of the source, its n best hypotheses), in the order in which they are found.

    Sources of similar length are searched together, at most `batch` of them. What is searched together changes nothing
    but rounding, which in bf16 may decide a close call.
    """
    device = next(model.parameters()).device
    lengths = [len(source) for source in sources]
    cost = sentence_cost(model, config, dtype)
    free = free_memory(device)
    for length, limit in zip(lengths, limits, strict=True):
        if (needed := cost(length, limit)) > free:
            raise ValueError(
                f"a source of {length:,} symbols needs {needed / 1e9:.1f} GB, and {free / 1e9:.1f} are free; "
                "split it, or take a smaller beam or max_length"
            )
    budget = int(SHARE_OF_MEMORY * free)
    most = batch or max(1, MAX_ROWS.get(device.type, MAX_ROWS["cpu"]) // config.beam)
    while not batch and engine.filled_up(most) > most:
        most -= 1
    for numbers in batches(lengths, lambda i: cost(lengths[i], limits[i]), budget, most):
        source = padded([sources[i] for i in numbers]).to(device)
        with torch.no_grad():
            state = model.start(source, [lengths[i] for i in numbers], dtype=dtype)
        for row, found in beam_search(engine, state, [limits[i] for i in numbers], config):
            yield numbers[row], found


def sentence_cost(model: AnyTranslator, config: BeamConfig, dtype: torch.dtype | None) -> Callable[[int, int], int]:
    """How many bytes the search for a source of a length, with a limit, takes at most."""
    channels, unfolding = model.config.inner_channels, model.unfolding
    item = (dtype or next(model.parameters()).dtype).itemsize

    def of_a_bytenet(stack: StackConfig) -> Callable[[int, int], int]:
        row = sum(reach + 1 for reach in stack.reaches) * channels * item
        position = 16 * channels * item  # while a block of the encoder is computed
        return lambda length, limit: config.beam * (row + 8 * (limit + 1)) + position * unfolding.read_length(length)

    def of_another(layers: int) -> Callable[[int, int], int]:
        """A Transformer's, which remembers most: keys and values of all layers and positions, of both sides."""
        position = 16 * layers * channels * item

        def cost(length: int, limit: int) -> int:
            read = unfolding.read_length(length)
            return config.beam * (position + 8) * (read + limit + 1) + 4 * item * read**2

        return cost

    return of_a_bytenet(model.config.decoder) if isinstance(model, Translator) else of_another(model.config.layers)


def free_memory(device: torch.device) -> int:
    """In bytes."""
    if device.type == "cuda":
        free: int = torch.cuda.mem_get_info(device)[0]
        return free
    try:  # Linux: with what caches would give back
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
