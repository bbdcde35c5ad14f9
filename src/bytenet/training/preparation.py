"""Before the first step: the run's folder, the corpus, and what the model takes from it: vocabularies and unfolding."""

import dataclasses
import fcntl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bytenet.casing import usual_names
from bytenet.config import Recipe, load_recipe, save_recipe
from bytenet.data.config import TextConfig
from bytenet.data.encoding import EncodedCorpus, EncodedPairs, encode_corpus
from bytenet.evaluation.lengths import Lengths, fit_unfolding
from bytenet.model import LanguageModelConfig, Model, ModelConfig, TranslatorConfig
from bytenet.model.ngrams import NgramConfig
from bytenet.model.translator import UnfoldingConfig, UnfoldingFit
from bytenet.model_folder import (
    LAST,
    check_folder,
    find_model,
    find_named,
    load_model_config,
    load_vocabularies,
    load_weights,
)
from bytenet.talk import Talk
from bytenet.training.checkpoint import PREVIOUS
from bytenet.training.distributed import Ranks
from bytenet.vocabulary import Vocabulary
from bytenet.weights import check_weights

MOST_SOURCES = 200_000  # to take names from, evenly spaced: some seconds of a core
RECIPE, CACHE, LOCK = "recipe.toml", "cache", ".lock"
MAY_CHANGE = {"steps", "minutes", "evaluate_every", "validation_characters", "save_every", "log_every", "tensorboard"}
"""Keys of [training] that a resumed run may have anew; a schedule that falls takes another course with them."""


def prepare_folder(recipe: Recipe, run: Path, *, resume: bool) -> None:
    """Write the recipe down; refuse to overwrite a run, or to go on with another recipe than it began with."""
    file = run / RECIPE
    if resume:
        if not file.exists():
            raise ValueError(f"{run}: there is no run to resume")
        check_same(recipe, load_recipe(file), file)
    elif run.exists() and not (run.is_dir() and is_unbegun(run)):
        raise ValueError(f"{run}: exists; --resume goes on with a run, another --out begins a new one")
    save_recipe(recipe, file)


def is_unbegun(run: Path) -> bool:
    """Whether a folder is empty, or holds no more than a run leaves that failed before its first step."""
    return {file.name for file in run.iterdir()} <= {RECIPE, CACHE, LOCK}


@contextmanager
def locked(run: Path) -> Iterator[None]:
    """Keep other processes from training into the same folder; the system lets go of it however this one ends."""
    run.mkdir(parents=True, exist_ok=True)
    with (run / LOCK).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"{run}: another process is training into this folder") from None
        yield


def check_same(recipe: Recipe, begun: Recipe, file: Path) -> None:
    for part in ("model", "data", "training"):
        new, old = (dataclasses.asdict(getattr(r, part)) if getattr(r, part) else {} for r in (recipe, begun))
        for key in new.keys() | old.keys():
            if new.get(key) != old.get(key) and not (part == "training" and key in MAY_CHANGE):
                raise ValueError(f"{file}: {part}.{key} was {old.get(key)!r} when the run began, not {new.get(key)!r}")


def open_corpus(recipe: Recipe, run: Path, ranks: Ranks, talk: Talk) -> EncodedCorpus:
    """The encoded corpus; the first process encodes, the others wait for it."""
    if recipe.data is None:
        raise ValueError("the recipe has no [data]: --set data.kind=text --set data.train=FILE names some")
    if (len(recipe.model.vocabulary_configs) == 1) != isinstance(recipe.data, TextConfig):
        raise ValueError(f'data.kind = "{recipe.data.kind}" does not go with model.kind = "{recipe.model.kind}"')
    begins_with = recipe.training.begins_with
    given = load_vocabularies(find_named(begins_with)) if begins_with else ()
    if ranks.is_first:
        with talk.bar("encoding", total=None):
            counter = EncodingCounter(talk)
            corpus = encode_corpus(
                recipe.data, recipe.model.vocabulary_configs, run / CACHE, counter.advance, given=given
            )
        for note in corpus.notes:
            talk.say(note)
        unknown, symbols = corpus.count_unknown() if given else (0, 0)
        if unknown:
            talk.say(f"train: {unknown:,} of {symbols:,} symbols are unknown to {begins_with}")
        if not corpus.validation.nbytes:
            raise ValueError("nothing to validate on is left: name a file in data.validation, or raise data.held_out")
    ranks.wait()
    return encode_corpus(recipe.data, recipe.model.vocabulary_configs, run / CACHE, given=given)


