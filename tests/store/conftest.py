from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.store.opening import opened

from tailrace.store.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with opened(tmp_path) as store:
        yield store
