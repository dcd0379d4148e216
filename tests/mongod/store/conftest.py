from collections.abc import Iterator
from pathlib import Path

import pytest

from tailrace.mongod.store.store import Store
from tests.mongod.store.opening import opened


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with opened(tmp_path) as store:
        yield store
