"""What typos in the source cost: BLEU and chrF against the share of letters mistyped, as a table and a picture.

    python benchmarks/robustness.py en-de data/newstest/2014.tsv docs/images/typos.svg --limit 1000

The JSON beside the picture holds what `bytenet evaluate MODEL --pairs FILE --typos SHARE --json` gives for each share.
"""

import argparse
import itertools
import json
import tempfile
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

import bytenet
from bytenet.data.pairs import read_tsv

SHARES = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("pairs", type=Path)
    parser.add_argument("picture", type=Path)
    parser.add_argument("--limit", type=int, default=None, help="only so many pairs, from the first")
    parser.add_argument("--beam", type=int, help="by default the model's")
    parser.add_argument("--length-penalty", type=float, help="by default the model's")
    arguments = parser.parse_args()
    model = bytenet.load(arguments.model)
    results: dict[float, dict[str, Any]] = {}
    print("| letters mistyped | BLEU | chrF |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        part = Path(folder) / arguments.pairs.name.split(".")[0]
        pairs = itertools.islice(read_tsv(arguments.pairs), arguments.limit)
        part.write_text("".join(f"{pair.source}\t{pair.target}\n" for pair in pairs), encoding="utf-8")
        for share in SHARES:
            how = {"beam": arguments.beam, "length_penalty": arguments.length_penalty}
            results[share] = model.evaluate(part, typos=share, **how)
            print(f"| {share:.0%} | {results[share]['bleu']:.1f} | {results[share]['chrf']:.1f} |", flush=True)
    arguments.picture.with_suffix(".json").write_text(json.dumps(results, indent=1) + "\n", encoding="ascii")
    draw(results, arguments.picture)


def draw(results: dict[float, dict[str, Any]], picture: Path) -> None:
    figure = Figure(figsize=(6, 3.8), layout="constrained")
    axes = figure.subplots()
    shares = [100 * share for share in results]
    for score, label, colour in (("chrf", "chrF", "#2166ac"), ("bleu", "BLEU", "#b2182b")):
        axes.plot(shares, [result[score] for result in results.values()], "o-", color=colour, label=label)
    axes.set(xlabel="letters of the source mistyped, %", ylim=(0, None))
    axes.set_title("Translation of mistyped sources, beam search", loc="left", fontsize=10)
    axes.grid(color="#dddddd", linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    with rc_context({"svg.hashsalt": "typos"}):  # the same figures make the same file
        figure.savefig(picture, metadata={"Date": None})


if __name__ == "__main__":
    main()
