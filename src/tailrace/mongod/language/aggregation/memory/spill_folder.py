"""The folder for rows that do not fit into memory.

Its files belong to running commands and open cursors. Each is removed by what has made it; a server removes
those of a process that was killed when it starts.
"""

import itertools
import os
import secrets
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

NAME: Final = "_tmp"
"""The folder's name in a data directory, as in MongoDB's."""


class SpillFolder:
    """Makes names for files; the folder is created for the first of them."""

    def __init__(self, path: Path | None = None) -> None:
        """Without a path, a temporary folder that exists until `close`."""
        self._given = path
        self._path: Path | None = None
        self._names = itertools.count()
        self._prefix = secrets.token_hex(4)
        """Several members of a set share a data directory."""

    def new_file(self) -> Path:
        """The path of a file that does not exist yet."""
        path = self._path
        if path is None:
            if self._given is None:
                path = Path(tempfile.mkdtemp(prefix="tailrace-spill-"))
            else:
                path = self._given
                path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._path = path
        return path / f"spill-{self._prefix}-{next(self._names)}"

    def close(self) -> None:
        """Remove the folder, if it is empty or temporary."""
        path, self._path = self._path, None
        if path is None:
            return
        if self._given is None:
            shutil.rmtree(path, ignore_errors=True)
        else:
            with suppress(OSError):
                os.rmdir(path)

    def __del__(self) -> None:
        self.close()


def remove_leftovers(data_directory: Path) -> None:
    """Remove the files of a server that was killed; call it when no server uses the directory."""
    shutil.rmtree(data_directory / NAME, ignore_errors=True)
