"""The command line as a user meets it: results on stdout, a mistake as one line on stderr with exit code 2."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bytenet import Bytes, LanguageModel, LanguageModelConfig, __version__, cli, save_model
from bytenet.model.blocks import StackConfig

ROOT = Path(__file__).parent.parent
RECIPE = str(ROOT / "recipes" / "enwik8-paper.toml")


@pytest.fixture
def run(monkeypatch, capsys):
    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["bytenet", *arguments])
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        captured = capsys.readouterr()
        return int(exit_.value.code or 0), captured.out, captured.err

    return run


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
