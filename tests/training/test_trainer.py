"""The loop: exact resuming, checkpoints that survive, and mistakes that are named."""

import errno
import json
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from bytenet.config import load_recipe
from bytenet.model_folder import load_model, save_model
from bytenet.training import checkpoint, trainer
from bytenet.training.metrics import read_metrics
from bytenet.training.objective import Objective
from bytenet.training.preparation import locked
from bytenet.training.speed import fast_products
from bytenet.training.trainer import Trainer, train
from tests.training.runs import KINDS, same_weights, small_recipe


def with_steps(recipe, steps):
    return replace(recipe, training=replace(recipe.training, steps=steps))


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "muon"])
@pytest.mark.parametrize("kind", KINDS)
def test_three_steps_and_three_more_are_six_to_the_bit(kind, optimizer, tmp_path):
    recipe = small_recipe(kind, tmp_path, optimizer=optimizer, lookahead=2)
    train(recipe, tmp_path / "whole")
    train(with_steps(recipe, 3), tmp_path / "parts")
    train(recipe, tmp_path / "parts", resume=True)
    for name in ("last", "best"):
        assert same_weights(tmp_path / "whole" / name, tmp_path / "parts" / name)
    files = [tmp_path / run / "last" / "training.safetensors" for run in ("whole", "parts")]
    assert files[0].read_bytes() == files[1].read_bytes()
    whole, parts = (
        [line["bits"] for line in read_metrics(tmp_path / run / "metrics.jsonl") if "bits" in line]
        for run in ("whole", "parts")
    )
    assert whole == parts


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_is_a_model_for_other_commands(kind, tmp_path):
    recipe = small_recipe(kind, tmp_path)
    train(recipe, tmp_path / "run")
    model, vocabularies = load_model(tmp_path / "run")
    assert [len(v) for v in vocabularies] == [config.size for config in model.config.vocabulary_configs]
    assert {file.name for file in (tmp_path / "run").iterdir()} == {
        ".lock", "best", "cache", "last", "previous", "loss.png", "metrics.jsonl", "recipe.toml",
    }  # fmt: skip
    assert load_recipe(tmp_path / "run" / "recipe.toml") == recipe


@pytest.mark.parametrize("kind", KINDS)
def test_accumulating_changes_rounding_alone(kind, tmp_path):
    recipe = small_recipe(kind, tmp_path)
    recipe = replace(recipe, model=replace(recipe.model, dropout=0.0))
    train(recipe, tmp_path / "whole")
    train(replace(recipe, training=replace(recipe.training, accumulation=3)), tmp_path / "parts")
    whole, parts = (read_metrics(tmp_path / run / "metrics.jsonl") for run in ("whole", "parts"))
    for a, b in zip(whole, parts, strict=True):
        if "bits" in a:
            assert a["bits"] == pytest.approx(b["bits"], abs=1e-5)


def test_a_loss_that_is_no_number_stops_before_the_update(tmp_path, monkeypatch):
    recipe = small_recipe("language-model", tmp_path)
    forward, calls = Objective.forward, iter(range(100))

    def broken(self, batch):
        loss, nats = forward(self, batch)
        return (loss * torch.nan, nats * torch.nan) if self.training and next(calls) == 4 else (loss, nats)

    monkeypatch.setattr(Objective, "forward", broken)
    with pytest.raises(FloatingPointError, match="step 5: the loss is nan"):
        train(recipe, tmp_path / "run")
    monkeypatch.undo()
    train(recipe, tmp_path / "run", resume=True)
    train(recipe, tmp_path / "whole")
    assert same_weights(tmp_path / "run" / "last", tmp_path / "whole" / "last")


def test_weights_that_are_no_numbers_are_not_saved(tmp_path, monkeypatch):
    recipe = small_recipe("language-model", tmp_path)
    update = Trainer._update

    def broken(self):
        update(self)
        if self.progress.step == 3:
            next(self.model.parameters()).data[0] = torch.inf

    monkeypatch.setattr(Trainer, "_update", broken)
    with pytest.raises(FloatingPointError, match="step 4: a weight is not a finite number"):
        train(recipe, tmp_path / "run")
    monkeypatch.undo()
    train(recipe, tmp_path / "run", resume=True)
    train(recipe, tmp_path / "whole")
    assert same_weights(tmp_path / "run" / "last", tmp_path / "whole" / "last")


