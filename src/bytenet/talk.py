"""Words to the user, on stderr: results alone go to stdout."""

import contextlib
import time
from collections.abc import Iterator

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Column

LINE_SECONDS = 10.0  # between two lines of talk where there is no terminal


class Talk:
    """A bar on a terminal, else a line now and then."""

    def __init__(self, *, quiet: bool) -> None:
        self.console = Console(stderr=True, quiet=quiet, highlight=False, soft_wrap=True)
        self.progress: Progress | None = None
        self.last_line = time.monotonic()

    def say(self, line: str) -> None:
        self.console.print(line, markup=False)

    @contextlib.contextmanager
    def bar(self, what: str, total: float | None, *, hidden: bool = False) -> Iterator[None]:
        # the state last: on a narrow terminal, its end is what is cut
        columns = (TextColumn(what), BarColumn(bar_width=8), TaskProgressColumn(), TimeRemainingColumn(compact=True))
        on_terminal = self.console.is_terminal and not self.console.quiet and not hidden
        state = TextColumn("{task.fields[state]}", table_column=Column(ratio=1, no_wrap=True))
        # stdout is for results and may be a file: what is printed there is none of the bar's business
        with Progress(
            *columns, state, console=self.console, disable=not on_terminal, expand=True, redirect_stdout=False
        ) as progress:
            progress.add_task(what, total=total, state="")
            self.progress = progress if on_terminal else None
            yield
            self.progress = None

    def update(self, done: float, state: str) -> None:
        """Move the bar and show a state; without a terminal, say it if the last one was some time ago."""
        if self.progress is not None:
            self.progress.update(self.progress.task_ids[0], completed=done, state=state)
        elif time.monotonic() - self.last_line > LINE_SECONDS:
            self.last_line = time.monotonic()
            self.say(state)

    def count(self, done: int, total: int | None, what: str) -> None:
        """So many of so many things are done."""
        if self.progress is not None and total is not None:
            self.progress.update(self.progress.task_ids[0], total=total)
        self.update(done, f"{what} done: {done:,} of {total:,}" if total else f"{what} done: {done:,}")