class EncodingCounter:
    """Says how much is encoded."""

    def __init__(self, talk: Talk) -> None:
        self.talk, self.count = talk, 0

    def advance(self, more: int) -> None:
        self.count += more
        self.talk.update(self.count, f"encoded {self.count:,} symbols")


def fit_vocabularies(config: ModelConfig, vocabularies: tuple[Vocabulary, ...]) -> ModelConfig:
    """A corpus may have fewer symbols than a recipe allows; the model has as many as the corpus."""
    fitted = [
        dataclasses.replace(asked, symbols=len(vocabulary.symbols))
        for asked, vocabulary in zip(config.vocabulary_configs, vocabularies, strict=True)
    ]
    if isinstance(config, LanguageModelConfig):
        ngrams = fit_words(config.ngrams, vocabularies[0])
        return dataclasses.replace(config, vocabulary=fitted[0], ngrams=ngrams)
    if isinstance(config, TranslatorConfig):
        of_source, of_target = map(fit_words, (config.source_ngrams, config.target_ngrams), vocabularies)
        config = dataclasses.replace(config, source_ngrams=of_source, target_ngrams=of_target)
    return dataclasses.replace(config, source_vocabulary=fitted[0], target_vocabulary=fitted[1])


def fit_words(config: NgramConfig, vocabulary: Vocabulary) -> NgramConfig:
    """Where embeddings of words are asked for: which symbols belong to none, is the vocabulary's to say."""
    return dataclasses.replace(config, separators=vocabulary.separators()) if config.words else config


def begin_with(name: str, model: Model) -> None:
    """Give a new model the weights of another of the same network, a built-in one or that of a folder."""
    folder = find_model(find_named(name))
    check_folder(folder)
    weights = load_weights(folder)
    try:
        check_weights(model.state_dict(), weights, folder)
    except ValueError as error:
        raise ValueError(f"{error}; with training.begins_with, leave out of [model] what the network is") from None
    model.load_state_dict(weights)


def fit_lengths(recipe: Recipe, corpus: EncodedCorpus, talk: Talk, *, begun: Path | None) -> Recipe:
    """The recipe with a and b, where it leaves them to the pairs; a run that has begun keeps those it has."""
    config = recipe.model
    if not isinstance(config, TranslatorConfig) or not isinstance(config.unfolding, UnfoldingFit):
        return recipe
    assert isinstance(corpus.train, EncodedPairs)
    lengths = Lengths(corpus.train.source_lengths, corpus.train.target_lengths)
    before = begun_unfolding(begun) if begun else None
    unfolding = before or fit_unfolding(lengths, config.unfolding)
    talk.say(
        f"unfolding: a = {unfolding.a}, b = {unfolding.b}, multiple = {unfolding.multiple}, "
        + ("as the run began with" if before else "fitted to the training pairs")
        + f": longer than {lengths.coverage(unfolding):.2%} of targets, "
        f"{lengths.mean_positions(unfolding):.1f} positions on average"
    )
    return dataclasses.replace(recipe, model=dataclasses.replace(config, unfolding=unfolding))


def fit_names(recipe: Recipe, corpus: EncodedCorpus) -> Recipe:
    """The recipe with the words that its sources write with capitals, where it is to `recase` and names none."""
    if not recipe.decoding.recase or recipe.decoding.names or not isinstance(corpus.train, EncodedPairs):
        return recipe
    source, ends = corpus.train.source, corpus.train.source_lengths.cumsum()
    chosen = range(0, len(ends), 1 + len(ends) // MOST_SOURCES)
    texts = (
        corpus.vocabularies[0].decode(source[ends[i] - corpus.train.source_lengths[i] : ends[i]].tolist())
        for i in chosen
    )
    return dataclasses.replace(recipe, decoding=dataclasses.replace(recipe.decoding, names=usual_names(texts)))


def begun_unfolding(run: Path) -> UnfoldingConfig | None:
    """What the weights of a run's checkpoint were trained with; None if there is no checkpoint."""
    for name in (LAST, PREVIOUS):
        with suppress(ValueError, OSError):  # a damaged one is for the loading of checkpoints to tell of
            config = load_model_config(run / name)
            if isinstance(config, TranslatorConfig) and isinstance(config.unfolding, UnfoldingConfig):
                return config.unfolding
    return None