@pytest.mark.parametrize("file", ["config.json", "model.safetensors", "training.safetensors", "training.json"])
@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_a_damaged_checkpoint_loses_one_interval_and_says_so(tmp_path, capfd, file, damage):
    recipe = small_recipe("language-model", tmp_path)
    train(recipe, tmp_path / "whole")
    train(with_steps(recipe, 4), tmp_path / "run")
    path = tmp_path / "run" / "last" / file
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-20])
    elif file != "config.json":  # without it, there is no last checkpoint at all
        path.unlink()
    train(recipe, tmp_path / "run", resume=True)
    assert same_weights(tmp_path / "whole" / "last", tmp_path / "run" / "last")
    said = capfd.readouterr().err
    if damage == "cut" or file != "config.json":
        assert file in said
        assert "trying the checkpoint before it" in said


def test_a_full_disk_is_survived_and_said(tmp_path, capfd, monkeypatch):
    recipe = small_recipe("language-model", tmp_path)
    train(recipe, tmp_path / "whole")
    calls = iter(range(100))

    def full_once(*arguments, **options):
        if next(calls) == 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        save_model(*arguments, **options)

    monkeypatch.setattr(checkpoint, "save_model", full_once)
    train(recipe, tmp_path / "run")
    assert "the disk is full" in capfd.readouterr().err
    assert same_weights(tmp_path / "whole" / "last", tmp_path / "run" / "last")


def test_a_disk_that_is_full_in_the_end_is_an_error(tmp_path, monkeypatch):
    recipe = small_recipe("language-model", tmp_path)

    def full(*arguments, **options):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(checkpoint, "save_model", full)
    with pytest.raises(OSError, match="No space left"):
        train(recipe, tmp_path / "run")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_leaves(tmp_path, monkeypatch, number):
    recipe = small_recipe("language-model", tmp_path, save_every=100)
    train(recipe, tmp_path / "whole")
    step = Trainer._step

    def interrupted(self):
        if self.progress.step == 3:
            signal.raise_signal(number)
        return step(self)

    monkeypatch.setattr(Trainer, "_step", interrupted)
    outcome = train(recipe, tmp_path / "run")
    assert (outcome.stopped_by, outcome.progress.step) == (number, 4)
    monkeypatch.undo()
    assert train(recipe, tmp_path / "run", resume=True).stopped_by == 0
    assert same_weights(tmp_path / "whole" / "last", tmp_path / "run" / "last")


def test_a_budget_of_time_ends_the_run_and_its_schedule(tmp_path, monkeypatch):
    recipe = small_recipe("language-model", tmp_path, minutes=1.0, steps=1000, schedule="linear", evaluate_every=1000)
    seconds = iter(range(0, 100_000, 2))
    monkeypatch.setattr(trainer.time, "perf_counter", lambda: next(seconds))
    outcome = train(recipe, tmp_path / "run")
    assert 60 <= outcome.progress.seconds < 70
    assert outcome.progress.step < 100
    rates = [line["learning_rate"] for line in read_metrics(tmp_path / "run" / "metrics.jsonl") if "bits" in line]
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] < 0.1 * rates[0]


def test_the_best_model_is_kept(tmp_path):
    recipe = small_recipe("language-model", tmp_path, steps=12, evaluate_every=2, learning_rate=0.05)
    outcome = train(recipe, tmp_path / "run")
    validations = [
        line["validation_bits"]
        for line in read_metrics(tmp_path / "run" / "metrics.jsonl")
        if "validation_bits" in line
    ]
    assert len(validations) == 6
    assert outcome.progress.best_bits == min(validations)


def test_a_run_is_not_overwritten(tmp_path):
    recipe = small_recipe("language-model", tmp_path)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.txt").write_text("years of work")
    with pytest.raises(ValueError, match="exists; --resume"):
        train(recipe, tmp_path / "run")
    assert (tmp_path / "run" / "thesis.txt").read_text() == "years of work"


def test_a_run_that_never_began_can_begin_again(tmp_path):
    recipe = small_recipe("language-model", tmp_path)
    (tmp_path / "text.txt").rename(tmp_path / "gone.txt")
    with pytest.raises(FileNotFoundError):
        train(recipe, tmp_path / "run")
    (tmp_path / "gone.txt").rename(tmp_path / "text.txt")
    train(recipe, tmp_path / "run")


