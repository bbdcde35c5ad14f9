"""Adam, AdamW and Muon, and the schedule of their rates."""

import math
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Adam, AdamW, Optimizer

from bytenet.model.blocks import MultiplicativeUnit, Stack
from bytenet.model.convolution import Pointwise
from bytenet.training.config import TrainingConfig


def build_optimizers(model: nn.Module, config: TrainingConfig) -> list[Optimizer]:
    """One for all parameters, or Muon for matrices and AdamW for the rest."""
    on_gpu = next(model.parameters()).device.type == "cuda"
    options = {"lr": config.learning_rate, "weight_decay": config.weight_decay, "fused": True}
    match config.optimizer:
        case "adam":
            return [Adam(model.parameters(), **options)]  # type: ignore[arg-type]
        case "adamw":
            return [AdamW(model.parameters(), **options)]  # type: ignore[arg-type]
        case "muon":
            stacks = [module for module in model.modules() if isinstance(module, Stack)]
            units = [unit for stack in stacks for unit in stack.modules() if isinstance(unit, MultiplicativeUnit)]
            gates = [unit.convolution.mix.weight for unit in units]
            whole = without(gates, (p for stack in stacks for p in stack.parameters() if p.ndim == 2))
            if not gates and not whole:
                raise ValueError('training.optimizer = "muon" is for blocks, and this model has none')
            if config.matrices == "all":
                products = (module for module in model.modules() if isinstance(module, Pointwise))
                whole += without([*gates, *whole], (p.weight for p in products if p.bias is None))  # logits have one
            matrices = [{"params": gates, "parts": 4}, {"params": whole, "parts": 1}]
            rest = without([*gates, *whole], model.parameters())
            muon = Muon(
                [group for group in matrices if group["params"]],
                lr=config.matrix_learning_rate,
                weight_decay=config.weight_decay,
                dtype=torch.bfloat16 if on_gpu or config.precision == "bfloat16" else torch.float32,
            )
            return [muon, AdamW(rest, **options)]  # type: ignore[arg-type]


def without(chosen: Iterable[Tensor], parameters: Iterable[Tensor]) -> list[Tensor]:
    ids = set(map(id, chosen))
    return [parameter for parameter in parameters if id(parameter) not in ids]


def rate_factor(config: TrainingConfig, progress: float) -> float:
    """The share of the highest rate when `progress` (0 to 1) of the run is done."""
    if progress < config.warmup:
        return progress / config.warmup
    left = 1 - min(1.0, (progress - config.warmup) / (1 - config.warmup))
    match config.schedule:
        case "constant":
            return 1.0
        case "linear":
            return left
        case "cosine":
            return 0.5 - 0.5 * math.cos(math.pi * left)


class Muon(Optimizer):
    """Momentum whose singular values are all brought near 1 before it is applied (Jordan et al., 2024).

    A group's `parts` says of how many matrices, one below the other, each of its parameters consists: the gates of a
    multiplicative unit are four. Matrices of one shape are treated at once: many small ones cost a few large products,
    in the precision that `dtype` names.
    """

    def __init__(
        self,
        parameters: Iterable[Any],
        *,
        lr: float,
        momentum: float = 0.95,
        weight_decay: float = 0.0,
        parts: int = 1,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__(parameters, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "parts": parts})
        self.dtype = dtype

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            by_shape: defaultdict[torch.Size, list[Tensor]] = defaultdict(list)
            for parameter in group["params"]:
                if parameter.grad is not None:
                    by_shape[parameter.shape].append(parameter)
            for parameters in by_shape.values():
                self._update(parameters, group)

    def _update(self, parameters: list[Tensor], group: dict[str, Any]) -> None:
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        momenta = [self._momentum(parameter) for parameter in parameters]
        torch._foreach_lerp_(momenta, gradients, 1 - group["momentum"])
        ahead = torch._foreach_lerp(gradients, momenta, group["momentum"])  # Nesterov's look ahead
        rows, columns = parameters[0].shape[0] // group["parts"], parameters[0].shape[1]
        matrices = torch.stack(ahead).view(-1, rows, columns).to(self.dtype)
        updates = orthogonalize(matrices).view(-1, *parameters[0].shape)
        size = 0.2 * math.sqrt(max(rows, columns))  # makes the update's root mean square that of AdamW, about 0.2
        torch._foreach_mul_(parameters, 1 - group["lr"] * group["weight_decay"])
        torch._foreach_add_(parameters, list(updates.to(parameters[0].dtype).unbind()), alpha=-group["lr"] * size)

    def _momentum(self, parameter: Tensor) -> Tensor:
        state = self.state[parameter]
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(parameter)
        momentum: Tensor = state["momentum"]
        return momentum


def orthogonalize(matrices: Tensor) -> Tensor:
    """(number, rows, columns) -> the same with singular values between about 0.7 and 1.2: five Newton-Schulz steps."""
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if tall else matrices
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(5):
        gram = x @ x.mT
        # the polynomial 3.4445 s - 4.7750 s³ + 2.0315 s⁵ of each singular value s, Jordan's coefficients
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=-4.7750, alpha=2.0315), x, beta=3.4445)
    return (x.mT if tall else x).contiguous()
