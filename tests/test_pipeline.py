"""Text in, text out: order, laziness, repeatability, and the same text whatever stands beside it."""

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

import bytenet
from bytenet import Bytes, Pipeline, load, pipeline, save_model
from bytenet.decoding.beam_search import Hypothesis
from bytenet.decoding.config import DecodingConfig
from bytenet.evaluation import scoring
from bytenet.evaluation.files import file_bits
from bytenet.evaluation.quality import quality
from bytenet.evaluation.typos import with_typos
from bytenet.model import Model
from bytenet.vocabulary import BEGIN, END, PAD
from tests.pipelines import LETTERS, language_model, pipeline_of, translator

SEVERAL = 24

letters = st.text(st.sampled_from(LETTERS.symbols), min_size=1, max_size=14)
sources = st.lists(st.one_of(letters, st.sampled_from(["", " ", "\t", "\u3000 "])), max_size=9)


@pytest.fixture(scope="module")
def translating() -> Pipeline:
    return pipeline_of(translator())


@pytest.fixture(scope="module")
def writing() -> Pipeline:
    return pipeline_of(language_model())


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """Of many lengths, some empty."""
    rng = random.Random(1)
    found = ["".join(rng.choices("abcdefgh", k=rng.randint(1, 15))) for _ in range(SEVERAL)]
    found[3], found[17] = "", " "
    return found


# Loading


def test_a_models_folder_and_a_runs_are_loaded(tmp_path, texts, device):
    best, last = translator(), translator(end=3.0)
    save_model(best, [LETTERS] * 2, tmp_path / "run" / "best")
    save_model(last, [LETTERS] * 2, tmp_path / "run" / "last")
    expected = pipeline_of(best).translate(texts, beam=2)
    assert expected != pipeline_of(last).translate(texts, beam=2)
    for folder in (tmp_path / "run", str(tmp_path / "run" / "best")):
        loaded = bytenet.load(folder, device=device, precision=torch.float64)
        assert loaded.translates
        assert loaded.translate(texts, beam=2) == expected


def test_weights_stored_in_half_precision_are_computed_with_in_float32(tmp_path):
    model = translator(precision=torch.bfloat16)
    save_model(model, [LETTERS, LETTERS], tmp_path / "model")
    loaded = load(tmp_path / "model", device="cpu")
    assert {parameter.dtype for parameter in loaded.model.parameters()} == {torch.float32}
    for stored, found in zip(model.parameters(), loaded.model.parameters(), strict=True):
        assert torch.equal(stored.float(), found)


def test_what_is_no_model_is_one_line(tmp_path):
    (tmp_path / "empty").mkdir()
    for name in ("no-such-model", tmp_path / "missing", tmp_path / "empty"):
        with pytest.raises(ValueError, match=str(name)) as raised:
            load(name)
        assert "\n" not in str(raised.value)


# Translating


def test_a_text_gives_a_text_and_a_list_a_list(translating, texts):
    one_by_one = [translating.translate(text, beam=3) for text in texts]
    assert all(isinstance(text, str) for text in one_by_one)
    assert translating.translate(texts, beam=3) == one_by_one
    assert translating.translate(iter(texts), beam=3) == one_by_one
    assert translating.translate([], beam=3) == []
    assert len(set(one_by_one)) > SEVERAL // 2  # else the order would not be seen


@given(sources, st.integers(1, 4), st.integers(1, 5), st.sampled_from([None, 1, 2, 7]))
@example(["abcdefghabcd", "a", "", "ab"], 2, 3, 2)
@settings(max_examples=15)
def test_neither_order_nor_company_matters(translating, texts, beam, window, batch):
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(pipeline, "FIRST_WINDOW", window)
        monkeypatch.setattr(pipeline, "WINDOW", 2 * window)
        found = list(translating.translations(texts, beam=beam, n_best=beam, batch=batch))
    assert len(found) == len(texts)
    for text, together in zip(texts, found, strict=True):
        (alone,) = translating.translations([text], beam=beam, n_best=beam)
        assert [(best.text, best.ended) for best in together] == [(best.text, best.ended) for best in alone]
        for best, same in zip(together, alone, strict=True):
            assert best.log_likelihood == pytest.approx(same.log_likelihood, rel=1e-9)


