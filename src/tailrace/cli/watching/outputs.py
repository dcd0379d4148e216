"""Where `tailrace watch` puts events; an output knows whether what it took is safe."""

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Protocol

from bson.raw_bson import RawBSONDocument

from tailrace.bson.extjson import dumps_canonical
from tailrace.cli.failures import STANDARD_OUTPUT, writing_to
from tailrace.cli.output import print_line
from tailrace.errors import TailraceError, missing_package


class CommandFailedError(TailraceError):
    """The command of `--exec` failed; its event counts as not handled."""


class Output(Protocol):
    def take(self, event: RawBSONDocument) -> None: ...

    def pause(self) -> None:
        """There are no further events now."""

    def secure(self) -> bool:
        """Return whether all events that were taken survive a crash; if not, the position is not stored."""

    def close(self) -> None:
        """Finish; after it everything is safe."""


class PrintedEvents:
    """Lines on standard output, flushed before the stream waits for more."""

    def __init__(self, form: Callable[[str], str]) -> None:
        self._form = form

    def take(self, event: RawBSONDocument) -> None:
        print_line(self._form(dumps_canonical(bytes(event.raw))))

    def pause(self) -> None:
        with writing_to(STANDARD_OUTPUT):
            sys.stdout.flush()

    def secure(self) -> bool:
        """Flush: what is printed is out of our hands."""
        self.pause()
        return True

    def close(self) -> None:
        """Nothing is left to do."""


class CommandForEach:
    """A shell command for each event, which gets the event on its standard input."""

    def __init__(self, command: str, form: Callable[[str], str]) -> None:
        self._command = command
        self._form = form

    def take(self, event: RawBSONDocument) -> None:
        """Run the command; raise `CommandFailedError` if its exit code is not 0."""
        text = self._form(dumps_canonical(bytes(event.raw)))
        done = subprocess.run(["sh", "-c", self._command], input=f"{text}\n".encode(), check=False)
        if done.returncode:
            raise CommandFailedError(
                f"the command of --exec ended with exit code {done.returncode}; with a "
                "--token-file the event is repeated"
            )

    def pause(self) -> None:
        """Nothing is buffered."""

    def secure(self) -> bool:
        return True

    def close(self) -> None:
        """Nothing is left to do."""


def parquet_output(place: str) -> Callable[[], Output]:
    """What opens the output of `--into`: one file, or a folder of files."""
    try:
        from tailrace.cli.watching.parquet import ParquetFile, ParquetFolder
    except ImportError as error:
        raise missing_package("--into", error) from None
    path = Path(place)
    if path.suffix == ".parquet" and not path.is_dir():
        return partial(ParquetFile, path)
    return partial(ParquetFolder, path)
