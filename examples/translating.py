"""English to German with the built-in model, or with a translator of your own: how long each sentence takes.

python examples/translating.py [MODEL]
"""

import sys
import time

import torch

import bytenet
from bytenet.device import choose_threads

SENTENCES = (
    "The cat is sleeping on the sofa.",
    "Where can I buy a ticket to Berlin?",
    "I would like a cup of coffee, please.",
    "It has been raining since yesterday morning.",
    "My brother forgot his keys, so he had to wait outside.",
    "She asked me if I wanted to go to the cinema with her. I said yes.",
)


def main() -> None:
    begin = time.perf_counter()
    model = bytenet.load(sys.argv[1] if len(sys.argv) > 1 else "en-de")
    torch.set_num_threads(choose_threads(model.model))  # as the commands do: busy processors are left to others
    print(f"{'loaded':>9} in {time.perf_counter() - begin:.2f} s")
    for sentence in SENTENCES:
        begin = time.perf_counter()
        translation = model.translate(sentence)
        print(f"\n{time.perf_counter() - begin:7.2f} s  {sentence}\n{'':9}  {translation}")


if __name__ == "__main__":
    main()
