"""The command line as a user meets it: results on stdout, a mistake as one line on stderr with exit code 2."""

import json
import re
import shlex
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from bytenet import Bytes, LanguageModel, LanguageModelConfig, __version__, cli, save_model
from bytenet.data.corpora import CORPORA
from bytenet.decoding.config import DecodingConfig
from bytenet.model.blocks import StackConfig
from bytenet.model_folder import load_decoding_config, load_model

ROOT = Path(__file__).parent.parent
RECIPE = str(ROOT / "recipes" / "enwik8-paper.toml")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    config = LanguageModelConfig(inner_channels=8, decoder=StackConfig(num_blocks=2, dilations=(1, 2)))
    save_model(LanguageModel(config), [Bytes()], tmp_path / "model")
    return tmp_path / "model"


def test_describe_a_recipe(run):
    status, out, err = run("describe", RECIPE, "--json")
    assert (status, err) == (0, "")
    assert json.loads(out)["receptive_field"] == 373


def test_describe_a_changed_recipe(run):
    status, out, _ = run("describe", RECIPE, "--json", "--set", "model.decoder.num_blocks=5")
    assert status == 0
    assert json.loads(out)["receptive_field"] == 1 + 2 * 31


def test_describe_a_models_folder(run, model):
    status, out, _ = run("describe", str(model), "--json")
    assert status == 0
    assert json.loads(out)["receptive_field"] == 7


def test_a_packed_model_is_half_as_large_and_reads_alike(run, model, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("some text to read", encoding="ascii")
    status, out, _ = run("pack", str(model), str(tmp_path / "packed"))
    assert status == 0
    assert out.startswith(f"{tmp_path / 'packed'}: ")
    sizes = [(folder / "model.safetensors").stat().st_size for folder in (model, tmp_path / "packed")]
    assert sizes[1] < 0.6 * sizes[0]
    before, after = (
        json.loads(run("evaluate", str(folder), "--bits", str(text), "--json")[1])["bits_per_byte"]
        for folder in (model, tmp_path / "packed")
    )
    assert after == pytest.approx(before, rel=0.01)


def test_a_model_is_packed_in_int8_and_in_files_of_bounded_size(run, tmp_path):
    config = LanguageModelConfig(inner_channels=256, decoder=StackConfig(num_blocks=3))
    save_model(LanguageModel(config), [Bytes()], tmp_path / "model")
    packed = tmp_path / "packed"
    status, out, err = run(
        "pack", tmp_path / "model", packed, "--precision", "int8", "--shard-megabytes", "1", "--json"
    )
    assert (status, err) == (0, "")
    sizes = {file.name: file.stat().st_size for file in packed.iterdir()}
    result = json.loads(out)
    assert result == {"folder": str(packed), "precision": "int8", "files": len(sizes), "bytes": sum(sizes.values())}
    assert len(list(packed.glob("*.safetensors"))) > 1
    assert max(sizes.values()) <= 1_000_000
    stored = json.loads(run("describe", packed, "--json")[1])["stored_bytes"]
    assert list(stored) == ["int8", "float32"]
    assert sum(stored.values()) < 0.27 * (tmp_path / "model" / "model.safetensors").stat().st_size
    assert f"{stored['int8']:,} bytes in int8" in run("describe", packed)[1]


@pytest.mark.parametrize("wrong", [["--precision", "int4"], ["--shard-megabytes", "0"], ["--shard-megabytes", "few"]])
def test_a_wrong_option_of_packing_is_one_line(run, model, tmp_path, wrong):
    status, out, err = run("pack", model, tmp_path / "packed", *wrong)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert not (tmp_path / "packed").exists()


def test_a_packed_model_is_used_as_before(run, model, tmp_path):
    loaded, vocabularies = load_model(model)
    save_model(loaded, vocabularies, tmp_path / "model", decoding=DecodingConfig(split=77))
    assert run("pack", str(tmp_path / "model"), str(tmp_path / "packed"))[0] == 0
    assert load_decoding_config(tmp_path / "packed") == DecodingConfig(split=77)
    changed = ["--set", "decoding.beam=3", "--set", "decoding.recase=true"]
    assert run("pack", str(tmp_path / "packed"), str(tmp_path / "changed"), *changed)[0] == 0
    assert load_decoding_config(tmp_path / "changed") == DecodingConfig(split=77, beam=3, recase=True)


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ("model.inner_channels=3", "model: cannot be changed in a model that is there; keys of decoding can"),
        ("decoding.beem=3", "decoding.beem: unknown key (did you mean decoding.beam?)"),
        ("decoding.recase=maybe", 'decoding.recase: must be true or false, not "maybe"'),
        ("decoding=4", "decoding: must be a table of keys, not 4"),
    ],
)
def test_only_how_a_model_is_searched_changes_when_it_is_packed(run, model, tmp_path, wrong, problem):
    status, out, err = run("pack", model, tmp_path / "packed", "--set", wrong)
    assert (status, out) == (2, "")
    assert err == f"bytenet: {model / 'config.json'} (--set {wrong}): {problem}\n"
    assert not (tmp_path / "packed").exists()