def test_a_device_must_be_there(tmp_path):
    with pytest.raises(ValueError, match="not the name of a device"):
        train(small_recipe("language-model", tmp_path), tmp_path / "run", device="gpu")
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="no GPU"):
            train(small_recipe("language-model", tmp_path), tmp_path / "run", device="cuda")


def test_two_processes_do_not_train_into_one_folder(tmp_path):
    recipe = small_recipe("language-model", tmp_path)
    with locked(tmp_path / "run"), pytest.raises(ValueError, match="another process is training"):
        train(recipe, tmp_path / "run")
    train(recipe, tmp_path / "run")


def test_resuming_needs_a_run_of_the_same_recipe(tmp_path):
    recipe = small_recipe("language-model", tmp_path)
    with pytest.raises(ValueError, match="no run to resume"):
        train(recipe, tmp_path / "run", resume=True)
    train(with_steps(recipe, 2), tmp_path / "run")
    other = replace(recipe, training=replace(recipe.training, learning_rate=0.5))
    with pytest.raises(ValueError, match=r"training.learning_rate was 0.01 when the run began, not 0.5"):
        train(other, tmp_path / "run", resume=True)


def test_a_run_without_a_checkpoint_begins_anew(tmp_path):
    recipe = small_recipe("language-model", tmp_path)
    train(recipe, tmp_path / "whole")
    train(with_steps(recipe, 2), tmp_path / "run")
    for name in ("last", "previous", "best"):
        shutil.rmtree(tmp_path / "run" / name, ignore_errors=True)
    train(recipe, tmp_path / "run", resume=True)
    assert same_weights(tmp_path / "whole" / "last", tmp_path / "run" / "last")


def test_two_damaged_checkpoints_are_an_error(tmp_path):
    recipe = small_recipe("language-model", tmp_path)
    train(recipe, tmp_path / "run")
    for name in ("last", "previous"):
        (tmp_path / "run" / name / "training.safetensors").write_bytes(b"")
    with pytest.raises(ValueError, match="no checkpoint can be used"):
        train(recipe, tmp_path / "run", resume=True)


def test_data_must_fit_the_model(tmp_path):
    text = small_recipe("language-model", tmp_path)
    with pytest.raises(ValueError, match=r"digits.* does not go with .*language-model"):
        train(replace(text, data=small_recipe("translator", tmp_path).data), tmp_path / "run")
    with pytest.raises(ValueError, match=r"no \[data\]"):
        train(replace(text, data=None), tmp_path / "other")


def test_half_a_line_of_metrics_is_dropped(tmp_path):
    file = tmp_path / "metrics.jsonl"
    file.write_text(json.dumps({"step": 1, "bits": 2.0}) + '\n{"step": 2, "bi')
    assert read_metrics(file) == [{"step": 1, "bits": 2.0}]


def test_bf16_and_label_smoothing_train(tmp_path):
    recipe = small_recipe("language-model", tmp_path, precision="bfloat16", label_smoothing=0.1, steps=40)
    train(recipe, tmp_path / "run")
    bits = [line["bits"] for line in read_metrics(tmp_path / "run" / "metrics.jsonl") if "bits" in line]
    assert bits[-1] < 0.8 * bits[0]


@pytest.mark.parametrize(("dtype", "expected"), [(torch.bfloat16, True), (torch.float32, False)])
def test_products_are_fast_beside_bf16_and_afterwards_as_they_were(dtype, expected):
    assert not torch.backends.cuda.matmul.allow_tf32
    with fast_products(dtype):
        assert torch.backends.cuda.matmul.allow_tf32 == expected
    assert not torch.backends.cuda.matmul.allow_tf32


def test_the_run_folder_survives_being_moved(tmp_path):
    recipe = small_recipe("translator", tmp_path)
    train(with_steps(recipe, 3), tmp_path / "run")
    Path(tmp_path / "run").rename(tmp_path / "moved")
    train(recipe, tmp_path / "moved", resume=True)
    train(recipe, tmp_path / "whole")
    assert same_weights(tmp_path / "whole" / "last", tmp_path / "moved" / "last")
