"""Translate with the built-in model, and see what each sentence takes.

python examples/translate.py ["A sentence of your own."] ...
"""

import sys
import time

import bytenet

SENTENCES = [
    "The cat is sleeping on the sofa.",
    "Where can I buy a ticket to Berlin?",
    "I have lost my keys again.",
    "If it rains tomorrow, we will stay at home.",
    "The committee has not yet decided when the new rules will come into force.",
]


def main() -> None:
    begin = time.perf_counter()
    model = bytenet.load("en-de")
    print(f"loaded in {time.perf_counter() - begin:.1f} s")
    for sentence in sys.argv[1:] or SENTENCES:
        begin = time.perf_counter()
        translation = model.translate(sentence)
        print(f"\n  {sentence}\n  {translation}\n  {time.perf_counter() - begin:.2f} s", flush=True)


if __name__ == "__main__":
    main()
