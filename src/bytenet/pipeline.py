"""`bytenet.load(name or folder)`: text in, text out."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, overload

import torch
from torch.nn import functional as F

from bytenet.data.pairs import read_tsv
from bytenet.decoding.beam_search import BeamConfig, Hypothesis
from bytenet.decoding.config import DecodingConfig
from bytenet.decoding.engine import Engine, choose_engine
from bytenet.decoding.sampling import SamplingConfig, sample
from bytenet.decoding.splitting import NOTHING_TO_TRANSLATE, Translation
from bytenet.decoding.translation import search_all
from bytenet.device import choose_device
from bytenet.evaluation.explanation import By, Explanation, explain, split
from bytenet.evaluation.files import file_bits, signature
from bytenet.evaluation.scoring import Score, score_pairs, score_texts
from bytenet.evaluation.typos import with_typos
from bytenet.model import AnyTranslator, LanguageModel, Model
from bytenet.model_folder import find_named, load_decoding_config, load_model
from bytenet.vocabulary import BEGIN, END, TextWriter, Vocabulary

PROMPT_PART = 65_536
FIRST_WINDOW, WINDOW = 128, 4096  # how many texts are sorted by length together, at first and later


def load(
    name: str | Path, *, device: str | torch.device | None = None, precision: torch.dtype | None = None
) -> "Pipeline":
    """A built-in model by its name, or the model of a folder, or the best one of a run's folder.

    `precision` is that of the activations: by default, for writing on a GPU bf16, else that of the weights, which are
    float32 here even if they are stored in less.
    """
    folder = find_named(name)
    model, vocabularies = load_model(folder, device=choose_device(device))
    if next(model.parameters()).dtype == torch.bfloat16:
        model.float()
    decoding = load_decoding_config(folder)
    return Pipeline(model, vocabularies, decoding=decoding, precision=precision, name=str(name))


class Pipeline:
    """A model with its vocabularies."""

    def __init__(
        self,
        model: Model,
        vocabularies: Sequence[Vocabulary],
        *,
        decoding: DecodingConfig = DecodingConfig(),
        precision: torch.dtype | None = None,
        name: str = "this model",
    ) -> None:
        self.model, self.vocabularies, self.precision, self.name = model, tuple(vocabularies), precision, name
        self.decoding = decoding

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @property
    def writing_precision(self) -> torch.dtype | None:
        return self.precision or (torch.bfloat16 if self.device.type == "cuda" else None)

    @cached_property
    def engine(self) -> Engine:
        return choose_engine(self.model, self.writing_precision)

    @property
    def translates(self) -> bool:
        """Whether this is a translator; else it is a language model."""
        return not isinstance(self.model, LanguageModel)

    def count_unknown(self, text: str) -> int:
        """How many symbols of a text the model does not know; it reads each as the one symbol for all of them."""
        vocabulary = self.vocabularies[0]
        return vocabulary.count_unknown(vocabulary.encode_array(text))

    def count_symbols(self, text: str) -> int:
        """How long a text is to the model: in characters or in bytes."""
        return len(self.vocabularies[0].encode_array(text))

    @overload
    def translate(self, texts: str, **options: Any) -> str: ...
    @overload
    def translate(self, texts: Iterable[str], **options: Any) -> list[str]: ...
    def translate(self, texts: str | Iterable[str], **options: Any) -> str | list[str]:
        """The translation of a text, or the list of translations of several; options as for `translations`."""
        if isinstance(texts, str):
            return next(iter(self.translations([texts], **options)))[0].text
        return [best.text for best, *_ in self.translations(texts, **options)]

    def translations(
        self,
        texts: Iterable[str],
        *,
        beam: int | None = None,
        n_best: int = 1,
        length_penalty: float | None = None,
        max_length: int | None = None,
        batch: int | None = None,
        split: int | None = None,
        recase: bool | None = None,
    ) -> Iterator[list[Translation]]:
        """For each text the best translations, the best one first, in order and as soon as they are known.

        `max_length` is in symbols; by default, what twice the source's unfolded representation allows. `batch` is how
        many texts are searched at once; by default, what memory allows. With `split`, a text is translated sentence by
        sentence, at most so many characters at a time; 0 takes it as it is. With `recase`, what is in capitals alone or
        begins with a small letter is read as a sentence, too, and the likelier translation is taken. Where `beam`,
        `length_penalty`, `split` or `recase` is None, the model's folder decides. An empty text has an empty
        translation.
        """
        self._translator()
        if isinstance(texts, str):
            raise TypeError("translations takes a list of texts; put a single one into a list")
        config = self.decoding.beam_config(beam=beam, n_best=n_best, length_penalty=length_penalty)
        _check_max_length(max_length)
        splitting = self.decoding.splitting(split, recase)
        windows = _windows(splitting.cut(texts))
        found = (each for part in windows for each in self._translate_window(part, config, max_length, batch))
        return splitting.join(found)

    def stream(
        self, text: str, *, max_length: int | None = None, split: int | None = None, recase: bool | None = None
    ) -> Iterator[str]:
        """The greedy translation of a text in pieces, as they are written; what `beam=1` gives.

        What is read in several ways (`recase`) comes when the best one is known.
        """
        self._translator()
        _check_max_length(max_length)
        greedy = self.decoding.beam_config(beam=1)
        return self.decoding.splitting(split, recase).stream(
            text,
            lambda part: self._stream(part, max_length),
            lambda parts: self._translate_window(parts, greedy, max_length, None),
        )

    def _stream(self, text: str, max_length: int | None) -> Iterator[str]:
        """The greedy translation of what need not be split."""
        model = self._translator()
        if not text.strip():
            return iter(())
        ids = self.vocabularies[0].encode_array(text)
        with torch.no_grad():
            rows = torch.from_numpy(ids).long()[None].to(self.device)
            state = model.start(rows, [len(ids)], dtype=self.writing_precision)
        begin = torch.tensor([BEGIN], device=self.device)
        greedy = sample(self.engine, state, begin, SamplingConfig(temperature=0))
        return (piece for (piece,) in self._written(greedy, 1, max_length or self.limit(len(ids))))

    def generate(
        self,
        prompt: str = "",
        *,
        length: int = 400,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int | None = None,
    ) -> Iterator[str]:
        """The continuation of a prompt of any length in pieces, as they are written: at most `length` symbols."""
        config = SamplingConfig(temperature=temperature, top_k=top_k, top_p=top_p)
        return (piece for (piece,) in self._continue(prompt, 1, length, config, seed))

    def samples(
        self, prompt: str = "", *, number: int, length: int = 400, seed: int | None = None, **options: Any
    ) -> list[str]:
        """Several continuations of a prompt, which is read once; further options as for `generate`."""
        pieces = list(self._continue(prompt, number, length, SamplingConfig(**options), seed))
        return ["".join(piece[row] for piece in pieces) for row in range(number)]

    def score(self, texts: Iterable[Any]) -> Iterator[Score]:
        """Bits of texts, each by itself; for a translator, of the target of each (source, target) given its source."""
        if isinstance(texts, str):
            raise TypeError("score takes a list of texts; put a single one into a list")
        score = score_texts if isinstance(self.model, LanguageModel) else score_pairs
        for part in _windows(iter(texts)):
            yield from score(self.model, self.vocabularies, part, dtype=self.precision)  # type: ignore[arg-type]

    def explain(self, source: str, target: str | None = None, by: By = "word", **options: Any) -> Explanation:
        """What each word or character of a target, by default the translation, depends on: the paper's Fig. 6.

        What is translated sentence by sentence is explained so, too. A language model explains a text, without a
        target. `watch=...` is told how many of all outputs are done.
        """
        ended = True
        if self.translates and target is None:
            split(source, self.vocabularies[0], "source", by)  # a mistake should not wait for a search
            ((best,),) = self.translations([source])
            target, ended = best.text, best.ended
        options |= {"ended": ended, "by": by, "by_sentence": self.decoding.split > 0, "dtype": self.precision}
        return explain(self.model, self.vocabularies, source, target, **options)

    def evaluate(
        self,
        file: Path | str,
        *,
        beam: int | None = None,
        length_penalty: float | None = None,
        typos: float = 0.0,
        watch: Callable[[int, int], None] = lambda done, all_: None,
        **options: Any,
    ) -> dict[str, Any]:
        """Quality of the translations of a TSV file's sources, and bits of its targets, each with its signature.

        `typos` is the share of the sources' letters to mistype before they are translated; the bits are of the file as
        it is. Options as for `translations`; `watch` is told how many of all sentences are done.
        """
        from bytenet.evaluation.quality import quality

        model = self._translator()
        pairs = list(read_tsv(Path(file)))
        if not pairs:
            raise ValueError(f"{file}: empty")
        config = self.decoding.beam_config(beam=beam, length_penalty=length_penalty)
        used: dict[str, Any] = {"beam": config.beam, "length_penalty": config.length_penalty}
        best = []
        for found in self.translations((with_typos(pair.source, typos) for pair in pairs), **used, **options):
            best.append(found[0])
            watch(len(best), len(pairs))
        own = {name: getattr(self.decoding, name) for name in ("split", "recase")}
        given = {name: value for name, value in options.items() if value is not None}
        used |= {name: value for name, value in ({"typos": typos} | own | given).items() if value}
        search = "|".join(f"{name}:{value}" for name, value in used.items())
        bits = file_bits(model, self.vocabularies, Path(file), dtype=self.precision)
        figures = quality([found.text for found in best], [pair.target for pair in pairs]).to_json()
        return {
            **{name: None if value != value else value for name, value in figures.items()},  # JSON has no nan
            "bits_per_character": bits["bits_per_character"],
            "ended": sum(found.ended for found in best) / len(best),
            "sentences": len(best),
            "signature": signature("translation", model, Path(file), search=search, precision=self.writing_precision),
            "bits_signature": bits["signature"],
        }

    def _translate_window(
        self, texts: list[str], config: BeamConfig, max_length: int | None, batch: int | None
    ) -> Iterator[list[Translation]]:
        """The translations of some texts, in order."""
        encoded = [self.vocabularies[0].encode_array(text) for text in texts]
        found = {i: [NOTHING_TO_TRANSLATE] for i, text in enumerate(texts) if not text.strip()}
        numbers = [i for i in range(len(texts)) if i not in found]
        limits = [max_length or self.limit(len(encoded[i])) for i in numbers]
        results = search_all(
            self._translator(), self.engine, [encoded[i] for i in numbers], limits, config,
            dtype=self.writing_precision, batch=batch,
        )  # fmt: skip
        for i in range(len(texts)):
            while i not in found:
                number, hypotheses = next(results)
                found[numbers[number]] = [self.translation(hypothesis, config) for hypothesis in hypotheses]
            yield found.pop(i)

    def translation(self, hypothesis: Hypothesis, config: BeamConfig) -> Translation:
        """What was found, as text."""
        writer = TextWriter(self.vocabularies[1])  # as `stream` does: `decode` would give lone surrogates
        text = "".join([*map(writer.write, hypothesis.tokens), writer.close()])
        score = config.score(hypothesis.log_likelihood, len(hypothesis.tokens) + hypothesis.ended)
        return Translation(text, hypothesis.log_likelihood, hypothesis.ended, score)

    def limit(self, length: int) -> int:
        """How long a translation of so many symbols may get, where nobody says otherwise."""
        return 2 * self._translator().unfolding.unfolded_length(length)

    def _continue(
        self, prompt: str, rows: int, length: int, config: SamplingConfig, seed: int | None
    ) -> Iterator[list[str]]:
        """What each of so many rows adds, step by step; the prompt is read once, in parallel, before this returns."""
        model = self._language_model()
        if rows < 1 or length < 0:
            raise ValueError(f"{rows} samples of {length} symbols cannot be written")
        ids = torch.from_numpy(self.vocabularies[0].encode_array(prompt)).long()
        read = F.pad(ids, (1, 0), value=BEGIN).to(self.device)
        state = model.start(dtype=self.writing_precision)
        with torch.no_grad():
            for part in torch.split(read[:-1], PROMPT_PART):
                if len(part):
                    _, state = model(part[None], state)
        last = read[-1:].expand(rows)
        state = state.select(torch.zeros(rows, dtype=torch.int64, device=self.device))
        return self._written(sample(self.engine, state, last, config, seed), rows, length)

    def _written(self, stream: Iterator[list[int]], rows: int, limit: int) -> Iterator[list[str]]:
        """Tokens of each row -> pieces of text; a row that has written END writes no more."""
        writers = [TextWriter(self.vocabularies[-1]) for _ in range(rows)]
        open_rows = set(range(rows))
        for tokens in islice(stream, limit):
            open_rows -= {row for row in open_rows if tokens[row] == END}
            if not open_rows:
                break
            yield [writers[row].write(tokens[row]) if row in open_rows else "" for row in range(rows)]
        if any(rest := [writer.close() for writer in writers]):
            yield rest

    def _translator(self) -> AnyTranslator:
        if isinstance(self.model, LanguageModel):
            raise ValueError(f"{self.name} is a language model and cannot translate")
        return self.model

    def _language_model(self) -> LanguageModel:
        if not isinstance(self.model, LanguageModel):
            raise ValueError(f"{self.name} is a translator and cannot generate")
        return self.model


def _windows(texts: Iterator[Any]) -> Iterator[list[Any]]:
    """Texts that are sorted by length together: few at first, so that the first results come soon."""
    size = FIRST_WINDOW
    while part := list(islice(texts, size)):
        yield part
        size = min(2 * size, WINDOW)


def _check_max_length(max_length: int | None) -> None:
    if max_length is not None and max_length < 1:
        raise ValueError(f"max_length must be at least 1, not {max_length}")