def test_packing_leaves_what_is_no_model_alone(run, model, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine", encoding="ascii")
    status, _, err = run("pack", str(model), str(tmp_path / "mine"))
    assert status == 2
    assert "left as it is" in err
    assert (tmp_path / "mine" / "notes.txt").read_text(encoding="ascii") == "mine"
    status, _, err = run("pack", str(tmp_path / "nothing"), str(tmp_path / "packed"))
    assert (status, err.count("\n")) == (2, 1)


@pytest.mark.parametrize("name", ["enwik8-paper", "wmt14-en-de-paper"])
def test_describe_prints_a_table(run, name):
    status, out, _ = run("describe", str(ROOT / "recipes" / f"{name}.toml"))
    assert status == 0
    for word in ("parameters", "receptive field", "373", "1, 2, 4, 8, 16", "FLOPs"):
        assert word in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["describe", "missing.toml"], "missing.toml: No such file or directory"),
        (["describe"], "Missing argument 'RECIPE_OR_MODEL'"),
        (["describe", RECIPE, "--jsno"], "--jsno"),
        (["describe", RECIPE, "--set", "model.inner_chanels=3"], "did you mean model.inner_channels?"),
        (["describe", str(ROOT)], "there is no config.json"),
        (["describe", str(Path(__file__))], "not TOML"),
        (["descibe", RECIPE], "No such command 'descibe'"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(run, arguments, message):
    status, out, err = run(*arguments)
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    assert err.startswith("bytenet: ")
    assert message in err


def test_overrides_are_for_recipes(run, model):
    status, _, err = run("describe", str(model), "--set", "model.inner_channels=3")
    assert status == 2
    assert "--set changes a recipe" in err


def test_a_fault_of_the_program_is_not_hidden(run, monkeypatch):
    monkeypatch.setattr("bytenet.describe.describe", lambda config: 1 / 0)
    monkeypatch.setattr(sys, "argv", ["bytenet", "describe", RECIPE])
    with pytest.raises(ZeroDivisionError):
        cli.main()


def test_version_and_help(run):
    assert run("--version")[1] == f"bytenet {__version__}\n"
    for arguments in ([], ["--help"], ["-h"]):
        status, out, _ = run(*arguments)
        assert status == 0
        assert "describe" in out


@pytest.mark.parametrize("verb", ["translate", "evaluate"])
def test_help_says_what_the_model_decides(run, monkeypatch, verb):
    monkeypatch.setenv("COLUMNS", "200")
    options = re.split(r"^│ (?=--)", run(verb, "--help")[1], flags=re.MULTILINE)
    said = [option.split()[0] for option in options if "[default: (as the model's recipe has it)]" in option]
    assert said == ["--beam", "--length-penalty", "--split", "--recase"]


def test_a_closed_pipe_is_no_error():
    command = f"'{sys.executable}' -m bytenet describe '{RECIPE}' | head -1"
    result = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")


def test_the_readmes_commands_run(run, monkeypatch):
    monkeypatch.chdir(ROOT)
    commands = re.findall(r"^bytenet (describe .*)$", (ROOT / "README.md").read_text(), flags=re.MULTILINE)
    assert commands
    for command in commands:
        status, out, _ = run(*command.partition("#")[0].split())
        assert status == 0
        assert out


TINY = [f"--set={key}" for key in ("training.steps=1", "training.batch_characters=1000", "model.inner_channels=4")]


def test_the_readmes_commands_for_own_files_run(run, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recipes").symlink_to(ROOT / "recipes")
    numbers = range(300)
    (tmp_path / "my.txt").write_text("".join(f"{n} bottles of beer; " for n in numbers))
    (tmp_path / "other.txt").write_text("a text like any other")
    (tmp_path / "my.en").write_text("".join(f"number {n}\n" for n in numbers))
    (tmp_path / "my.de").write_text("".join(f"Nummer {n}\n" for n in numbers))
    (tmp_path / "my.tsv").write_text("".join(f"number {n}\tNummer {n}\n" for n in numbers))
    (tmp_path / "test.tsv").write_text("number 1\tNummer 1\n")
    (tmp_path / "lines.txt").write_text("number 1\n\nnumber 2\n")
    readme = (ROOT / "README.md").read_text()
    counts = {"train": 3, "evaluate": 2, "translate": 3, "generate": 1, "score": 1, "explain": 1, "lengths": 1}
    commands = re.findall(rf"^(?:echo \S+ \| )?bytenet ((?:{'|'.join(counts)}) .*)$", readme, flags=re.MULTILINE)
    assert Counter(command.split()[0] for command in commands) == counts
    runs = 0
    for command in commands:
        words = shlex.split(command.partition(" <")[0], comments=True)
        runs += words[0] == "train"  # each into a folder of its own; the first is of a language model
        words = [word.replace("runs/mine", f"runs/mine{runs}") for word in words]
        with (tmp_path / "lines.txt").open() as lines:
            monkeypatch.setattr(sys, "stdin", lines)
            status, _, err = run(*words, *(TINY if words[0] == "train" else []))
        assert status == 0, err


def test_evaluate_prints_numbers_and_their_signature(run, model, tmp_path):
    file = tmp_path / "text.txt"
    file.write_text("zwölf")
    status, out, _ = run("evaluate", str(model), "--bits", str(file), "--json")
    result = json.loads(out)
    assert status == 0
    assert (result["bytes"], result["characters"]) == (6, 5)
    assert result["bits_per_byte"] * 6 == pytest.approx(result["bits_per_character"] * 5)
    assert "context:full" in result["signature"]
    assert "bits_per_character" in run("evaluate", str(model), "--bits", str(file))[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "one of --pairs"),
        (["--bits", "missing.txt"], "missing.txt: No such file"),
        (["--exact", "missing.tsv"], "--exact is for translators"),
        (["--bits", "x", "--chunk", "0"], "--chunk"),
        (["--bits", "x", "--device", "abacus"], "not the name of a device"),
    ],
)
def test_a_wrong_evaluation_is_one_line(run, model, arguments, message):
    status, out, err = run("evaluate", str(model), *arguments)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert message in err


