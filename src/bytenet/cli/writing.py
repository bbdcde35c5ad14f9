"""`translate`, `generate` and `score`."""

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bytenet.cli.lines import arriving, check_utf8
from bytenet.cli.options import (
    Batch,
    Beam,
    Device,
    Json,
    LengthPenalty,
    MaxLength,
    Precision,
    Recase,
    Split,
    open_model,
    say,
)
from bytenet.talk import Talk

if TYPE_CHECKING:
    from bytenet.decoding.splitting import Translation
    from bytenet.pipeline import Pipeline

MOST_REMARKS = 5

ModelName = Annotated[
    str, typer.Option("--model", metavar="FOLDER_OR_NAME", help="A model's folder or a run's, or a built-in model.")
]
Texts = Annotated[list[str] | None, typer.Argument(metavar="[TEXT]...", show_default="the lines of stdin")]


def translate(
    texts: Texts = None,
    model: ModelName = "en-de",
    beam: Beam = None,
    n_best: Annotated[int, typer.Option(min=1, help="Print so many translations of each text.")] = 1,
    length_penalty: LengthPenalty = None,
    max_length: MaxLength = None,
    batch: Batch = None,
    split: Split = None,
    recase: Recase = None,
    stream: Annotated[bool, typer.Option("--stream", help="Print characters as they are written (greedy).")] = False,
    precision: Precision = None,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Translate texts, or stdin line by line; an empty line stays one.

    With --n-best each translation is a line: number of the text, rank, log-likelihood, translation, with tabs between.
    """
    if stream and (n_best > 1 or as_json or beam not in (None, 1)):
        raise ValueError("--stream is greedy and plain: without --beam, --n-best and --json")
    loaded = open_model(model, device, precision)
    remarks, talk, done = Remarks(), Talk(quiet=False), 0
    hide_bar = sys.stdout.isatty()  # the translations themselves show how far it is
    try:
        with talk.bar("translating", total=None, hidden=hide_bar):
            for part in _parts(texts):
                if stream:
                    for text in part:
                        _print_stream(loaded, text, max_length=max_length, split=split, recase=recase)
                        done += 1
                        remarks.about(loaded, done, text, None)
                    continue
                found = loaded.translations(
                    part,
                    beam=beam,
                    n_best=n_best,
                    length_penalty=length_penalty,
                    max_length=max_length,
                    batch=batch,
                    split=split,
                    recase=recase,
                )
                for text, best in zip(part, found, strict=True):
                    done += 1
                    _print_translations(done, text, best, n_best, as_json)
                    remarks.about(loaded, done, text, best[0])
                    if not hide_bar:
                        talk.count(done, None, "lines")
    except KeyboardInterrupt:
        say(f"stopped; done: {_count(done, 'line')}")
        raise
    finally:
        remarks.close()


def generate(
    prompt: Annotated[str, typer.Option(help="What to continue.")] = "",
    prompt_file: Annotated[Path | None, typer.Option(metavar="FILE", help="What to continue; - is stdin.")] = None,
    model: ModelName = "text",
    length: Annotated[int, typer.Option(min=0, help="In symbols: bytes or characters.")] = 400,
    temperature: Annotated[float, typer.Option(min=0, help="0 takes the most probable symbol.")] = 1.0,
    top_k: Annotated[int, typer.Option(min=0, help="Draw from so many symbols; 0: from all.")] = 0,
    top_p: Annotated[float, typer.Option(help="Draw from symbols of this probability in all.")] = 1.0,
    seed: Annotated[int | None, typer.Option(help="Makes the same text again.")] = None,
    samples: Annotated[int, typer.Option(min=1, help="So many continuations of one prompt.")] = 1,
    precision: Precision = None,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Continue a text, printed as it is written."""
    if prompt_file is not None:
        prompt += _read_prompt(prompt_file)
    loaded = open_model(model, device, precision)
    choice: dict[str, Any] = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
    if samples > 1 or as_json:
        for text in loaded.samples(prompt, number=samples, length=length, seed=seed, **choice):
            print(json.dumps({"prompt": prompt, "text": text}) if as_json else f"{prompt}{text}\n", flush=True)
        return
    pieces = loaded.generate(prompt, length=length, seed=seed, **choice)
    print(prompt, end="", flush=True)
    try:
        for piece in pieces:
            print(piece, end="", flush=True)
    finally:
        print()


def score(
    texts: Texts = None,
    model: ModelName = "text",
    precision: Precision = None,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Bits of texts, or of stdin's lines, each by itself; for a translator: source, tab, target.

    A line is: bits, bits a character, text, with tabs between; the sum goes to stderr, with --json to the last line.
    """
    loaded = open_model(model, device, precision)
    bits, characters, lines = 0.0, 0, 0
    for part in _parts(texts):
        items, mistake = _items(part, lines, loaded.translates)
        for text, found in zip(part, loaded.score(items), strict=False):
            bits, characters, lines = bits + found.bits, characters + found.characters, lines + 1
            if as_json:
                mean = _number(found.bits_per_character)
                print(json.dumps({"text": text, **asdict(found), "bits_per_character": mean}), flush=True)
            else:
                print(f"{found.bits:.4f}\t{found.bits_per_character:.4f}\t{text}", flush=True)
        if mistake:
            raise mistake
    mean = bits / characters if characters else None
    if as_json:
        print(json.dumps({"lines": lines, "bits": bits, "characters": characters, "bits_per_character": mean}))
    elif mean is not None:
        say(
            f"{bits:.4f} bits in all, {mean:.4f} a character, over {characters:,} characters in {_count(lines, 'line')}"
        )


class Remarks:
    """What a user should know about some lines; after a few, only how many more there are."""

    def __init__(self) -> None:
        self.made = 0

    def about(self, loaded: "Pipeline", number: int, text: str, best: "Translation | None") -> None:
        if not text.strip():
            return
        if unknown := loaded.count_unknown(text):
            self.make(f"text {number}: unknown to the model: {unknown:,} of {loaded.count_symbols(text):,} symbols")
        if best is not None and not best.ended:
            self.make(f"text {number}: cut off at {len(best.text):,} characters, the translation had not ended")
        elif best is not None and not best.text:
            self.make(f"text {number}: the most likely translation is empty")

    def make(self, line: str) -> None:
        self.made += 1
        if self.made <= MOST_REMARKS:
            say(line)

    def close(self) -> None:
        if self.made > MOST_REMARKS:
            say(f"... and {self.made - MOST_REMARKS:,} more such remarks")


def _parts(texts: list[str] | None) -> Iterator[list[str]]:
    for number, text in enumerate(texts or [], start=1):
        check_utf8(text, f"text {number}")
    if texts:
        yield texts
        return
    if sys.stdin is None:
        raise ValueError("stdin is closed; give texts as arguments")
    if sys.stdin.isatty():
        say("a line is done when you press Enter; Ctrl-D ends")
    yield from arriving(sys.stdin.buffer)


def _print_translations(number: int, text: str, best: "list[Translation]", n_best: int, as_json: bool) -> None:
    if as_json:
        value: dict[str, Any] = {"source": text, **asdict(best[0])}
        if n_best > 1:
            value["translations"] = [asdict(translation) for translation in best]
        print(json.dumps(value), flush=True)
    elif n_best > 1:
        for rank, translation in enumerate(best, start=1):
            print(f"{number}\t{rank}\t{translation.log_likelihood:.4f}\t{_line(translation.text)}", flush=True)
    else:
        print(_line(best[0].text), flush=True)


def _print_stream(loaded: "Pipeline", text: str, **options: Any) -> None:
    for piece in loaded.stream(text, **options):
        print(_line(piece), end="", flush=True)
    print(flush=True)


def _line(text: str) -> str:
    """On one line, whatever the model wrote; --json has it as it is."""
    return text.replace("\n", " ").replace("\r", " ")


def _items(part: list[str], before: int, translates: bool) -> tuple[list[Any], ValueError | None]:
    """What is scored, up to the first mistake: lines as they are, or a source and a target as in a TSV file."""
    if not translates:
        return part, None
    pairs: list[tuple[str, str]] = []
    for number, line in enumerate(part, start=before + 1):
        columns = line.split("\t")
        if len(columns) < 2 and line:
            return pairs, ValueError(f"text {number}: no tab between a source and a target")
        source, target = (*columns, "")[:2]
        pairs.append((source, target))
    return pairs, None


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def _read_prompt(file: Path) -> str:
    data = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{file}: not UTF-8 (byte 0x{data[error.start]:02x} at {error.start:,})") from None


def _number(value: float) -> float | None:
    """JSON has no nan."""
    return value if value == value else None