def test_batches_and_shuffling_change_no_text_in_float32(texts):
    translating = pipeline_of(translator(precision=torch.float32))
    expected = dict(zip(texts, translating.translate(texts, beam=3), strict=True))
    shuffled = random.Random(2).sample(texts, len(texts))
    for batch in (1, 7, 64):
        assert translating.translate(shuffled, beam=3, batch=batch) == [expected[text] for text in shuffled]


def test_results_come_before_all_texts_are_read(translating, monkeypatch):
    monkeypatch.setattr(pipeline, "FIRST_WINDOW", 4)
    read: list[str] = []

    def slowly() -> Iterator[str]:
        for number in range(50):
            read.append("abcdefgh"[number % 8] * (1 + number % 3))
            yield read[-1]

    results = translating.translations(slowly(), beam=2)
    assert not read
    first = next(results)
    assert len(read) == 4
    assert first[0].text == translating.translate(read[0], beam=2)
    assert len(list(results)) == 49
    assert len(read) == 50


def test_by_default_some_texts_are_enough_for_the_first_result(translating):
    read = 0

    def endless() -> Iterator[str]:
        nonlocal read
        while True:
            read += 1
            yield "abc"

    next(translating.translations(endless(), beam=1, max_length=1))
    assert read <= 128


def test_an_empty_text_has_an_empty_translation_without_the_model(translating, monkeypatch):
    monkeypatch.setattr(translating.model, "start", lambda *_, **__: pytest.fail("the model was run"))
    for text in ("", " ", "\t \u3000", "\n"):
        (found,) = translating.translations([text], beam=3, n_best=3)
        assert [(best.text, best.log_likelihood, best.ended) for best in found] == [("", 0.0, True)]
        assert translating.translate(text) == ""
        assert list(translating.stream(text)) == []


def test_the_n_best_are_different_and_the_best_is_first(translating, texts):
    numbers = set()
    for found in translating.translations(texts, beam=5, n_best=4):
        likelihoods = [best.log_likelihood for best in found]
        assert 1 <= len(found) <= 4
        assert likelihoods == sorted(likelihoods, reverse=True)
        assert len({best.text for best in found}) == len(found)
        assert len(found) == 1 or all(best.ended for best in found)
        numbers.add(len(found))
    assert 4 in numbers
    one = [found[0].text for found in translating.translations(texts, beam=5, n_best=1)]
    assert one == translating.translate(texts, beam=5)


def test_a_length_penalty_makes_translations_longer(translating, texts):
    short, long = (
        sum(len(text) for text in translating.translate(texts, beam=5, length_penalty=penalty)) for penalty in (0, 2)
    )
    assert short < long


@torch.no_grad()
def log_likelihood(model: Model, source: str, target: str, *, ended: bool) -> float:
    """By reading the target at once."""
    ids, written = LETTERS.encode(source), LETTERS.encode(target)
    wanted = [*written, END] if ended else written
    logits, _ = model(torch.tensor([[BEGIN, *written]]), model.start(torch.tensor([ids]), [len(ids)]))
    logs = logits[0].log_softmax(dim=-1)
    return sum(logs[i, token].item() for i, token in enumerate(wanted))


def test_a_translations_likelihood_is_the_models_own(translating, texts):
    some = [text for text in texts if text.strip()][:12]
    for max_length in (None, 3):
        for text, (best,) in zip(some, translating.translations(some, beam=3, max_length=max_length), strict=True):
            expected = log_likelihood(translating.model, text, best.text, ended=best.ended)
            assert best.log_likelihood == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("max_length", [1, 2, 5, None])
def test_a_stream_is_greedy_search_in_pieces(translating, texts, max_length):
    texts = [text for text in texts if text.strip()]
    for text, (best,) in zip(texts, translating.translations(texts, beam=1, max_length=max_length), strict=True):
        pieces = list(translating.stream(text, max_length=max_length))
        assert "".join(pieces) == best.text
        assert all(len(piece) == 1 for piece in pieces)


