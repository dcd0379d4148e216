"""Try the statements of a command without effect, to compute in advance what they will need."""

import itertools
from collections.abc import Callable
from time import monotonic
from typing import Final

from tailrace.events.entry_bytes import Operation
from tailrace.mongod.store.catalog import Collection
from tailrace.mongod.store.catalog_rules import CatalogRules
from tailrace.mongod.store.clock import ClusterClock
from tailrace.mongod.store.indexes.duplicate_key import duplicate_key
from tailrace.mongod.store.indexes.index_keys import unique_keys
from tailrace.mongod.store.reader import Reader
from tailrace.mongod.store.store import Store
from tailrace.mongod.store.transactions.overlaid_reader import OverlaidReader
from tailrace.mongod.store.transactions.overlay import Overlay
from tailrace.mongod.store.unit_of_work import UnitOfWork

_NEW: Final = b"\xff" * 8
_HIGHEST_IDENT: Final = 2**31 - 1
_MOST_SECONDS: Final = 0.1
"""How long the work of one job is rehearsed, at least one step of it"""


class RehearsalUnit(OverlaidReader, UnitOfWork):
    """A state with changes that only it shows; there are no locks, and nothing is logged."""

    def __init__(
        self, store: Store, reader: Reader, spend: Callable[[int], None], *, in_transaction: bool
    ) -> None:
        """``spend`` is called with the size of each change, and may raise."""
        super().__init__(reader)
        self._store = store
        self._spend = spend
        self.in_transaction = in_transaction
        self.wall = store.clock.wall.milliseconds()
        self._numbers = itertools.count(1)
        self._idents = itertools.count(_HIGHEST_IDENT, -1)
        self._end = monotonic() + _MOST_SECONDS
        self.steps = 0
        """How often a step of the work has ended"""

    @property
    def clock(self) -> ClusterClock:
        return self._store.clock

    @property
    def rules(self) -> CatalogRules:
        return self._store.rules

    def is_due(self) -> bool:
        self.steps += 1
        return not self.in_transaction and monotonic() >= self._end

    @staticmethod
    def is_new(key: bytes) -> bool:
        """Whether a record key is one that a real unit will not assign."""
        return key.startswith(_NEW)

    def insert(self, collection: Collection, document: bytes, *, stmt_id: int | None = None) -> bytes:  # noqa: ARG002
        by_id = collection.id_key(document)
        if collection.is_clustered and by_id is not None:
            key = by_id
        else:
            key = _NEW + next(self._numbers).to_bytes(8, "big")
        self._put(collection, key, None, document)
        return key

    def update(
        self,
        collection: Collection,
        key: bytes,
        before: bytes,
        after: bytes,
        o: bytes,  # noqa: ARG002
        *,
        stmt_id: int | None = None,  # noqa: ARG002
        retry_image: str | None = None,  # noqa: ARG002
    ) -> None:
        self._put(collection, key, before, after)

    def delete(
        self,
        collection: Collection,
        key: bytes,
        before: bytes,
        *,
        stmt_id: int | None = None,  # noqa: ARG002
        retry_image: str | None = None,  # noqa: ARG002
        grouped: bool = False,  # noqa: ARG002
    ) -> None:
        self._put(collection, key, before, None)

    def _put(self, collection: Collection, key: bytes, before: bytes | None, after: bytes | None) -> None:
        self._spend(len(after or b""))
        overlay = self._overlays.get(collection.ident)
        if overlay is None:
            overlay = self._overlays[collection.ident] = Overlay(collection)
        if after is not None:
            for index, index_key in unique_keys(collection.indexes, after):
                # Only against its own changes: all others are for the real unit to check.
                if overlay.record_key(index, index_key) not in (None, key):
                    raise duplicate_key(collection, index.spec, after, index_key)
        overlay.put(key, before, after)

    def new_ident(self) -> int:
        return next(self._idents)

    def put_collection(self, collection: Collection) -> None:
        self._catalog = self._catalog.with_collection(collection)

    def log(self, operation: Operation) -> None:
        """Nothing is logged."""
