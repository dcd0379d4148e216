"""Servers of other versions and sizes, for the tests that need them; skipped while there are none."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tailrace.testing.replica_set import Options, ReplicaSet


@contextmanager
def emulated(**options: Any) -> Iterator[ReplicaSet]:
    """A replica set with options that the server may not know yet, such as `server_version` and `members`."""
    for name in options:
        if name not in Options.__annotations__:
            pytest.skip(f"the server has no option {name} yet")
    with ReplicaSet(**options) as replica_set:
        yield replica_set
