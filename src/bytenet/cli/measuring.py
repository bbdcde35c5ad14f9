"""`describe` and `evaluate`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from bytenet.cli.options import (
    Batch,
    Beam,
    Device,
    Json,
    LengthPenalty,
    MaxLength,
    Overrides,
    Precision,
    Recase,
    Split,
    open_model,
    print_result,
)
from bytenet.talk import Talk

if TYPE_CHECKING:
    from bytenet.pipeline import Pipeline


def describe(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="RECIPE_OR_MODEL", help="A recipe's file, a model's folder or a run's, or a built-in model."
        ),
    ],
    overrides: Overrides = None,
    as_json: Json = False,
) -> None:
    """Say what a network is: parameters, receptive field, blocks, state, cost a character."""
    from bytenet.config import load_recipe
    from bytenet.describe import describe
    from bytenet.model_folder import built_in, find_named, load_model_config, stored_bytes

    if model.is_dir() or str(model) in built_in():
        if overrides:
            raise ValueError(f"{model}: --set changes a recipe, and this is a model's folder")
        folder = find_named(model)
        description = describe(load_model_config(folder)) | {"stored_bytes": stored_bytes(folder)}
    else:
        description = describe(load_recipe(model, overrides or ()).model)
    if as_json:
        print(json.dumps(description))
    else:
        _print_description(str(model), description)


def evaluate(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model's folder or a run's, or a built-in model.")],
    pairs: Annotated[
        Path | None, typer.Option(metavar="FILE.tsv", help="Translate the sources: BLEU, chrF, bits a character.")
    ] = None,
    bits: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Bits a byte and a character of a text, or of a TSV's targets.")
    ] = None,
    exact: Annotated[
        Path | None, typer.Option(metavar="FILE.tsv", help="The share of targets that greedy decoding writes exactly.")
    ] = None,
    beam: Beam = None,
    length_penalty: LengthPenalty = None,
    max_length: MaxLength = None,
    batch: Batch = None,
    split: Split = None,
    recase: Recase = None,
    typos: Annotated[
        float, typer.Option(min=0, max=1, help="With --pairs: the share of the sources' letters to mistype.")
    ] = 0.0,
    chunk: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="How much of a text is read at once; the result is the same.",
            show_default="65536 on a GPU, 4096 elsewhere",
        ),
    ] = None,
    dynamic: Annotated[
        bool,
        typer.Option("--dynamic", help="With --bits: go on learning from the text, each part once it is scored."),
    ] = False,
    dynamic_rate: Annotated[float, typer.Option(min=0, help="With --dynamic: the learning rate.")] = 1e-4,
    dynamic_segment: Annotated[int, typer.Option(min=1, help="With --dynamic: symbols a part.")] = 512,
    dynamic_decay: Annotated[float, typer.Option(min=0, help="With --dynamic: back to the trained weights.")] = 0.0,
    context: Annotated[
        list[int] | None,
        typer.Option(min=0, help="With --bits: from so many symbols of context alone, over a sample; may be repeated."),
    ] = None,
    precision: Precision = None,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Measure a model on a file: exactly, with full context."""
    from bytenet.evaluation.dynamic import DynamicConfig
    from bytenet.evaluation.files import file_bits, file_context, file_exact
    from bytenet.model import LanguageModel

    if sum(file is not None for file in (pairs, bits, exact)) != 1:
        raise ValueError("evaluate takes one of --pairs FILE.tsv, --bits FILE and --exact FILE.tsv")
    if ((dynamic or context) and bits is None) or (dynamic and context):
        raise ValueError("--dynamic and --context are two ways of --bits FILE")
    if typos and pairs is None:
        raise ValueError("--typos goes with --pairs FILE.tsv")
    loaded = open_model(model, device, precision)
    result: dict[str, Any] = {}
    if pairs is not None:
        result = _evaluate_pairs(
            loaded, pairs, typos=typos, beam=beam, length_penalty=length_penalty, max_length=max_length, batch=batch,
            split=split, recase=recase,
        )  # fmt: skip
    elif bits is not None and context:
        result = file_context(loaded.model, loaded.vocabularies, bits, context, dtype=loaded.precision)
    elif bits is not None:
        learning = DynamicConfig(rate=dynamic_rate, segment=dynamic_segment, decay=dynamic_decay) if dynamic else None
        result = file_bits(
            loaded.model, loaded.vocabularies, bits, chunk=chunk, dtype=loaded.precision, dynamic=learning
        )
    elif exact is not None:
        if isinstance(loaded.model, LanguageModel):
            raise ValueError(f"{model}: --exact is for translators, and this is a language model")
        result = file_exact(loaded.model, loaded.vocabularies, exact)
    print_result(result, as_json=as_json)


def _evaluate_pairs(loaded: "Pipeline", file: Path, **options: Any) -> dict[str, Any]:
    """With a bar, because it takes long."""
    talk = Talk(quiet=False)
    with talk.bar("translating", total=None):
        return loaded.evaluate(file, watch=lambda done, all_: talk.count(done, all_, "sentences"), **options)


def _print_description(name: str, description: dict[str, Any]) -> None:
    table = Table(title=f"{name}: {description['kind']}", show_header=False, title_justify="left")
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    table.add_row("parameters", f"{description['parameters']:,}")
    for part, count in description["parameters_by_part"].items():
        table.add_row(f"  {part}", f"{count:,}")
    if "stored_bytes" in description:
        table.add_row("stored", ", ".join(f"{size:,} bytes in {t}" for t, size in description["stored_bytes"].items()))
    for side in ("encoder", "decoder"):
        if side in description:
            table.add_row(side, _stack_line(description[side], description["inner_channels"]))
    if "decoder" in description:
        table.add_row("receptive field", f"{description['receptive_field']} target characters, exact")
    if "encoder" in description:
        beside = description["encoder"]["receptive_field"] // 2
        table.add_row(
            "  encoder", f"{description['encoder']['receptive_field']} source characters, {beside} to each side"
        )
    if "unfolding" in description:
        table.add_row("unfolding", _unfolding_line(description["unfolding"]))
    if "encoder" in description:
        table.add_row("representation", f"{description['representation_bytes_per_position']:,} bytes a position")
        costs = description["flops_per_source_position"]
        table.add_row("FLOPs a source position", f"{costs['training']:,} in training, {costs['encoding']:,} to encode")
    if "decoder" in description:
        table.add_row("state", f"{description['state_bytes_per_row']:,} bytes a row, in float32")
        costs = description["flops_per_character"]
        table.add_row("FLOPs a character", f"{costs['training']:,} in training, {costs['decoding']:,} in decoding")
    Console().print(table)


def _unfolding_line(unfolding: dict[str, Any]) -> str:
    a, b = (f"{unfolding[name]:g}" if name in unfolding else name for name in ("a", "b"))
    line = f"{a} · (source length to the next multiple of {unfolding['multiple']}) + {b}"
    if "coverage" in unfolding:
        line += f"; training fits a and b to {100 * unfolding['coverage']:.4g}% of its pairs"
    return line


def _stack_line(stack: dict[str, Any], inner_channels: int) -> str:
    """Blocks and dilations; a scheme that repeats is printed once."""
    dilations, number = stack["dilations"], stack["num_blocks"]
    period = next(n for n in range(1, number + 1) if dilations == (dilations[:n] * number)[:number])
    scheme = ", ".join(map(str, dilations[:period])) + (", repeated" if period < number else "")
    width = stack["kernel_width"]
    return f"{number} {stack['block']} blocks, d = {inner_channels}, kernel width {width}, dilations {scheme}"
