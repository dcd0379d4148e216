"""Files that only the user of this process can read."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_FOR_ME_ALONE: Final = 0o077


@contextmanager
def private_files() -> Iterator[None]:
    """Create files and folders without rights for others, child processes included, until the block ends.

    What exists keeps its rights.
    """
    before = os.umask(_FOR_ME_ALONE)
    try:
        yield
    finally:
        os.umask(before)
