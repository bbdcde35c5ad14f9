"""Unaltered translations for docs/results.md: the paper's two sentences, and others written for it.

    python benchmarks/samples.py en-de [--beam 12]

The first two sources are quoted from the last table of the paper, which has them from newstest.
"""

import argparse

import bytenet

PAPER = (
    "Director Jon Favreau, who is currently working on Disney's forthcoming Jungle Book film, told the website "
    'Hollywood Reporter: "I think times are changing."',
    "Matt Casaday, 25, a senior at Brigham Young University, says he had paid 42 cents on Amazon.com for a used copy "
    'of "Strategic Media Decisions: Understanding The Business End Of The Advertising Business."',
)
EVERYDAY = (
    "Could you tell me how to get to the station?",
    "My sister wants to become a doctor.",
    "I forgot to water the plants before we went on holiday.",
    "Dinner will be ready in ten minutes, so please wash your hands.",
    "We have known each other since we were children.",
)
NEWS = (
    "The city council will decide on Thursday whether the old bridge should be repaired or replaced.",
    "Three people were injured when a lorry collided with a tram in Leipzig on Monday morning.",
    "According to the company, sales rose by 12 per cent in the third quarter.",
    "Anna Kowalczyk, who has worked at the hospital for 18 years, said the staff were exhausted.",
    "The government wants to make it easier for young families to find an affordable flat, but the opposition doubts "
    "that the money will be enough.",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--beam", type=int, help="by default the model's")
    arguments = parser.parse_args()
    sources = [*PAPER, *EVERYDAY, *NEWS]
    translations = bytenet.load(arguments.model).translate(sources, beam=arguments.beam)
    print("| source | translation |\n|---|---|")
    for source, translation in zip(sources, translations, strict=True):
        print(f"| {source} | {translation} |")


if __name__ == "__main__":
    main()
