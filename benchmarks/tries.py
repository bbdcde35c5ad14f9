"""Several short runs of a recipe, one after the other in one process: which change learns more in the same time?

    python benchmarks/tries.py recipes/enwik8-fast.toml --minutes 1.2 --out runs/tries \\
        --try "" --try "training.matrix_learning_rate=0.01" --try "model.decoder.num_blocks=8 training.seed=1"

Each --try is a list of changes to the recipe, as --set of `bytenet train` takes them; --set goes for all. The corpus is
encoded once and no checkpoint is written, so that a try costs little beside its own time. The first try also pays for
what is compiled. With --quality FILE.tsv a translator also translates that file when its time is over, once for each
--length-penalty.
Results go to stdout and to tries.jsonl as they come; each try's metrics.jsonl stays in its folder.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from bytenet.config import load_recipe
from bytenet.data.config import TextConfig
from bytenet.data.encoding import EncodedCorpus
from bytenet.describe import count_parameters
from bytenet.device import choose_device
from bytenet.pipeline import Pipeline
from bytenet.talk import Talk
from bytenet.training.distributed import Ranks
from bytenet.training.metrics import METRICS, Metrics, read_metrics
from bytenet.training.preparation import open_corpus
from bytenet.training.trainer import Trainer


class Try(Trainer):
    """A run that keeps nothing but its metrics."""

    def _save(self, metrics: Metrics | None, *, final: bool = False) -> bool:
        return True

    def _keep(self, write: Callable[[], None], *, must: bool = False) -> bool:
        return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("--out", type=Path, default=Path("runs/tries"))
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--quality", type=Path, metavar="FILE.tsv")
    parser.add_argument("--beam", type=int, default=4, help="for --quality")
    parser.add_argument(
        "--length-penalty", type=float, nargs="+", default=[0.0], dest="penalties", help="for --quality"
    )
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="common")
    parser.add_argument("--try", action="append", required=True, metavar="CHANGES", dest="tries")
    arguments = parser.parse_args()
    ranks, talk, begin = Ranks(0, 1, choose_device(None)), Talk(quiet=True), time.perf_counter()
    corpora: dict[Any, EncodedCorpus] = {}
    for changes in arguments.tries:
        budget = f"training.minutes={arguments.minutes}"
        recipe = load_recipe(arguments.recipe, [budget, *arguments.common, *changes.split()])
        folder = arguments.out / (changes.replace("/", "-").replace(" ", ",")[:100] or "as it is")
        folder.mkdir(parents=True, exist_ok=True)
        data = replace(recipe.data, window=1, context=0) if isinstance(recipe.data, TextConfig) else recipe.data
        made_from = (data, *recipe.model.vocabulary_configs)
        if made_from not in corpora:
            corpora[made_from] = open_corpus(recipe, arguments.out / f"corpus {len(corpora)}", ranks, talk)
        trainer = Try(recipe, folder, corpora[made_from], ranks, talk)
        result = {"changes": changes} | run(trainer)
        if arguments.quality:
            result["quality"] = translate(trainer, arguments.quality, arguments.beam, arguments.penalties)
        del trainer
        result["elapsed"] = time.perf_counter() - begin
        print(
            f"{result['validation_bits']:.4f} validation  {result['training_bits']:.4f} training  "
            f"{result['steps']:,} steps  {result['characters_per_second']:,.0f} characters/s  "
            f"{result.get('share_of_peak', 0):.1%} of peak  {result['parameters'] / 1e6:.1f}M  "
            f"{result['elapsed']:.0f} s  "
            + "".join(f"{q['bleu']:.2f} BLEU, {q['length_ratio']:.2f} as long  " for q in result.get("quality", []))
            + (changes or "(as it is)"),
            flush=True,
        )
        with (arguments.out / "tries.jsonl").open("a", encoding="ascii") as file:
            file.write(json.dumps(result) + "\n")


def run(trainer: Try) -> dict[str, Any]:
    metrics = trainer.run / METRICS
    metrics.unlink(missing_ok=True)
    trainer.run_to_the_end()
    lines = read_metrics(metrics)
    steps = [line for line in lines if "bits" in line]
    result = {
        "validation_bits": [line["validation_bits"] for line in lines if "validation_bits" in line][-1],
        "training_bits": statistics.fmean(line["bits"] for line in steps[-20:]),
        "steps": trainer.progress.step,
        "characters_per_second": statistics.median(line["characters_per_second"] for line in steps),
        "parameters": count_parameters(trainer.model),
        "seconds": trainer.progress.seconds,
    }
    if trainer.ranks.device.type == "cuda":
        result["share_of_peak"] = statistics.median(line["share_of_peak"] for line in steps)
        result["gigabytes"] = torch.cuda.max_memory_allocated() / 2**30
        torch.cuda.reset_peak_memory_stats()
    return result


def translate(trainer: Try, file: Path, beam: int, penalties: Sequence[float]) -> list[dict[str, Any]]:
    """How good a trained translator's translations are, with each of the penalties."""
    if trainer.average is not None:
        trainer.model.load_state_dict(trainer.average)
    vocabularies = trainer.checkpoints.vocabularies
    pipeline = Pipeline(trainer.model.eval(), vocabularies, decoding=trainer.recipe.decoding)
    return [pipeline.evaluate(file, beam=beam, length_penalty=penalty) for penalty in penalties]


if __name__ == "__main__":
    main()
