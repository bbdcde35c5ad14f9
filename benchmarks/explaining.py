"""`bytenet explain`: what it costs, and whether its gradients find dependences that are known.

    python benchmarks/explaining.py cost
    python benchmarks/explaining.py truth runs/copy runs/reverse
    python benchmarks/explaining.py verbs

`cost`: CPU seconds for texts of several lengths, a translator of about 10 million random parameters, one thread.

`truth`: translators of digits by recipes/copy.toml or recipes/reverse.toml, whose every output is a known digit of the
source. For sources of one length: which share of an output's column that digit has, on average, and how often the
largest. By gradients, as `explain` does, and by replacing each digit of the source with the nine others and averaging
how much the logarithm of an output's probability changes.

`verbs`: `en-de` puts verbs at the end, where English has them further ahead. In how many sentences does the German verb
depend most on the English one? By shares, as drawn, and by how much larger they are than the same word's in all
columns, which does not favour long words.
"""

import argparse
import random
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from bytenet import Pipeline, Translator, TranslatorConfig, load
from bytenet.data.pairs import read_tsv
from bytenet.describe import count_parameters
from bytenet.evaluation.sensitivity import sensitivities
from bytenet.model.blocks import StackConfig
from bytenet.model.translator import UnfoldingConfig
from bytenet.vocabulary import BEGIN, END

DIGITS = "0123456789"
VERBS = {  # a sentence: what its verb begins with in English, and in German
    "I have understood the question.": ("understood", "verst"),
    "He has forgotten his key.": ("forgotten", "verg"),
    "We have repaired the car.": ("repaired", "repar"),
    "She has translated the book.": ("translated", "übers"),
    "They have destroyed the house.": ("destroyed", "zerst"),
    "I have invited all my friends.": ("invited", "einge"),
    "I bought the book yesterday.": ("bought", "gekau"),
    "I have already eaten an apple.": ("eaten", "gege"),
    "He wants to understand the world.": ("understand", "verst"),
    "She wants to become a doctor.": ("become", "werd"),
    "We want to protect the environment.": ("protect", "schü"),
    "You must answer the question.": ("answer", "beant"),
    "We had to sell the house.": ("sell", "verk"),
    "I can recommend the hotel.": ("recommend", "empf"),
    "Can you explain the joke?": ("explain", "erk"),
    "We should celebrate the day.": ("celebrate", "fei"),
    "Did you understand the text?": ("understand", "verst"),
    "I know that she understands you.": ("understands", "verst"),
}
Matrix = npt.NDArray[np.float64]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    cost = commands.add_parser("cost")
    cost.add_argument("--lengths", type=int, nargs="+", default=[40, 100, 200])
    truth = commands.add_parser("truth")
    truth.add_argument("runs", type=Path, nargs="+")
    truth.add_argument("--lengths", type=int, nargs="+", default=[4, 8, 12])
    truth.add_argument("--sources", type=int, default=30)
    commands.add_parser("verbs")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.command == "cost":
        measure_cost(arguments.lengths)
    elif arguments.command == "verbs":
        measure_verbs()
    else:
        for run in arguments.runs:
            measure_truth(run, arguments.lengths, arguments.sources)


def measure_cost(lengths: list[int]) -> None:
    blocks = StackConfig(num_blocks=15)
    unfolding = UnfoldingConfig(b=8.0, multiple=8)
    model = Translator(TranslatorConfig(inner_channels=212, encoder=blocks, decoder=blocks, unfolding=unfolding)).eval()
    print(f"{count_parameters(model) / 1e6:.1f}M parameters")
    for length in lengths:
        source, read, wanted = torch.randint(3, 259, (3, length))
        begin = time.process_time()
        sensitivities(model, source, read, wanted)
        print(f"{length} characters from {length}: {time.process_time() - begin:.1f} s", flush=True)


def measure_truth(run: Path, lengths: list[int], sources: int) -> None:
    pipeline = load(run, device="cpu")
    reverse = any(pair.source != pair.target for pair in read_tsv(run / "cache" / "validation.tsv"))
    generator = random.Random(0)
    for length in lengths:
        shares: dict[str, list[Matrix]] = {"gradients": [], "replacements": []}
        for _ in range(sources):
            source = "".join(generator.choices(DIGITS, k=length))
            target = source[::-1] if reverse else source
            found = pipeline.explain(source, target, "character").from_source
            assert found is not None
            shares["gradients"].append(found.shares)
            changes = replacements(pipeline, source, target)
            shares["replacements"].append(changes / changes.sum(axis=0))
        for what, each in shares.items():
            columns = np.stack(each)[:, :, :length]  # END is no digit's copy
            wanted = np.arange(length)[::-1] if reverse else np.arange(length)
            share = columns[:, wanted, np.arange(length)].mean()
            largest = (columns.argmax(axis=1) == wanted).mean()
            print(f"{run.name}, {length} digits, by {what}: share {share:.1%}, largest {largest:.1%}", flush=True)


def measure_verbs() -> None:
    pipeline, hits = load("en-de", device="cpu"), np.zeros(2, dtype=int)
    for sentence, (english, german) in VERBS.items():
        found = pipeline.explain(sentence).from_source
        assert found is not None
        outputs = [output.strip() for output in found.outputs]
        verb = next((i for i, output in enumerate(outputs) if output.startswith(german)), None)
        if verb is None:
            print(f"{sentence} -> {' '.join(outputs)}: another verb")
            continue
        shares = found.shares[:, verb]
        relative = shares / found.shares.mean(axis=1)
        strongest = [found.inputs[int(values.argmax())].strip() for values in (shares, relative)]
        hits += [word == english for word in strongest]
        print(f"{outputs[verb]}: {strongest[0]} ({shares.max():.0%}), more than elsewhere {strongest[1]}", flush=True)
    print(f"the verb has the largest share in {hits[0]}, the largest beside its others in {hits[1]} of {len(VERBS)}")


@torch.no_grad()
def replacements(pipeline: Pipeline, source: str, target: str) -> Matrix:
    """(source, outputs): by how much log-probabilities change when a digit is another, on average."""
    model, (read, written) = pipeline.model, pipeline.vocabularies
    assert isinstance(model, Translator)
    others = [source[:i] + digit + source[i + 1 :] for i in range(len(source)) for digit in DIGITS]
    ids = torch.tensor([read.encode(text) for text in (source, *others)])
    wanted = torch.tensor([*written.encode(target), END])
    inputs = torch.tensor([BEGIN, *written.encode(target)]).expand(len(ids), -1)
    logits, _ = model(inputs, model.start(ids))
    found = logits.log_softmax(dim=-1)[:, torch.arange(len(wanted)), wanted]
    changes = (found[1:] - found[0]).abs().view(len(source), len(DIGITS), -1)
    mean: Matrix = changes.mean(dim=1).double().numpy()
    return mean


if __name__ == "__main__":
    main()