def test_an_interrupted_training_says_how_to_resume(run, monkeypatch, tmp_path):
    from bytenet.training.trainer import Trainer

    step = Trainer._step

    def interrupted(self):
        signal.raise_signal(signal.SIGINT)
        return step(self)

    monkeypatch.setattr(Trainer, "_step", interrupted)
    copy = ["train", str(ROOT / "recipes" / "copy.toml"), "--set", "training.steps=2", "--set", "data.pairs=200"]
    status, _, err = run(*copy, "--out", str(tmp_path / "run"))
    assert status == 130
    command = err.rpartition("resume with: bytenet ")[2].split()
    monkeypatch.undo()
    monkeypatch.setattr(sys, "argv", ["bytenet", *command])
    with pytest.raises(SystemExit) as exit_:
        cli.main()
    assert exit_.value.code == 0


def test_data_names_the_corpora(run):
    status, out, _ = run("data", "list")
    assert status == 0
    for corpus in CORPORA.values():
        assert f"\n{corpus.name} " in f"\n{out}"
        assert all(f" {said}" in out for said in (corpus.description, corpus.licence, corpus.home, corpus.then))
    status, _, err = run("data", "get", "enwik9")
    assert status == 2
    assert "did you mean enwik8?" in err


def test_evaluate_with_learning_and_with_little_context(run, model, tmp_path):
    file = tmp_path / "text.txt"
    file.write_text("hello " * 20)
    status, out, err = run(
        "evaluate",
        str(model),
        "--bits",
        str(file),
        "--json",
        "--dynamic",
        "--dynamic-rate",
        "0.01",
        "--dynamic-segment",
        "6",
    )
    assert status == 0, err
    learning = json.loads(out)
    assert "dynamic:rate 0.01, segments of 6" in learning["signature"]
    fixed = json.loads(run("evaluate", str(model), "--bits", str(file), "--json")[1])
    assert learning["bits_per_byte"] < 0.9 * fixed["bits_per_byte"]
    status, out, err = run("evaluate", str(model), "--bits", str(file), "--json", "--context", "0", "--context", "5")
    assert status == 0, err
    assert list(json.loads(out)["bits_per_symbol"]) == ["0", "5"]
    for wrong in (["--dynamic", "--context", "3"], ["--context", "200"]):
        status, _, err = run("evaluate", str(model), "--bits", str(file), *wrong)
        assert (status, err.count("\n")) == (2, 1)
