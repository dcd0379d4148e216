"""Show how far the copy of a mirror is, on a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tailrace.pipeline.mirror.progress import MirrorProgress


@contextmanager
def copy_progress() -> Iterator[Callable[[MirrorProgress], None]]:
    """Yield a function that shows documents, rate and remaining time, if standard error is a terminal."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda _: None
        return
    # rich is slow to import, and most runs do not need it
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]:,.0f}/s"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("documents", total=None, rate=0.0)

        def show(progress: MirrorProgress) -> None:
            total = max(progress.estimated, progress.documents)
            bar.update(task, completed=progress.documents, total=total, rate=progress.copy_rate)

        yield show
