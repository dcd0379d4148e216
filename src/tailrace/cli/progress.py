"""A progress bar on standard error, for people who wait for a large input."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

WORTH_SHOWING: Final = 8 * 1024 * 1024


@contextmanager
def progress_bar(total: int, *, beside_terminal_output: bool) -> Iterator[Callable[[int], None]]:
    """A function to tell how many of ``total`` bytes were read.

    Nothing is shown for a small input, when nobody looks at standard error, or when the output itself runs
    over the same screen.
    """
    nobody_looks = sys.stderr is None or not sys.stderr.isatty()
    if total < WORTH_SHOWING or nobody_looks or beside_terminal_output:
        yield lambda _done: None
        return
    # rich takes a while to import, and most runs do without it
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    columns = (BarColumn(), DownloadColumn(binary_units=True), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=total)
        yield lambda done: progress.update(task, completed=done)
