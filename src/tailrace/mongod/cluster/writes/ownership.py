"""Which documents a shard owns; a router sends this with each command."""

from collections.abc import Callable, Mapping
from typing import Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.cluster.placement.state import TrackedCollection
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.store.catalog import Collection

_OTHER_OWNER: Final = "the document would belong to another shard"


class ShardOwnership:
    """The ranges of one shard; see `tailrace.mongod.server.dispatch.ownership`."""

    __slots__ = ("_collections", "_shard")

    def __init__(self, collections: Mapping[str, TrackedCollection], shard: str) -> None:
        self._collections = collections
        self._shard = shard

    def filter(self, collection: Collection) -> Callable[[bytes], bool] | None:
        sharded, shard = self._of(collection), self._shard
        if sharded is None or not sharded.may_have_orphans:
            return None
        return lambda document: sharded.owner_of(document) == shard

    def check_upsert(self, collection: Collection, document: bytes) -> None:
        sharded = self._of(collection)
        if sharded is not None and sharded.owner_of(document) != self._shard:
            raise CommandError(ErrorCode.WouldChangeOwningShard, _OTHER_OWNER)

    def check_update(
        self, context: Context, collection: Collection, before: bytes, after: bytes, *, multi: bool
    ) -> None:
        sharded = self._of(collection)
        if sharded is not None:
            self.check_change(context, sharded, before, after, multi=multi)

    def check_change(
        self, context: Context, sharded: TrackedCollection, before: bytes, after: bytes, *, multi: bool
    ) -> None:
        """Like `check_update`, for a collection whose placement is known."""
        try:
            key = sharded.key.key_of(after)
        except CommandError as error:
            raise CommandError(ErrorCode.NotSingleValueField, f"the update fails: {error.message}") from None
        if key == sharded.key.key_of(before):
            return
        if multi:
            raise CommandError(
                ErrorCode.InvalidOptions, "an update of many documents cannot change their shard key"
            )
        if context.txn_number is None:
            raise CommandError(
                ErrorCode.IllegalOperation,
                "a shard key can only be changed in a transaction or by a retryable write; "
                "use a session with retryWrites=true",
            )
        if sharded.chunks.owner_of(key) != self._shard:
            raise CommandError(ErrorCode.WouldChangeOwningShard, _OTHER_OWNER)

    def _of(self, collection: Collection) -> TrackedCollection | None:
        found = self._collections.get(collection.ns)
        return None if found is None or found.is_unsplittable or found.uuid != collection.uuid else found