def test_a_translation_is_cut_off_at_its_length_limit(texts):
    endless = pipeline_of(translator(end=-1e3))
    for max_length in (1, 6):
        for text, (best,) in zip(texts, endless.translations(texts, beam=2, max_length=max_length), strict=True):
            assert (len(best.text), best.ended) == ((max_length, False) if text.strip() else (0, True))
    unfolding = endless.model.unfolding
    for text, (best,) in zip(texts, endless.translations(texts, beam=2), strict=True):
        assert best.ended == (not text.strip())
        assert len(best.text) == (2 * unfolding.unfolded_length(len(text)) if text.strip() else 0)


def test_a_wrong_option_of_a_translation_is_refused(translating):
    for options in ({"beam": 0}, {"n_best": 3, "beam": 2}, {"length_penalty": -1.0}, {"max_length": 0}):
        with pytest.raises(ValueError, match=next(iter(options))):
            translating.translate("abc", **options)
    with pytest.raises(ValueError, match="max_length"):
        list(translating.stream("abc", max_length=0))


# Writing


@torch.no_grad()
def greedy(model: Model, ids: list[int], length: int) -> list[int]:
    """The most probable continuation, each token by reading everything again."""
    read = [BEGIN, *ids]
    for _ in range(length):
        logits, _ = model(torch.tensor([read]), model.start())
        logits[0, -1, [PAD, BEGIN]] = -torch.inf
        read.append(int(logits[0, -1].argmax()))
        if read[-1] == END:
            break
    return read[1 + len(ids) :]


