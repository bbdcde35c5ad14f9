"""translate, generate, score and evaluate as a user meets them: a line in, a line out, mistakes in one line."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from bytenet import Bytes, LanguageModel, Pipeline, cli, load, save_model
from bytenet.cli import writing
from bytenet.decoding.config import DecodingConfig
from bytenet.evaluation.files import file_bits
from tests.test_pipeline import LETTERS, language_model, translator

PATIENT = 60  # seconds until a test gives up; nothing that works waits for it


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def letters(folder) -> Path:
    """A translator of letters."""
    save_model(translator(), [LETTERS] * 2, folder / "letters")
    return folder / "letters"


@pytest.fixture(scope="module")
def ending(folder) -> Path:
    """A translator whose translations are short and end, so that there is nothing to remark."""
    save_model(translator(end=2.0), [LETTERS] * 2, folder / "ending")
    return folder / "ending"


@pytest.fixture(scope="module")
def asking(folder) -> Path:
    """A translator that says how it wants to be searched."""
    decoding = DecodingConfig(beam=3, length_penalty=0.6)
    save_model(translator(end=1.0), [LETTERS] * 2, folder / "asking", decoding=decoding)
    return folder / "asking"


@pytest.fixture(scope="module")
def breaking(folder) -> Path:
    """A translator that writes little but line ends."""
    model = translator(Bytes(), end=-1e3)
    with torch.no_grad():
        model.decoder.head.logits.bias[Bytes().encode("\n\r\x0b")] += 50
    save_model(model, [Bytes()] * 2, folder / "breaking")
    return folder / "breaking"


@pytest.fixture(scope="module")
def reader(folder) -> Path:
    """A language model of letters."""
    save_model(language_model(), [LETTERS], folder / "reader")
    return folder / "reader"


@pytest.fixture(scope="module")
def translating(letters) -> Pipeline:
    return load(letters, device="cpu")


def lines_of(number: int) -> list[str]:
    """Of several lengths; every tenth is empty."""
    return ["" if i % 10 == 9 else "abcdefgh"[i % 8 :] * (1 + i % 3) + "abcdefgh"[: i % 7] for i in range(number)]


def parsed(line: str) -> Any:
    """JSON and nothing that only Python takes for JSON."""
    return json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def assert_a_mistake(result: tuple[int, str, str], message: str, out: str = "") -> None:
    status, printed, err = result
    assert (status, printed) == (2, out)
    assert err.startswith("bytenet: ")
    assert (err.count("\n"), err[-1]) == (1, "\n")
    assert message in err


# translate


def test_a_line_in_is_a_line_out(run, letters, translating):
    texts = ["abc", "", "hgf edc", " ", "aaaaaaaaaaaaaaaa"]
    status, out, err = run("translate", "--model", letters, "--beam", 3, stdin="".join(f"{text}\n" for text in texts))
    assert status == 0
    assert out == "".join(f"{text}\n" for text in translating.translate(texts, beam=3))
    assert out.split("\n")[1] == out.split("\n")[3] == ""
    assert "done" not in err


def test_texts_can_be_arguments(run, letters, translating):
    expected = "".join(f"{text}\n" for text in translating.translate(["abc", "", "h"]))
    assert run("translate", "--model", letters, "abc", "", "h", stdin="not read\n")[:2] == (0, expected)


def test_no_lines_are_no_lines(run, letters):
    assert run("translate", "--model", letters) == (0, "", "")
    assert run("translate", "--model", letters, "--json") == (0, "", "")


@pytest.mark.parametrize("options", [(), ("--stream",)])
def test_a_translation_is_one_line_even_if_the_model_writes_several(run, breaking, options):
    status, out, _ = run("translate", "--model", breaking, "--max-length", 6, *options, stdin="ab\n\nabcde\n")
    assert status == 0
    assert out.count("\n") == 3
    assert "\r" not in out
    if not options:
        _, out, _ = run("translate", "--model", breaking, "--max-length", 6, "--json", stdin="ab\n")
        assert set(parsed(out)["text"]) & {"\n", "\r"}  # else nothing was shown above


def test_many_lines_through_a_pipe_keep_their_order(run, letters, translating):
    texts = lines_of(300)
    reading, writing = os.pipe()

    def write() -> None:
        with open(writing, "w") as file:
            for start in range(0, len(texts), 70):
                file.write("".join(f"{text}\n" for text in texts[start : start + 70]))
                file.flush()

    thread = threading.Thread(target=write)
    thread.start()
    with open(reading, "rb") as file:
        status, out, _ = run("translate", "--model", letters, "--beam", 2, "--max-length", 9, stdin=file)
    thread.join()
    assert status == 0
    expected = translating.translate(texts, beam=2, max_length=9)
    assert out.split("\n")[:-1] == expected
    assert len(set(expected)) > 20


def test_options_reach_the_search(run, letters, translating):
    text = "abcdefghabc"
    for options in ({"beam": 1}, {"beam": 5, "length_penalty": 2.0}, {"beam": 2, "max_length": 3}):
        words = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", value)]
        expected = translating.translate(text, **options)
        assert run("translate", "--model", letters, *words, "--batch", 1, text)[1] == f"{expected}\n"
    assert run("translate", "--model", letters, "--precision", "float64", "--device", "cpu", text)[0] == 0


def test_json_says_all_about_a_translation(run, letters, translating):
    texts = ["abc", "", "hä\tg"]
    status, out, _ = run("translate", "--model", letters, "--json", "--beam", 3, stdin="\n".join(texts))
    assert status == 0
    for text, line, (best,) in zip(texts, out.splitlines(), translating.translations(texts, beam=3), strict=True):
        value = parsed(line)
        assert value == {
            "source": text, "text": best.text, "ended": best.ended,
            "log_likelihood": pytest.approx(best.log_likelihood), "score": pytest.approx(best.score),
        }  # fmt: skip


def test_n_best_translations_are_lines_with_number_rank_and_likelihood(run, letters, translating):
    texts = ["abcdefgh", "", "hgfe"]
    found = list(translating.translations(texts, beam=4, n_best=3))
    options = ("translate", "--model", letters, "--beam", 4, "--n-best", 3)
    status, out, _ = run(*options, stdin="\n".join(texts))
    assert status == 0
    assert [line.split("\t") for line in out.splitlines()] == [
        [str(number), str(rank), f"{translation.log_likelihood:.4f}", translation.text]
        for number, best in enumerate(found, start=1)
        for rank, translation in enumerate(best, start=1)
    ]
    values = list(map(parsed, run(*options, "--json", stdin="\n".join(texts))[1].splitlines()))
    assert [[one["text"] for one in value["translations"]] for value in values] == [
        [translation.text for translation in best] for best in found
    ]
    assert [value["text"] for value in values] == [best[0].text for best in found]


def test_a_stream_is_the_greedy_translation(run, letters):
    stdin = "".join(f"{line}\n" for line in lines_of(20))
    greedy = run("translate", "--model", letters, "--beam", 1, stdin=stdin)[1]
    assert run("translate", "--model", letters, "--stream", stdin=stdin)[:2] == (0, greedy)
    assert run("translate", "--model", letters, "--stream", "--beam", 1, stdin=stdin)[:2] == (0, greedy)


def test_unknown_characters_are_remarked(run, letters):
    status, out, err = run("translate", "--model", letters, stdin="abc\naXY\nabc\n")
    assert (status, out.count("\n")) == (0, 3)
    remarks = [line for line in err.splitlines() if "unknown" in line]
    assert remarks == ["text 2: unknown to the model: 2 of 3 symbols"]


def test_only_a_few_remarks_are_made(run, letters):
    number = writing.MOST_REMARKS
    status, out, err = run("translate", "--model", letters, "--beam", 6, stdin="X\n" * (number + 1000))
    assert (status, out.count("\n")) == (0, number + 1000)
    assert err.count("\n") == number + 1
    assert err.splitlines()[-1].startswith("... and ")
    assert run("translate", "--model", letters, stdin="X\n" * number)[2].count("\n") >= number


def test_a_translation_that_was_cut_off_is_remarked(run, breaking):
    assert "cut off" in run("translate", "--model", breaking, "--max-length", 6, "ab")[2]


def test_lines_before_a_bad_one_are_translated(run, letters, translating):
    expected = "".join(f"{text}\n" for text in translating.translate(["abc", ""]))
    result = run("translate", "--model", letters, stdin=b"abc\n\n\xff\nabc\n")
    status, out, err = result
    assert (status, out) == (2, expected)
    assert err.splitlines()[-1] == "bytenet: line 3: not UTF-8 (byte 0xff)"


def test_results_go_to_stdout_while_a_bar_is_shown(run, letters, monkeypatch):
    """stderr is a terminal and stdout a file, as in `bytenet translate < source > target`."""
    arguments = ("translate", "--model", letters, "--beam", 2)
    expected = run(*arguments, stdin="abc\n\nhgf\n")[1]
    monkeypatch.setenv("FORCE_COLOR", "1")  # a terminal, to rich
    monkeypatch.setenv("TERM", "xterm")
    status, out, err = run(*arguments, stdin="abc\n\nhgf\n")
    assert (status, out) == (0, expected)
    assert "translating" in err


@pytest.mark.parametrize("options", [(), ("--stream",)])
def test_an_interruption_counts_the_lines_that_are_done(run, ending, monkeypatch, options):
    found = {name: getattr(Pipeline, name) for name in ("stream", "translations")}
    done = 0

    def stream(self, text, **options):
        nonlocal done
        if done == 2:
            raise KeyboardInterrupt
        yield from found["stream"](self, text, **options)
        done += 1

    def translations(self, texts, **options):
        yield from found["translations"](self, texts[:2], **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(Pipeline, "stream", stream)
    monkeypatch.setattr(Pipeline, "translations", translations)
    status, out, err = run("translate", "--model", ending, *options, stdin="abc\n\nhgf\nabc\n")
    assert (status, out.count("\n")) == (130, 2)
    assert err == "stopped; done: 2 lines\n"


# generate


def test_a_seed_makes_the_same_text_again(run, reader):
    options = ("generate", "--model", reader, "--prompt", "abc", "--length", 30)
    status, out, err = run(*options, "--seed", 1)
    assert (status, err) == (0, "")
    assert out == "abc" + "".join(load(reader).generate("abc", length=30, seed=1)) + "\n"
    assert len(out) == 3 + 30 + 1
    assert run(*options, "--seed", 1)[1] == out
    assert run(*options, "--seed", 2)[1] != out


def test_several_samples_continue_one_prompt(run, reader):
    options = ("generate", "--model", reader, "--prompt", "abc", "--length", 20, "--samples", 3, "--seed", 4)
    expected = load(reader).samples("abc", number=3, length=20, seed=4)
    assert run(*options)[1] == "".join(f"abc{text}\n\n" for text in expected)
    values = list(map(parsed, run(*options, "--json")[1].splitlines()))
    assert values == [{"prompt": "abc", "text": text} for text in expected]
    (one,) = map(parsed, run(*options[:-4], "--temperature", 0, "--json")[1].splitlines())
    assert one["text"] == "".join(load(reader).generate("abc", length=20, temperature=0))


def test_a_prompt_can_come_from_stdin_or_a_file(run, reader, tmp_path):
    file = tmp_path / "prompt.txt"
    file.write_text("abc\nä")
    options = ("--model", reader, "--length", 9, "--temperature", 0)
    expected = run("generate", *options, "--prompt", "abc\nä")
    assert expected[0] == 0
    assert run("generate", *options, "--prompt-file", file) == expected
    assert run("generate", *options, "--prompt-file", "-", stdin="abc\nä") == expected
    file.write_bytes(b"ab\xff")
    assert_a_mistake(run("generate", *options, "--prompt-file", file), "not UTF-8 (byte 0xff at 2)")
    assert_a_mistake(run("generate", *options, "--prompt-file", "-", stdin=b"\xff"), "not UTF-8")


def test_options_reach_the_sampling(run, reader):
    def write(*options: object) -> str:
        status, out, _ = run("generate", "--model", reader, "--length", 30, "--seed", 3, *options)
        assert status == 0
        return out

    greedy = write("--temperature", 0)
    assert write("--top-k", 1) == write("--top-p", 1e-9) == greedy
    assert write() != greedy
    assert write("--temperature", 9) != write()


# score


def test_scores_of_lines_and_their_sum(run, reader):
    texts = ["abc", "", "hgfedcba"]
    scores = list(load(reader).score(texts))
    bits, characters = sum(score.bits for score in scores), sum(map(len, texts))
    status, out, err = run("score", "--model", reader, stdin="".join(f"{text}\n" for text in texts))
    assert status == 0
    assert [line.split("\t")[::2] for line in out.splitlines()] == [
        [f"{score.bits:.4f}", text] for score, text in zip(scores, texts, strict=True)
    ]
    assert out.splitlines()[0].split("\t")[1] == f"{scores[0].bits / 3:.4f}"
    assert err == f"{bits:.4f} bits in all, {bits / characters:.4f} a character, over 11 characters in 3 lines\n"
    status, out, err = run("score", "--model", reader, "--json", *texts)
    assert (status, err) == (0, "")
    *values, total = map(parsed, out.splitlines())
    for text, value, score in zip(texts, values, scores, strict=True):
        assert value == {
            "text": text, "bits": pytest.approx(score.bits), "characters": len(text), "bytes": len(text), "unknown": 0,
            "bits_per_character": pytest.approx(score.bits / len(text)) if text else None,
        }  # fmt: skip
    assert total == {
        "lines": 3, "bits": pytest.approx(bits), "characters": 11, "bits_per_character": pytest.approx(bits / 11)
    }  # fmt: skip


def test_scores_of_pairs_are_those_of_their_file(run, letters, translating, tmp_path):
    """The same file, line by line and at once: further columns and empty lines too."""
    file = tmp_path / "pairs.tsv"
    for content in ("abc\tcba\n\tab\nab\t\n", "abc\tcba\tfurther\n", "abc\tcba\n\nab\tba\n"):
        file.write_text(content)
        expected = file_bits(translating.model, translating.vocabularies, file)
        status, out, err = run("score", "--model", letters, "--json", stdin=content)
        assert status == 0, err
        *values, total = map(parsed, out.splitlines())
        assert len(values) == total["lines"] == content.count("\n")
        assert total["bits"] == pytest.approx(expected["bits"], rel=1e-6)
        assert total["characters"] == expected["characters"]


def test_a_line_without_a_tab_is_no_pair(run, letters):
    status, _, err = run("score", "--model", letters, stdin="abc\tcba\nab\n")
    assert (status, err.count("\n")) == (2, 1)
    assert "text 2: no tab between a source and a target" in err


# evaluate


def test_evaluate_translates_a_file_and_says_how(run, letters, translating, tmp_path):
    file = tmp_path / "news.tsv"
    file.write_text("".join(f"{text}\t{text[::-1]} a b c d\n" for text in lines_of(20)))
    options = ("evaluate", letters, "--pairs", file, "--beam", 2, "--max-length", 8)
    status, out, _ = run(*options, "--json")
    assert status == 0
    result = parsed(out)
    expected = translating.evaluate(file, beam=2, max_length=8)
    for name in ("bleu", "bleu_lowercase", "chrf", "bits_per_character", "ended", "length_ratio", "sentences"):
        assert result[name] == pytest.approx(expected[name]), name
    assert result["signatures"] == expected["signatures"]
    assert "|data:news.tsv|" in result["signature"]
    assert "beam:2|" in result["signature"]
    assert "None" not in result["signature"]  # what was not chosen
    status, out, _ = run(*options)
    assert status == 0
    table = dict(re.split(r"\s+", line, maxsplit=1) for line in out.splitlines())
    assert float(table["chrf"]) == pytest.approx(expected["chrf"], rel=1e-4)
    assert "tok:13a" in table["signatures.bleu"]


def test_an_evaluation_is_of_one_kind(run, letters, tmp_path):
    """Two would have two signatures."""
    file = tmp_path / "pairs.tsv"
    file.write_text("abc\tcba\n")
    status, out, err = run("evaluate", letters, "--pairs", file, "--exact", file)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "one of --pairs" in err


def test_an_evaluation_without_a_number_is_still_json(run, letters, tmp_path):
    file = tmp_path / "empty-targets.tsv"
    file.write_text("abc\t\n")
    status, out, _ = run("evaluate", letters, "--pairs", file, "--beam", 2, "--json")
    assert status == 0
    assert parsed(out)["sentences"] == 1


# The model's own choice


SEARCHES = [
    ([], {"beam": 3, "length_penalty": 0.6}),
    (["--beam", 12], {"beam": 12, "length_penalty": 0.6}),
    (["--length-penalty", 0], {"beam": 3, "length_penalty": 0.0}),
    (["--beam", 12, "--length-penalty", 0], {"beam": 12, "length_penalty": 0.0}),
]


def test_translate_searches_as_the_model_asks_unless_told_otherwise(run, asking):
    texts, found = lines_of(40), []
    for options, used in SEARCHES:
        status, out, _ = run("translate", "--model", asking, *options, stdin="".join(f"{text}\n" for text in texts))
        assert (status, out) == (0, "".join(f"{text}\n" for text in load(asking).translate(texts, **used)))
        found.append(out)
    assert len(set(found)) == 4  # else it would not be seen


def test_evaluate_searches_as_the_model_asks_unless_told_otherwise(run, asking, tmp_path):
    file = tmp_path / "pairs.tsv"
    file.write_text("".join(f"{text}\t{text[::-1]} a b\n" for text in lines_of(8)))
    for options, used in (SEARCHES[0], SEARCHES[-1]):
        status, out, _ = run("evaluate", asking, "--pairs", file, *options, "--json")
        assert (status, parsed(out)) == (0, load(asking).evaluate(file, **used))


# Mistakes


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["translate", "--model", "ASKING", "--n-best", "4", "abc"], "n_best must be from 1 to the model's beam of 3"),
        (["translate", "--model", "LETTERS", "--length-penalty", "-1", "abc"], "--length-penalty"),
        (["translate", "--model", "LETTERS", "--length-penalty", "inf", "abc"], "length_penalty must be finite"),
        (["translate", "--model", "READER", "abc"], "reader is a language model and cannot translate"),
        (["translate", "--model", "READER", "--stream", "abc"], "reader is a language model and cannot translate"),
        (["generate", "--model", "LETTERS"], "letters is a translator and cannot generate"),
        (["generate", "--model", "LETTERS", "--prompt", "abc"], "letters is a translator and cannot generate"),
        (["generate", "--model", "LETTERS", "--samples", "2"], "letters is a translator and cannot generate"),
        (["evaluate", "READER", "--pairs", "FILE"], "reader is a language model and cannot translate"),
        (["evaluate", "LETTERS", "--pairs", "EMPTY"], "empty.tsv: empty"),
        (["evaluate", "LETTERS", "--pairs", "missing.tsv"], "missing.tsv: No such file"),
        (["translate", "--model", "missing", "abc"], "missing: neither a folder nor a built-in model"),
        (["generate", "--model", "missing"], "missing: neither a folder nor a built-in model"),
        (["score", "--model", "missing"], "missing: neither a folder nor a built-in model"),
        (["evaluate", "missing", "--pairs", "FILE"], "missing: neither a folder nor a built-in model"),
        (["translate", "--model", "FOLDER", "abc"], "there is no config.json"),
        (["translate", "--model", "LETTERS", "--device", "abacus", "abc"], "not the name of a device"),
        (["translate", "--model", "LETTERS", "--precision", "int8", "abc"], "--precision"),
        (["translate", "--model", "LETTERS", "--beam", "0", "abc"], "--beam"),
        (["translate", "--model", "LETTERS", "--beam", "2", "--n-best", "3", "abc"], "n_best must be from 1 to"),
        (["translate", "--model", "LETTERS", "--max-length", "0", "abc"], "--max-length"),
        (["translate", "--model", "LETTERS", "--stream", "--beam", "3", "abc"], "--stream is greedy"),
        (["translate", "--model", "LETTERS", "--stream", "--n-best", "2", "abc"], "--stream is greedy"),
        (["translate", "--model", "LETTERS", "--stream", "--json", "abc"], "--stream is greedy"),
        (["generate", "--model", "READER", "--top-p", "0"], "top_p must be"),
        (["generate", "--model", "READER", "--length", "-1"], "--length"),
        (["generate", "--model", "READER", "--prompt-file", "missing.txt"], "missing.txt: No such file"),
        (["score", "--model", "LETTERS", "abc"], "text 1: no tab"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(run, folder, letters, asking, reader, arguments, message):
    (folder / "pairs.tsv").write_text("abc\tcba\n")
    (folder / "empty.tsv").write_text("")
    paths = {"LETTERS": letters, "ASKING": asking, "READER": reader, "FOLDER": folder}
    paths |= {"FILE": folder / "pairs.tsv", "EMPTY": folder / "empty.tsv"}
    assert_a_mistake(run(*(paths.get(word, word) for word in arguments), stdin="abc\n"), message)


def test_a_closed_stdin_is_a_mistake_and_no_fault(run, letters, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", None)
    monkeypatch.setattr(sys, "argv", ["bytenet", "translate", "--model", str(letters)])
    with pytest.raises(SystemExit) as exit_:
        cli.main()
    assert exit_.value.code in (0, 2)
    assert capsys.readouterr().err.count("\n") <= 1


def test_nothing_is_asked_of_a_model_before_the_options_are_right(run, reader, monkeypatch):
    """A mistake is noticed before a long prompt is read, and before anything is printed."""
    monkeypatch.setattr(LanguageModel, "forward", lambda *_: pytest.fail("the model was run"))
    assert_a_mistake(run("generate", "--model", reader, "--prompt", "abc", "--top-p", 2), "top_p")


# Processes of their own


@contextlib.contextmanager
def translating_processes(*models_and_beams: tuple[Path, int]) -> Iterator[list["subprocess.Popen[bytes]"]]:
    """Each waits for its lines; started together, because that takes longest."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}  # tests run side by side
    environment.pop("PYTHONUNBUFFERED", None)
    pipe = subprocess.PIPE
    commands = [["translate", "--model", str(model), "--beam", str(beam)] for model, beam in models_and_beams]
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "bytenet", *command], stdin=pipe, stdout=pipe, stderr=pipe, env=environment
        )
        for command in commands
    ]
    timers = [threading.Timer(PATIENT, process.kill) for process in processes]  # whoever waits for it finds its end
    for timer in timers:
        timer.start()
    try:
        yield processes
    finally:
        for timer, process in zip(timers, processes, strict=True):
            timer.cancel()
            process.kill()
            process.wait()
            for file in (process.stdin, process.stdout, process.stderr):
                with contextlib.suppress(BrokenPipeError):
                    file.close()


