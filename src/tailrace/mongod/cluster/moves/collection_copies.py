"""Create a collection on a further shard: the same name, UUID, options and indexes, without the documents.

The shard logs it as part of a migration, so that streams do not show a second creation.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from tailrace.events.entry_bytes import command
from tailrace.mongod.store.catalog import Collection, Index
from tailrace.mongod.store.ddl.drop import drop_collection
from tailrace.mongod.store.store import Store
from tailrace.mongod.store.write_unit import WriteUnit


async def copy_collection(store: Store, original: Collection) -> None:
    """Give a shard that owns nothing of a collection the same definition as another shard.

    A collection with the same name and another definition is left over from an earlier move, and is removed.
    """

    def work(unit: WriteUnit) -> None:
        known = unit.catalog.collection(original.ns)
        if known is not None:
            if is_same_definition(known, original):
                return
            remove_copy(unit, known.uuid)
        _make(unit, original)

    await store.write(work)


def remove_copy(unit: WriteUnit, uuid: bytes) -> None:
    """Remove a shard's copy of a collection without an event in streams; part of a job."""
    collection = unit.catalog.by_uuid(uuid)
    if collection is not None:
        drop_collection(unit, collection, from_migrate=True)


def _make(unit: WriteUnit, original: Collection) -> None:
    indexes = tuple(Index(unit.new_ident(), index.spec) for index in original.indexes)
    copy = original.with_changes(ident=unit.new_ident(), indexes=indexes)
    unit.put_collection(copy)
    o: dict[str, Any] = {"create": copy.name, **copy.options}
    id_index = copy.id_index
    if id_index is not None:
        o["idIndex"] = dict(id_index.spec)
    unit.log(command(copy.database, o, uuid=copy.uuid, from_migrate=True))
    for index in indexes:
        if not index.is_id:
            o = {"createIndexes": copy.name, **index.spec}
            unit.log(command(copy.database, o, uuid=copy.uuid, from_migrate=True))


def is_same_definition(one: Collection, other: Collection) -> bool:
    """Whether two shards have the same definition of a collection."""
    return (
        one.uuid == other.uuid
        and dict(one.options) == dict(other.options)
        and one.shard_key == other.shard_key
        and _specs(one.indexes) == _specs(other.indexes)
    )


def _specs(indexes: Iterable[Index]) -> dict[str, Mapping[str, Any]]:
    return {index.name: dict(index.spec) for index in indexes}
