"""The loop: from a recipe to a run's folder, in one process or many, and on from where it stopped.

recipe.toml     the recipe, with every key        metrics.jsonl, loss.png    what happened
cache/          the encoded corpus                last/, previous/, best/    checkpoints and models
"""

import errno
import math
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor

from bytenet.config import Recipe
from bytenet.data.batches import Batch, PairBatches, TextBatches
from bytenet.data.config import TextConfig
from bytenet.data.encoding import EncodedCorpus, EncodedPairs, EncodedText
from bytenet.describe import count_parameters, forward_flops
from bytenet.device import choose_device
from bytenet.evaluation.bits import Bits, best_chunk, pair_bits, text_bits
from bytenet.model import LanguageModel, Translator, build
from bytenet.talk import Talk
from bytenet.training.checkpoint import Checkpoints, Progress, restore_optimizers
from bytenet.training.distributed import Ranks, connect, gradients_wait, like, parallel
from bytenet.training.metrics import Meter, Metrics, StepResult
from bytenet.training.objective import Objective
from bytenet.training.optimizers import build_optimizers, rate_factor
from bytenet.training.preparation import (
    begin_with,
    fit_lengths,
    fit_names,
    fit_vocabularies,
    locked,
    open_corpus,
    prepare_folder,
)
from bytenet.training.speed import fast_products, matrix_rate


@dataclass(frozen=True)
class Outcome:
    """How a call of `train` ended."""

    progress: Progress
    stopped_by: int = 0
    """The signal that ended it early; 0 for none."""


def train(recipe: Recipe, run: Path, *, resume: bool = False, device: torch.device | str | None = None) -> Outcome:
    """Train as a recipe says, into a run's folder; `resume` goes on from its last checkpoint."""
    with connect(choose_device(device)) as ranks, locked(run) if ranks.is_first else nullcontext():
        return train_in(ranks, recipe, run, resume=resume)


def train_in(ranks: Ranks, recipe: Recipe, run: Path, *, resume: bool) -> Outcome:
    """What each process does, once it is connected with the others."""
    talk = Talk(quiet=not ranks.is_first)
    if ranks.is_first:
        prepare_folder(recipe, run, resume=resume)
    ranks.wait()
    corpus = open_corpus(recipe, run, ranks, talk)
    recipe = fit_names(fit_lengths(recipe, corpus, talk, begun=run if resume else None), corpus)
    trainer = Trainer(recipe, run, corpus, ranks, talk)
    if resume:
        trainer.resume()
    return trainer.run_to_the_end()