@given(st.one_of(st.just(""), letters, letters.map(lambda text: 5 * text)), st.integers(1, 9))
def test_a_prompt_of_any_length_is_read_to_its_end(writing, prompt, part):
    """Longer than the receptive field, and in parts."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(pipeline, "PROMPT_PART", part)
        pieces = list(writing.generate(prompt, length=9, temperature=0))
    assert "".join(pieces) == LETTERS.decode(greedy(writing.model, LETTERS.encode(prompt), 9))


def test_a_long_prompt_counts_to_its_first_symbol_in_reach(writing):
    """All that the receptive field holds, and nothing more: so the parts lose nothing."""
    base = "abcdefgh" * 5
    for part in (1, 6, 7, 8, 100):
        with pytest.MonkeyPatch.context() as monkeypatch:
            monkeypatch.setattr(pipeline, "PROMPT_PART", part)
            continuations = [
                next(iter(writing.samples(base[:-7] + seven, number=1, length=9, temperature=0)))
                for seven in ("habcdef", "babcdef", "aaaaaaa")
            ]
        assert continuations == [
            LETTERS.decode(greedy(writing.model, LETTERS.encode(base[:-7] + seven), 9))
            for seven in ("habcdef", "babcdef", "aaaaaaa")
        ]


def test_a_seed_makes_the_same_text_again(writing):
    def write(seed: int | None) -> str:
        return "".join(writing.generate("abc", length=40, seed=seed))

    assert write(1) == write(1)
    assert len({write(seed) for seed in (1, 2, None)} | {write(None)}) == 4
    assert writing.samples("abc", number=1, length=40, seed=1) == [write(1)]
    three = writing.samples("abc", number=3, length=40, seed=1)
    assert three == writing.samples("abc", number=3, length=40, seed=1)
    assert len(set(three)) == 3


def test_without_temperature_all_samples_are_the_most_probable_text(writing):
    for prompt in ("", "a", 9 * "abcdh"):
        text = "".join(writing.generate(prompt, length=12, temperature=0))
        assert text == "".join(writing.generate(prompt, length=12, temperature=0, seed=5))
        assert text == "".join(writing.generate(prompt, length=12, top_k=1))
        assert text == "".join(writing.generate(prompt, length=12, top_p=1e-9))
        assert writing.samples(prompt, number=3, length=12, temperature=0) == [text] * 3


def test_the_length_is_in_symbols(writing):
    for length in (0, 1, 17):
        assert len("".join(writing.generate("abc", length=length))) == length
        assert list(map(len, writing.samples("abc", number=2, length=length))) == [length] * 2


def test_a_text_may_end_before_its_length():
    ending = pipeline_of(language_model(end=-7.0))
    lengths = [len(text) for text in ending.samples("abc", number=30, length=50, seed=0)]
    assert min(lengths) < 10
    assert len(set(lengths)) > 3
    for seed in range(3):
        assert len("".join(ending.generate("abc", length=50, seed=seed))) < 50
    greedy_ids = greedy(ending.model, LETTERS.encode("abc"), 50)
    assert "".join(ending.generate("abc", length=50, temperature=0)) == LETTERS.decode(greedy_ids)


def test_pieces_come_as_they_are_written(writing, monkeypatch):
    made = 0

    def watched(*arguments: object) -> Iterator[list[int]]:
        nonlocal made
        for tokens in ([LETTERS.encode(letter)[0]] for letter in "abc"):
            made += 1
            yield tokens

    monkeypatch.setattr(pipeline, "sample", watched)
    assert [(piece, made) for piece in writing.generate()] == [("a", 1), ("b", 2), ("c", 3)]


@given(st.lists(st.lists(st.integers(END, len(LETTERS) - 1), min_size=3, max_size=3), max_size=9))
@example([[4, END, 5], [END, 6, 6], [7, 7, END]])
def test_a_row_that_has_ended_writes_no_more(writing, tokens):
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(pipeline, "sample", lambda *_: iter(tokens))
        found = writing.samples(number=3)
    for row, text in enumerate(found):
        ids = [step[row] for step in tokens]
        assert text == LETTERS.decode(ids[: ids.index(END)] if END in ids else ids)


def test_a_wrong_option_of_writing_is_refused(writing):
    wrong = ({"length": -1}, {"temperature": -1.0}, {"top_k": -1}, {"top_p": 0.0}, {"top_p": 1.5})
    for options in wrong:
        with pytest.raises(ValueError, match=r"at least 0|at most 1|cannot be written"):
            list(writing.generate("abc", **options))
    with pytest.raises(ValueError, match="0 samples"):
        writing.samples("abc", number=0)


# Bytes


@pytest.fixture(scope="module")
def byte_pipelines() -> tuple[Pipeline, Pipeline]:
    return pipeline_of(translator(Bytes()), Bytes()), pipeline_of(language_model(Bytes()), Bytes())


@given(st.one_of(st.text(max_size=9).map(str.encode), st.binary(max_size=9)))
@example("aä€😀".encode())
@example("😀".encode()[:-1])
@example(b"\xff\x80a\xe2\x82")
@example(b"\xed\xa0\x80")  # half a surrogate pair: no text that can be printed
def test_characters_of_several_bytes_come_whole(byte_pipelines, data):
    """What is not UTF-8 comes as U+FFFD, so that every result can be printed; a stream says the same as a search."""
    translating, writing = byte_pipelines
    ids, text = Bytes().encode(data), data.decode("utf-8", "replace")
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(pipeline, "sample", lambda *_: iter([*([id_] for id_ in ids), [END]]))
        monkeypatch.setattr(pipeline, "search_all", lambda *_, **__: iter([(0, [Hypothesis(ids, -1.0, True)])]))
        for pieces in (list(writing.generate()), list(translating.stream("x", max_length=99))):
            assert "".join(pieces) == text
            for piece in pieces[:-1]:
                assert len(piece) <= 1 or "\N{REPLACEMENT CHARACTER}" in piece
        assert translating.translate("x") == text


def test_bytes_are_read_and_written(byte_pipelines):
    translating, writing = byte_pipelines
    texts = ["zwölf 😀", "\ud800", "a\nb"]
    assert translating.translate(texts, beam=1, max_length=9) == [
        "".join(translating.stream(text, max_length=9)) for text in texts
    ]
    ids = greedy(writing.model, Bytes().encode("zwölf"), 9)
    found = "".join(writing.generate("zwölf", length=9, temperature=0))
    assert found == Bytes().decode_bytes(ids).decode("utf-8", "replace")


# The wrong kind


def test_a_model_of_the_wrong_kind_is_named(translating, writing, tmp_path):
    file = tmp_path / "pairs.tsv"
    file.write_text("a\tb\n")
    calls = [
        (lambda: writing.translate("a"), "a language model and cannot translate"),
        (lambda: writing.translate(["a"]), "a language model and cannot translate"),
        (lambda: list(writing.stream("a")), "a language model and cannot translate"),
        (lambda: writing.evaluate(file), "a language model and cannot translate"),
        (lambda: list(translating.generate("a")), "a translator and cannot generate"),
        (lambda: translating.samples("a", number=2), "a translator and cannot generate"),
    ]
    for call, message in calls:
        with pytest.raises(ValueError, match="cannot") as raised:
            call()
        assert str(raised.value) == f"mine is {message}"


# Scores


def test_scores_come_in_order_and_as_texts_come(writing, texts, monkeypatch):
    monkeypatch.setattr(pipeline, "FIRST_WINDOW", 3)
    expected = scoring.score_texts(writing.model, [LETTERS], texts)
    source = iter(texts)
    scores = writing.score(source)
    first = next(scores)
    assert next(source) == texts[3]  # three were enough
    assert first.bits == pytest.approx(expected[0].bits, rel=1e-9)
    found = [score.bits for score in writing.score(texts)]
    assert found == pytest.approx([score.bits for score in expected], rel=1e-9)


def test_a_single_text_is_not_taken_for_a_list_of_letters(writing):
    with pytest.raises(TypeError, match="list"):
        list(writing.score("abc"))


def test_scores_of_lines_add_up_to_those_of_their_file(translating, texts, tmp_path):
    pairs = [*zip(texts, reversed(texts), strict=True), ("aXb", "cYd"), ("", ""), ("", "ab")]
    file = tmp_path / "pairs.tsv"
    file.write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    scores, whole = list(translating.score(pairs)), file_bits(translating.model, [LETTERS] * 2, file)
    assert sum(score.bits for score in scores) == pytest.approx(whole["bits"], rel=1e-6)
    assert [score.characters for score in scores] == [len(target) + 1 for _, target in pairs]
    assert sum(score.characters for score in scores) == whole["characters"]
    assert sum(score.bytes for score in scores) == whole["bytes"]
    assert sum(score.unknown for score in scores) == whole["unknown"] == 1


def test_the_symbols_that_a_model_does_not_know_are_counted(translating):
    assert translating.count_unknown("aXbY") == 2
    assert pipeline_of(language_model(Bytes()), Bytes()).count_unknown("aXbYä\ud800") == 0


def test_a_text_of_several_sentences_is_translated_sentence_by_sentence(tmp_path, texts, device):
    """If the folder says so, and if the user says nothing else."""
    save_model(translator(), [LETTERS] * 2, tmp_path / "model", decoding=DecodingConfig(split=20))
    loaded = bytenet.load(tmp_path / "model", device=device, precision=torch.float64)
    together = "abcab. Bcde! Hgf"
    alone = [loaded.translate(part, beam=2) for part in ("abcab.", "Bcde!", "Hgf")]
    assert loaded.translate(together, beam=2) == " ".join(alone)
    assert "".join(loaded.stream(together)) == loaded.translate(together, beam=1)
    assert loaded.translate(together, beam=2, split=0) == pipeline_of(translator()).translate(together, beam=2)


def test_what_begins_small_is_read_as_a_sentence_too(tmp_path, device):
    """If the folder says so, and if the user says nothing else; the likelier one of both is the translation."""
    save_model(
        translator(), [LETTERS] * 2, tmp_path / "model", decoding=DecodingConfig(recase=True, length_penalty=0.7)
    )
    loaded = bytenet.load(tmp_path / "model", device=device, precision=torch.float64)
    for text in ("abcab", "hgf", "a"):
        both = loaded.translations([text, text.title()], beam=2, recase=False)
        best = max((best for best, *_ in both), key=lambda best: (best.ended, best.score))
        assert loaded.translate(text, beam=2) == best.text
        assert "".join(loaded.stream(text)) == loaded.translate(text, beam=1)
        assert "".join(loaded.stream(text, recase=False)) == loaded.translate(text, beam=1, recase=False)


def test_a_model_is_searched_as_it_asks_for_itself(tmp_path, texts, device):
    """If the folder says so, and if the user says nothing else."""
    save_model(
        translator(end=1.0), [LETTERS] * 2, tmp_path / "model", decoding=DecodingConfig(beam=3, length_penalty=0.6)
    )
    loaded = bytenet.load(tmp_path / "model", device=device, precision=torch.float64)
    plain = pipeline_of(translator(end=1.0))
    several = [(3, 0.6), (12, 0.6), (3, 0.0), (12, 0.0)]
    expected = {(beam, by): plain.translate(texts, beam=beam, length_penalty=by) for beam, by in several}
    assert len(set(map(tuple, expected.values()))) == 4  # else it would not be seen
    assert loaded.translate(texts) == expected[3, 0.6]
    assert loaded.translate(texts, beam=12) == expected[12, 0.6]
    assert loaded.translate(texts, length_penalty=0.0) == expected[3, 0.0]
    assert loaded.translate(texts, beam=12, length_penalty=0.0) == plain.translate(texts) == expected[12, 0.0]
    ((best, *_),) = loaded.translations(["abc"], n_best=3)
    assert best.text == plain.translate("abc", beam=3, length_penalty=0.6)
    with pytest.raises(ValueError, match="the model's beam of 3, not 4"):
        loaded.translations(["abc"], n_best=4)


# Evaluation


@pytest.fixture
def pairs_file(texts, tmp_path) -> Path:
    file = tmp_path / "news.tsv"
    file.write_text("".join(f"{text}\t{text[::-1]} abc d ef gh\n" for text in texts))
    return file


def test_an_evaluation_is_that_of_the_translations(translating, texts, pairs_file):
    told: list[tuple[int, int]] = []
    result = translating.evaluate(
        pairs_file, beam=2, max_length=5, watch=lambda done, total: told.append((done, total))
    )
    found = [best for best, *_ in translating.translations(texts, beam=2, max_length=5)]
    expected = quality([best.text for best in found], [f"{text[::-1]} abc d ef gh" for text in texts])
    for name in ("bleu", "bleu_lowercase", "chrf", "length_ratio", "signatures"):
        assert result[name] == getattr(expected, name)
    assert result["length_ratio"] > 0
    assert 0 < result["ended"] < 1
    assert result["ended"] == sum(best.ended for best in found) / len(found)
    assert result["sentences"] == len(texts)
    bits = file_bits(translating.model, [LETTERS] * 2, pairs_file)
    assert result["bits_per_character"] == pytest.approx(bits["bits_per_character"], rel=1e-9)
    assert told == [(done, SEVERAL) for done in range(1, SEVERAL + 1)]
    assert json.loads(json.dumps(result)) == result


@pytest.mark.parametrize("own", [DecodingConfig(), DecodingConfig(beam=3, length_penalty=0.6)])
def test_an_evaluations_signature_names_data_and_search(translating, pairs_file, own):
    asking = pipeline_of(translating.model, decoding=own)
    for options in ({}, {"beam": 2}, {"length_penalty": 1.5}, {"beam": 2, "length_penalty": 0.0}):
        used = {"beam": own.beam, "length_penalty": own.length_penalty} | options
        result = asking.evaluate(pairs_file, max_length=3, **options)
        assert result == translating.evaluate(pairs_file, max_length=3, **used)
        signature = result["signature"]
        assert "|data:news.tsv|" in signature
        assert f":beam:{used['beam']}|length_penalty:{used['length_penalty']}|" in signature
        assert "max_length:3|" in signature
        assert signature.endswith(f"|bytenet:{bytenet.__version__}")


def test_with_typos_the_mistyped_sources_are_translated(translating, texts, pairs_file):
    result = translating.evaluate(pairs_file, beam=1, max_length=5, typos=0.3)
    found = translating.translate([with_typos(text, 0.3) for text in texts], beam=1, max_length=5)
    expected = quality(found, [f"{text[::-1]} abc d ef gh" for text in texts])
    assert (result["bleu"], result["chrf"]) == (expected.bleu, expected.chrf)
    assert "|typos:0.3|" in result["signature"]
    as_it_is = translating.evaluate(pairs_file, beam=1, max_length=5)
    assert as_it_is["chrf"] != result["chrf"]
    assert as_it_is["bits_per_character"] == result["bits_per_character"]


def test_an_empty_file_is_no_evaluation(translating, tmp_path):
    file = tmp_path / "empty.tsv"
    file.write_text("")
    with pytest.raises(ValueError, match=r"empty\.tsv: empty$"):
        translating.evaluate(file)
