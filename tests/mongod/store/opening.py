"""Stores in the folders of tests."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tailrace.mongod.store.store import Store


@contextmanager
def opened(path: Path, **options: Any) -> Iterator[Store]:
    """A store that is open for the duration of a block."""
    store = Store.open(path, **{"map_size": 1 << 30, **options})
    try:
        yield store
    finally:
        store.close()