class Trainer:
    """One run in one process."""

    def __init__(self, recipe: Recipe, run: Path, corpus: EncodedCorpus, ranks: Ranks, talk: Talk) -> None:
        self.recipe, self.config, self.run, self.ranks, self.talk = recipe, recipe.training, run, ranks, talk
        torch.manual_seed(self.config.seed)
        self.model = build(fit_vocabularies(recipe.model, corpus.vocabularies))
        if self.config.begins_with:
            begin_with(self.config.begins_with, self.model)
        self.model.to(ranks.device)
        self.dtype = getattr(torch, self.config.precision)
        objective = Objective(self.model, self.config, dtype=self.dtype).to(ranks.device)
        self.heads = objective.heads
        self.objective = parallel(objective, ranks, shard=self.config.shard)
        self.optimizers = build_optimizers(objective, self.config)
        self.average = {n: t.clone() for n, t in self.model.state_dict().items()} if self.config.average else None
        self.batches = self._batches(resident(corpus.train, ranks.device))
        self.validation = corpus.validation.head(self.config.validation_characters)
        self.checkpoints = Checkpoints(
            run, self.model, corpus.vocabularies, heads=self.heads, decoding=recipe.decoding, writes=ranks.is_first
        )
        # known of ByteNets alone: what a position costs another model depends on where it stands
        bytenet = self.model if isinstance(self.model, LanguageModel | Translator) else None
        self.flops_per_target = 3 * (forward_flops(bytenet.decoder) + forward_flops(self.heads)) if bytenet else 0
        self.flops_per_source = 3 * forward_flops(bytenet.encoder) if isinstance(bytenet, Translator) else 0
        self.progress = Progress()
        self.clock = time.perf_counter()
        self.signalled = 0  # here
        self.stopped_by = 0  # in all processes: they leave the loop together

    def _batches(self, data: EncodedText | EncodedPairs) -> TextBatches | PairBatches:
        config, seed = self.recipe.data, self.config.seed
        if isinstance(data, EncodedText):
            assert isinstance(config, TextConfig)
            rows = max(1, self.config.batch_characters // config.window)
            if rows < self.ranks.num_ranks * self.config.accumulation:
                parts = f"{self.ranks.num_ranks} processes with accumulation = {self.config.accumulation}"
                raise ValueError(
                    f"training.batch_characters: {rows} windows of {config.window} are too few for {parts}"
                )
            return TextBatches(data, window=config.window, context=config.context, rows=rows, seed=seed)
        assert not isinstance(self.model, LanguageModel)
        unfolding = self.model.unfolding
        batches = PairBatches(data, unfolding, batch_positions=self.config.batch_characters, seed=seed)
        self.talk.say(
            f"{batches.steps_per_epoch:,} steps an epoch, {batches.share_of_padding():.0%} of positions are padding"
        )
        return batches

    def resume(self) -> None:
        """Go on from the last checkpoint that can be used; from the beginning if there is none yet."""
        checkpoint = self.checkpoints.load()
        if checkpoint is None:
            self.talk.say(f"{self.run}: no checkpoint yet; beginning anew")
            return
        for note in checkpoint.notes:
            self.talk.say(note)
        with torch.no_grad():
            for name, tensor in self.model.state_dict().items():
                tensor.copy_(like(checkpoint.weights[name], tensor))
        self.heads.load_state_dict(checkpoint.heads)
        restore_optimizers(self.optimizers, checkpoint.optimizers)
        if checkpoint.average is not None:
            self.average = {name: t.to(self.ranks.device) for name, t in checkpoint.average.items()}
        self.progress = checkpoint.progress
        self.talk.say(f"resuming after step {self.progress.step:,}")

    def run_to_the_end(self) -> Outcome:
        self.talk.say(
            f"{count_parameters(self.model):,} parameters on {self.ranks.num_ranks} x {self.ranks.device.type}"
        )
        metrics = None
        if self.ranks.is_first:
            metrics = Metrics(self.run, since_step=self.progress.step, tensorboard=self.config.tensorboard)
        peak = matrix_rate(self.ranks.device) if self.ranks.device.type == "cuda" else None
        meter = Meter(metrics, self.talk, peak=peak)
        self.clock = time.perf_counter()
        saved_at = self.progress.step if self.progress.step else -1
        with self.talk.bar("training", total=1.0), self._signals(), fast_products(self.dtype):
            while not self.is_done() and not self.stopped_by:
                meter.count(self._step())
                step = self.progress.step
                if step % self.config.log_every == 0 or self.is_done():
                    meter.report(self.progress, self.share_done(), self.optimizers[-1].param_groups[0]["lr"])
                if step % self.config.evaluate_every == 0:
                    meter.validated(self.progress, self._validate())
                if step % self.config.save_every == 0:
                    saved_at = step if self._save(metrics) else saved_at
                    meter.start_anew()
        if saved_at != self.progress.step:
            if not self.stopped_by and self.progress.step % self.config.evaluate_every:
                meter.validated(self.progress, self._validate())
            self._save(metrics, final=True)
        return Outcome(self.progress, self.stopped_by)

    def is_done(self) -> bool:
        budget = self.config.minutes * 60
        return self.progress.step >= self.config.steps or bool(budget and self.progress.seconds >= budget)

    def share_done(self) -> float:
        by_steps = self.progress.step / self.config.steps
        return max(by_steps, self.progress.seconds / (self.config.minutes * 60)) if self.config.minutes else by_steps

    def _step(self) -> "StepResult":
        """One update, or FloatingPointError before it if the loss is not a number."""
        step, config = self.progress.step, self.config
        torch.manual_seed((config.seed * 1_000_003 + step) * 1_009 + self.ranks.rank)  # what dropout draws
        self.objective.train()
        nats, characters, flops = torch.zeros(1, device=self.ranks.device, dtype=torch.float64), 0, 0
        for part in range(config.accumulation):
            number = self.ranks.rank * config.accumulation + part
            batch = self.batches.batch(step, number, self.ranks.num_ranks * config.accumulation)
            batch = batch.to(self.ranks.device)
            is_last = part + 1 == config.accumulation
            with gradients_wait(self.objective, wait=not is_last):
                loss, plain = self.objective(batch)
                nats += plain
                if is_last:  # asked for before the backward pass, the loss is here while the GPU is still at that
                    agreement = self._agree(nats / batch.num_targets / math.log(2))
                (loss * self.ranks.num_ranks / batch.num_targets).backward()
            characters += batch.num_characters
            flops += self._flops(batch)
        bits, seconds, signals = agreement()
        stopped_by = self.signalled or (signal.SIGTERM if signals else 0)
        if not math.isfinite(bits):
            self._zero_gradients()
            raise FloatingPointError(f"step {step + 1}: the loss is {bits}; stopped before the update")
        self.progress.seconds += seconds
        self._update()
        self.progress.step += 1
        self.stopped_by = stopped_by
        return StepResult(bits, characters * self.ranks.num_ranks, flops * self.ranks.num_ranks)

    def _agree(self, bits: Tensor) -> Callable[[], list[float]]:
        """Begin to sum over all processes; the answer: the loss, seconds, whether a signal came to any.

        All go by the first one's clock.
        """
        now = time.perf_counter()
        own = [now - self.clock if self.ranks.is_first else 0.0, float(self.signalled)]
        self.clock = now
        return fetch(self.ranks.sum(torch.cat([bits, torch.tensor(own, dtype=torch.float64).to(bits.device)])))

    def _update(self) -> None:
        factor = rate_factor(self.config, self.share_done())
        if self.config.clip:
            torch.nn.utils.clip_grad_norm_(self.objective.parameters(), self.config.clip)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group.setdefault("highest_lr", group["lr"])
                group["lr"] = group["highest_lr"] * factor
            optimizer.step()
        self._zero_gradients()
        if self.average is not None:
            weights = self.model.state_dict()
            decay = min(self.config.average, (1 + self.progress.step) / (10 + self.progress.step))  # a start of its own
            torch._foreach_lerp_(list(self.average.values()), [weights[n] for n in self.average], 1 - decay)

    def _zero_gradients(self) -> None:
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)

    def _flops(self, batch: Batch) -> int:
        """Of the matrix products of a training step over one batch, padding included."""
        flops = self.flops_per_target * batch.inputs.numel()
        if isinstance(self.model, Translator):
            # one batch has sources that unfold to one length
            positions = len(batch.source_lengths) * self.model.unfolding.read_length(batch.source_lengths[0])
            flops += self.flops_per_source * positions
        return flops

    def _validate(self) -> Bits:
        """Bits a symbol of the validation data, with the average of the weights if there is one."""
        self.objective.eval()
        with self._averaged():
            if isinstance(self.model, LanguageModel):
                assert isinstance(self.validation, EncodedText)
                parts = torch.split(self.validation.tokens, best_chunk(self.model))
                bits = text_bits(self.model, parts, dtype=self.dtype)
            else:
                assert isinstance(self.validation, EncodedPairs)
                bits = pair_bits(self.model, self.validation.to(self.ranks.device), dtype=self.dtype)
        best = self.progress.best_bits
        if math.isfinite(bits.per_symbol) and (best is None or bits.per_symbol < best):
            self.progress.best_bits = bits.per_symbol
            self._keep(lambda: self.checkpoints.save_best(self.average))
        return bits

    @contextmanager
    def _averaged(self) -> Iterator[None]:
        """The average of the weights in their place."""
        if self.average is None:
            yield
            return
        own = {name: tensor.clone() for name, tensor in self.model.state_dict().items()}
        self.model.load_state_dict(self.average)
        try:
            yield
        finally:
            self.model.load_state_dict(own)

    def _save(self, metrics: Metrics | None, *, final: bool = False) -> bool:
        """Whether a checkpoint was written; every process gives the same answer."""
        if metrics:
            self._keep(metrics.draw)
        kept = self._keep(lambda: self.checkpoints.save(self.progress, self.optimizers, self.average), must=final)
        failures = self.ranks.sum(torch.tensor([float(not kept)], device=self.ranks.device))
        return not failures.item()

    def _keep(self, write: Callable[[], None], *, must: bool = False) -> bool:
        """Whether something could be written; a full disk is said and survived, unless it was the last chance."""
        try:
            write()
            return True
        except OSError as error:
            if must or error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            free = shutil.disk_usage(self.run).free
            self.talk.say(f"{self.run}: the disk is full ({free:,} bytes free): not saved, the last checkpoint stays")
            return False

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """SIGINT and SIGTERM end the run after the step under way; a second one ends it at once."""

        def stop(number: int, frame: FrameType | None) -> None:
            if self.signalled:
                raise KeyboardInterrupt
            self.signalled = number

        before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def fetch(values: Tensor) -> Callable[[], list[float]]:
    """Ask for values (N,): what is returned waits for them, and not for what a GPU was told to do after them."""
    if not values.is_cuda:
        return values.tolist
    copy = torch.empty(values.shape, dtype=values.dtype, pin_memory=True).copy_(values, non_blocking=True)
    arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
    arrived.record()

    def wait() -> list[float]:
        arrived.synchronize()
        result: list[float] = copy.tolist()
        return result

    return wait


def resident(data: EncodedText | EncodedPairs, device: torch.device) -> Any:
    """The data on the GPU, if it takes at most a quarter of what is free there."""
    if device.type == "cuda" and data.nbytes < torch.cuda.mem_get_info(device)[0] // 4:
        return data.to(device)
    return data
