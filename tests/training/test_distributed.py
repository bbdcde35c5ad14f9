"""Several processes: the same losses as one, the same weights in each, and killed runs that go on."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from bytenet.config import save_recipe
from bytenet.model import build
from bytenet.model.baselines.transformer import TransformerConfig
from bytenet.training.distributed import Ranks, parallel
from bytenet.training.metrics import read_metrics
from bytenet.training.objective import Objective
from bytenet.training.trainer import train
from tests.kills import free_port, main
from tests.training.runs import small_recipe

ROOT = Path(__file__).parent.parent.parent


def run_with_two(script: str, *arguments: str) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", free_port()]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"}
    result = subprocess.run(
        [*command, script, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        timeout=60,
    )
    assert result.returncode == 0, result.stderr[-3000:]


COMPARE_RANKS = """
import sys, torch
from pathlib import Path
from torch import distributed
from bytenet.config import load_recipe
from bytenet.training import trainer
from bytenet.training.distributed import whole

def equal_everywhere(self, write=trainer.Trainer.run_to_the_end):
    outcome = write(self)
    for tensor in self.model.state_dict().values():
        first = whole(tensor).clone()
        own = first.clone()
        distributed.broadcast(first, 0)
        assert torch.equal(first, own)
    return outcome

trainer.Trainer.run_to_the_end = equal_everywhere
trainer.train(load_recipe(Path(sys.argv[1])), Path(sys.argv[2]), device="cpu")
"""


@pytest.mark.parametrize(
    ("kind", "shard"),
    [
        pytest.param("language-model", False, id="language-model-ddp"),
        pytest.param("translator", True, id="translator-fsdp2"),
        pytest.param("language-model", True, id="language-model-fsdp2", marks=pytest.mark.slow),
        pytest.param("translator", False, id="translator-ddp", marks=pytest.mark.slow),
    ],
)
def test_two_processes_learn_as_one(kind, shard, tmp_path):
    recipe = small_recipe(kind, tmp_path, average=0.0, shard=shard)
    recipe = replace(recipe, model=replace(recipe.model, dropout=0.0))  # each process drops what it likes
    save_recipe(recipe, tmp_path / "recipe.toml")
    train(recipe, tmp_path / "one", device="cpu")
    script = tmp_path / "script.py"
    script.write_text(COMPARE_RANKS)
    run_with_two(str(script), str(tmp_path / "recipe.toml"), str(tmp_path / "two"))
    one, two = (read_metrics(tmp_path / name / "metrics.jsonl") for name in ("one", "two"))
    assert len(one) == len(two) > recipe.training.steps
    for a, b in zip(one, two, strict=True):
        for name in ("bits", "validation_bits"):
            assert a.get(name) == pytest.approx(b.get(name), abs=1e-5)


def test_only_bytenets_are_divided():
    config = TransformerConfig(inner_channels=4)
    two = Ranks(0, 2, torch.device("cpu"))
    with pytest.raises(ValueError, match=r"^training.shard divides the weights of ByteNets alone"):
        parallel(Objective(build(config)), two, shard=True)


def test_a_killed_run_goes_on_to_the_bit(monkeypatch):
    """The short form of tests/kills.py."""
    monkeypatch.setattr(
        sys, "argv", ["kills.py", "--kills", "1", "--processes", "1", "--kinds", "translator", "--steps", "30"]
    )
    assert main() == 0
