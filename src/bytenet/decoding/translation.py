"""Many sources of many lengths: put into batches that fit into memory, searched, handed out as they are found."""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch

from bytenet.decoding.batching import Ids, batches, padded
from bytenet.decoding.beam_search import BeamConfig, Hypothesis, beam_search
from bytenet.decoding.engine import Engine
from bytenet.model import Translator

MAX_ROWS = {"cpu": 768, "cuda": 1024}  # beyond this a step's time grows with the rows, and first results come later
SHARE_OF_MEMORY = 0.25


def search_all(
    model: Translator,
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


def sentence_cost(model: Translator, config: BeamConfig, dtype: torch.dtype | None) -> Callable[[int, int], int]:
    """How many bytes the search for a source of a length, with a limit, takes at most."""
    channels, stack = model.config.inner_channels, model.config.decoder
    item = (dtype or model.decoder.embedding.weight.dtype).itemsize
    row = sum(reach + 1 for reach in stack.reaches) * channels * item
    position = 16 * channels * item  # while a block of the encoder is computed

    def cost(length: int, limit: int) -> int:
        read = model.unfolding.read_length(length)
        return config.beam * (row + 8 * (limit + 1)) + position * read

    return cost


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
