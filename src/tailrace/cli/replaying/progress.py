"""Show the progress of reading a large input on standard error, and a summary at the end."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias

WORTH_SHOWING: Final = 8 * 1024 * 1024

ShowProgress: TypeAlias = Callable[[int, int], None]
"""Arguments: bytes of the input that were read, oplog entries in them."""


@contextmanager
def progress_bar(total: int, *, beside_terminal_output: bool) -> Iterator[ShowProgress]:
    """Yield a function to report how many of ``total`` bytes and how many entries were read.

    Nothing is shown for a small input, when standard error is no terminal, or when the output is written to
    the same terminal. At the end one line replaces the bar: entries, time and rate.
    """
    no_terminal = sys.stderr is None or not sys.stderr.isatty()
    if total < WORTH_SHOWING or no_terminal or beside_terminal_output:
        yield lambda _done, _entries: None
        return
    # rich is slow to import, and most runs do not need it
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        BarColumn(),
        DownloadColumn(binary_units=True),
        TextColumn("{task.fields[entries]:,} entries"),
        TextColumn("{task.fields[rate]:,}/s"),
        TimeRemainingColumn(),
    )
    began = time.monotonic()
    read = 0
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=total, entries=0, rate=0)

        def show(done: int, entries: int) -> None:
            nonlocal read
            read = entries
            progress.update(task, completed=done, entries=entries, rate=rate_of(entries, began))

        yield show
    sys.stderr.write(f"{summary(read, time.monotonic() - began)}\n")


def rate_of(entries: int, began: float) -> int:
    """Entries per second since a moment of the monotonic clock."""
    return round(entries / max(time.monotonic() - began, 0.001))


def summary(entries: int, seconds: float) -> str:
    """One line about a finished run.

    >>> summary(2_000_000, 12.5)
    '2,000,000 entries in 12.5 s, 160,000 entries/s'
    """
    return f"{entries:,} entries in {seconds:.1f} s, {round(entries / max(seconds, 0.001)):,} entries/s"
