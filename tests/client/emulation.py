"""Replica sets of other versions and sizes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Unpack

from tailrace.testing.in_thread import Options
from tailrace.testing.older_servers import older_servers_accepted
from tailrace.testing.replica_set import ReplicaSet


@contextmanager
def emulated(**options: Unpack[Options]) -> Iterator[ReplicaSet]:
    """A replica set with a `server_version` or several `members`; PyMongo accepts every version."""
    with older_servers_accepted(), ReplicaSet(**options) as replica_set:
        yield replica_set
