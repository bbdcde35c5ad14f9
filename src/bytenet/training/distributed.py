"""One process or many: `torchrun` starts them, and the same loop runs in each."""

import gc
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

from bytenet.describe import count_parameters
from bytenet.model.blocks import Block
from bytenet.model.decoder import Decoder
from bytenet.model.encoder import Encoder


@dataclass(frozen=True)
class Ranks:
    """Which process this is, of how many, and where its tensors live."""

    rank: int
    num_ranks: int
    device: torch.device

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def wait(self) -> None:
        if self.num_ranks > 1:
            distributed.barrier()

    def sum(self, values: Tensor) -> Tensor:
        """The sum over all processes, the same in each."""
        if self.num_ranks > 1:
            distributed.all_reduce(values)
        return values


@contextmanager
def connect(device: torch.device) -> Iterator[Ranks]:
    """Join the processes that torchrun started, if it did; a GPU is the one of the process's own number."""
    if "RANK" not in os.environ:
        yield Ranks(0, 1, device)
        return
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
    ranks = Ranks(distributed.get_rank(), distributed.get_world_size(), device)
    yield ranks
    ranks.wait()  # the first one may still be writing; after an error, the others are ended by torchrun
    gc.collect()  # a data-parallel wrapper that outlives its group can hang in the end
    distributed.destroy_process_group()


def parallel(objective: nn.Module, ranks: Ranks, *, shard: bool) -> nn.Module:
    """The objective whose gradients are averaged over all processes; with `shard`, its weights are divided too."""
    if ranks.num_ranks == 1:
        return objective
    if shard:
        halves = [part for part in objective.modules() if isinstance(part, Encoder | Decoder)]
        if sum(map(count_parameters, halves)) < count_parameters(objective):
            raise ValueError("training.shard divides the weights of ByteNets alone")
        for kinds in (Block, Encoder | Decoder):  # from the inside out
            for part in objective.modules():
                if isinstance(part, kinds):
                    fully_shard(part)
        return objective
    return DistributedDataParallel(objective)


def gradients_wait(objective: nn.Module, *, wait: bool) -> AbstractContextManager[Any]:
    """While a step goes over its parts: leave the averaging to the last of them."""
    if not distributed.is_initialized():
        return nullcontext()
    for part in objective.modules():
        if isinstance(part, FSDPModule):
            part.set_requires_gradient_sync(not wait, recurse=False)
    if wait and isinstance(objective, DistributedDataParallel):
        return objective.no_sync()
    return nullcontext()


def whole(tensor: Tensor) -> Tensor:
    """A tensor of which each process may hold a part; every process must ask."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def like(value: Tensor, model: Tensor) -> Tensor:
    """A whole tensor, placed and divided as another one is."""
    value = value.to(model.device)
    if isinstance(model, DTensor):
        return distribute_tensor(value, model.device_mesh, model.placements)
    return value
