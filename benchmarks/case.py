"""What the case of a source costs: BLEU as it is written, in small letters, and in capitals, without and with `recase`.

    python benchmarks/case.py en-de data/tatoeba/test.tsv

Sources in capitals are compared with references in capitals; BLEU is given without regard to case, too.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import bytenet
from bytenet.data.pairs import read_tsv
from bytenet.evaluation.quality import quality

CASES: dict[str, Callable[[str], str]] = {"as written": str, "in small letters": str.lower, "in capitals": str.upper}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("pairs", type=Path)
    parser.add_argument("--beam", type=int, help="by default the model's")
    arguments = parser.parse_args()
    model = bytenet.load(arguments.model)
    pairs = list(read_tsv(arguments.pairs))
    print("| sources | read as they are: BLEU, lower case | with `recase` |\n|---|---|---|")
    for name, case in CASES.items():
        references = [case(pair.target) if case is str.upper else pair.target for pair in pairs]
        cells = []
        for recase in (False, True):
            found = model.translate((case(pair.source) for pair in pairs), beam=arguments.beam, recase=recase)
            result = quality(found, references)
            cells.append(f"{result.bleu:.2f}, {result.bleu_lowercase:.2f}")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
