"""The command line: parse, call, print.

Results go to stdout, talk to stderr; a user's mistake is one line and exit code 2.
"""

import io
import os
import sys
from typing import Annotated

import typer

from bytenet import __version__
from bytenet.cli import comparing, explaining, lengths, measuring, serving, training, writing

app = typer.Typer(
    help="Sequence models that read and write characters in linear time.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    writing.translate, writing.generate, writing.score,
    measuring.evaluate, measuring.describe,
    lengths.lengths, comparing.compare,
    training.train, training.pack,
    explaining.explain, serving.serve,
):  # fmt: skip
    app.command()(command)
app.add_typer(training.data_app, name="data")


def main() -> None:
    """Run the command; `BYTENET_TRACEBACK=1` shows where in the code a mistake was noticed."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # lone surrogates, which a model of bytes may write
    try:
        # not app(): that takes a closed pipe for a failure
        command = typer.main.get_command(app)
        with command.make_context("bytenet", sys.argv[1:]) as context:
            command.invoke(context)
        sys.stdout.flush()
    except typer.Exit as leave:
        sys.exit(leave.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(130)
    except BrokenPipeError:  # the reader of a pipe has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:
        message = _mistake(error)
        if message is None or os.environ.get("BYTENET_TRACEBACK"):
            raise
        print(f"bytenet: {message}", file=sys.stderr)
        sys.exit(2)
    sys.exit(0)


def _mistake(error: Exception) -> str | None:
    """One line about a user's mistake; None for a fault of the program."""
    if hasattr(error, "format_message"):  # what the command line's parser raises
        hint = getattr(getattr(error, "ctx", None), "command_path", "bytenet")
        return f"{error.format_message().rstrip('.')} (see {hint} --help)"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, ValueError | OSError | FloatingPointError):
        return " ".join(str(error).split())
    return None


@app.callback(invoke_without_command=True)
def version(
    context: typer.Context,
    show: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False,
) -> None:
    if show:
        print(f"bytenet {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())