@pytest.fixture(scope="module")
def processes(letters, ending) -> Iterator[list["subprocess.Popen[bytes]"]]:
    with translating_processes((ending, 2), (letters, 6)) as found:
        yield found


def test_a_reader_that_has_seen_enough_is_no_error(processes, ending):
    """As `| head -1`; more lines would come, so that stdin is still open."""
    process = processes[0]
    write(process, b"abc\n")
    line = process.stdout.readline()  # while the next line is not written yet
    process.stdout.close()
    write(process, b"abc\n" * 9)
    assert (process.wait(PATIENT), process.stderr.read()) == (0, b"")
    assert line.decode() == f"{load(ending).translate('abc', beam=2)}\n"


@pytest.mark.slow
def test_a_bad_line_ends_a_conversation_with_exit_code_2(ending):
    """Whoever writes has not closed stdin."""
    with translating_processes((ending, 2)) as (process,):
        write(process, b"abc\n\n\xff\n")
        assert process.wait(PATIENT) == 2
        assert process.stderr.read() == b"bytenet: line 3: not UTF-8 (byte 0xff)\n"
        assert process.stdout.read().decode() == f"{load(ending).translate('abc', beam=2)}\n\n"


def test_an_interrupted_translation_says_how_far_it_came(processes, translating):
    process, texts = processes[1], lines_of(4000)
    data = "".join(f"{text}\n" for text in texts).encode()
    threading.Thread(target=write, args=(process, data), daemon=True).start()
    printed = [process.stdout.readline().decode() for _ in range(100)]
    process.send_signal(signal.SIGINT)
    printed += process.stdout.read().decode().splitlines(keepends=True)
    assert process.wait(PATIENT) == 130
    said = process.stderr.read().decode()
    assert all(line.endswith("\n") for line in printed)
    expected = translating.translate(texts[: len(printed)], beam=6)
    assert [line.removesuffix("\n") for line in printed] == expected
    assert "Traceback" not in said
    (found,) = re.findall(r"^stopped; done: ([\d,]+) lines$", said, flags=re.MULTILINE)
    assert abs(int(found.replace(",", "")) - len(printed)) <= 1  # it may come between a print and its count
    assert len(printed) < len(texts)


def write(process: "subprocess.Popen[bytes]", data: bytes) -> None:
    """And leave stdin open."""
    with contextlib.suppress(BrokenPipeError):  # interrupted before it had read all
        process.stdin.write(data)
        process.stdin.flush()
