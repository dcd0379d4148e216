"""Log what a deployment does in the background: no-ops, chunk migrations, resharding, buckets.

Most of it must stay invisible to an ordinary stream. A migrated document is an orphan here: it belongs to
another shard, is inserted and deleted with `fromMigrate`, and no user operation touches it.
"""

from typing import Any, Final

from bson import Int64

from tailrace.bson import documents as bsondocs
from tailrace.events.cluster_time import to_timestamp
from tailrace.events.entry_bytes import Operation, command
from tests.support.commands import CommandMaker
from tests.support.deployment import Collection, Deployment, uuid_value
from tests.support.statements import StatementMaker

INTERNAL_NAMESPACES: Final = (
    ("config", "transactions"), ("admin", "things"), ("local", "replset.x"),
)  # fmt: skip
METRICS: Final = "metrics"
"""The name of every timeseries collection, so that tests can recognise them."""


class BackgroundMaker:
    """Logs background operations at random."""

    def __init__(self, deployment: Deployment, statements: StatementMaker, commands: CommandMaker) -> None:
        self._deployment = deployment
        self._statements = statements
        self._commands = commands
        self._rng = deployment.rng

    # -- no-ops -------------------------------------------------------------------------------------

    def begin(self) -> None:
        """The two entries every oplog starts with."""
        self._note({"msg": "initiating set"})
        self._note({"msg": "new primary"})

    def no_op(self) -> bool:
        """A no-op that no stream shows."""
        kind = self._rng.randrange(5)
        if kind == 0:
            self._note({"note": "from a client", "n": 1})
        elif kind == 1:
            self._note({"$sessionMigrateInfo": 1}, o2={"op": "i", "o": {"_id": 1}})
        elif kind == 2:
            self._deployment.oplog.write(Operation("ci", "admin.$container", bsondocs.encode({"k": b"1"})))
        else:
            self._note({"msg": "periodic noop"})
        return True

    def election(self) -> bool:
        """A new term."""
        self._deployment.oplog.term += 1
        self._note({"msg": "new primary"})
        return True

    def unmatched_command(self) -> bool:
        """A command that no stream ever shows."""
        database = self._rng.choice(self._commands.databases)
        o = self._rng.choice(
            (
                {"dbCheck": f"{database}.orders", "type": "batch"},
                {"setMultikeyMetadata": "a_1"},
                {"createDatabaseMetadata": {"_id": database}},
                {"importCollection": f"{database}.orders", "dryRun": False},
            )
        )
        self._deployment.oplog.write(command(database, o))
        return True

    def sharding_notice(self) -> bool:
        """A no-op with a payload about a collection's placement; some of them are events."""
        rng = self._rng
        collections = self._deployment.user_collections()
        if not collections:
            return False
        collection = rng.choice(collections)
        namespace, key = collection.namespace, {"k": 1}
        payloads: tuple[dict[str, Any], ...] = (
            {
                "shardCollection": namespace, "shardKey": key, "unique": False,
                "presplitHashedZones": False, "capped": False, "numInitialChunks": Int64(2),
            },
            {"refineCollectionShardKey": namespace, "shardKey": {"k": 1, "z": 1}, "oldShardKey": key},
            {"migrateLastChunkFromShard": namespace, "shardId": "shard1"},
            {"migrateChunkToNewShard": namespace, "fromShardId": "shard1", "toShardId": "shard2"},
            {
                "moveChunk": namespace, "donor": "shard1", "recipient": "shard2",
                "allCollectionChunksMigratedFromDonor": True,
            },
            {
                "namespacePlacementChanged": 1, "ns": {"db": collection.database, "coll": collection.name},
                "committedAt": to_timestamp(self._deployment.oplog.now),
            },
        )  # fmt: skip
        self._notice(collection, rng.choice(payloads))
        return True

    def _notice(self, collection: Collection, payload: dict[str, Any], **fields: Any) -> None:
        o = bsondocs.encode({"msg": {next(iter(payload)): collection.namespace}})
        o2 = bsondocs.encode(payload)
        operation = Operation("n", collection.namespace, o, collection.uuid, o2, **fields)
        self._deployment.oplog.write(operation)

    def _note(self, o: dict[str, Any], o2: dict[str, Any] | None = None) -> None:
        encoded = None if o2 is None else bsondocs.encode(o2)
        self._deployment.oplog.write(Operation("n", "", bsondocs.encode(o), o2=encoded))

    # -- chunk migration ----------------------------------------------------------------------------

    def migrate(self) -> bool:
        """A document of another shard is copied here, or deleted."""
        rng, deployment = self._rng, self._deployment
        collections = deployment.user_collections()
        if not collections:
            return False
        collection = rng.choice(collections)
        orphans = [key for key in collection.orphans if key not in collection.locked]
        if orphans and rng.random() < 0.5:
            raw = collection.orphans[rng.choice(orphans)]
            deployment.write(self._statements.delete(collection, raw, migrated=True))
            return True
        statement = self._statements.insert(collection, migrated=True)
        if statement is None:
            return False
        deployment.write(statement)
        return True

    def clone_collection(self) -> bool:
        """A shard gets its first chunk: collection and index are created with `fromMigrate`."""
        collection = self._commands.new_collection()
        if collection is None:
            return False
        self._deployment.create(collection, from_migrate=True)
        o = {"createIndexes": collection.name, "v": 2, "key": {"a": 1}, "name": "a_1"}
        operation = command(collection.database, o, uuid=collection.uuid, from_migrate=True)
        self._deployment.oplog.write(operation)
        return True

    def reshard(self) -> bool:
        """Copy a collection to a new one with another shard key, which replaces it."""
        rng, deployment = self._rng, self._deployment
        settled = deployment.user_collections(settled=True)
        if not settled:
            return False
        old = rng.choice(settled)
        new_uuid, operation_uuid = deployment.oplog.new_uuid(), deployment.oplog.new_uuid()
        resharding = {"reshardingUUID": uuid_value(operation_uuid)}
        self._notice(old, {"reshardBegin": old.namespace, **resharding}, from_migrate=True)
        temporary = Collection(old.database, f"system.resharding.{new_uuid.hex()}", new_uuid)
        deployment.create(temporary, from_migrate=True)
        for raw in old.documents.values():
            deployment.write(self._statements.inserted(temporary, raw, migrated=True))
        final = {"reshardBlockingWrites": old.namespace, **resharding, "type": "reshardFinalOp"}
        self._notice(old, final, destined_recipient="shard1")
        self._notice(temporary, {"reshardDoneCatchUp": temporary.namespace, **resharding}, from_migrate=True)
        self._replace_by(old, temporary)
        payload = {
            "reshardCollection": old.namespace, "reshardUUID": uuid_value(new_uuid), "shardKey": {"_id": 1},
            "oldShardKey": {"k": 1}, "unique": False,
        }  # fmt: skip
        self._notice(old, payload)
        old.uuid, old.shard_key = new_uuid, ()
        return True

    def _replace_by(self, old: Collection, temporary: Collection) -> None:
        """The hidden rename at the end: same name, same documents, without the orphans."""
        deployment = self._deployment
        o = {
            "renameCollection": temporary.namespace,
            "to": old.namespace,
            "stayTemp": False,
            "dropTarget": uuid_value(old.uuid),
        }
        o2 = bsondocs.encode({"numRecords": Int64(len(old.documents))})
        operation = command(old.database, o, uuid=temporary.uuid, o2=o2, from_migrate=True)
        timestamp = deployment.oplog.write(operation)
        deployment.remove(temporary, timestamp)
        kept, old.documents = old.documents, {}
        deployment.remove(old, timestamp)  # journals only the orphans: the documents remain
        old.documents, old.orphans = kept, {}
        deployment.collections[old.namespace] = old

    # -- system collections ---------------------------------------------------------------------------

    def internal_write(self) -> bool:
        """A write to `admin`, `config`, `local`, or to a system collection."""
        rng = self._rng
        if rng.random() < 0.4:
            database, name = rng.choice(INTERNAL_NAMESPACES)
        else:
            database = rng.choice(self._commands.databases)
            name = rng.choice(("system.js", "system.profile", "system.users"))
        collection = self._commands.system_collection(database, name)
        return self._write_any(collection)

    def timeseries(self) -> bool:
        """Create, write to, or convert a timeseries collection, view-backed or viewless."""
        rng, deployment = self._rng, self._deployment
        database = rng.choice(self._commands.databases)
        viewless = deployment.collections.get(f"{database}.{METRICS}")
        buckets = deployment.collections.get(f"{database}.system.buckets.{METRICS}")
        current = viewless or buckets
        if current is None:
            collection = Collection(database, METRICS, deployment.oplog.new_uuid(), is_timeseries=True)
            if rng.random() < 0.5:
                collection.name, collection.is_timeseries = f"system.buckets.{METRICS}", False
            collection.options = {"clusteredIndex": True, "timeseries": {"timeField": "t"}}
            deployment.create(collection)
            return True
        if current.pins or rng.random() < 0.8:
            return self._write_any(current)
        is_upgrade = viewless is None
        o = {"upgradeDowngradeViewlessTimeseries": METRICS, "isUpgrade": is_upgrade}
        timestamp = deployment.oplog.write(command(database, o, uuid=current.uuid))
        deployment.move(current, METRICS if is_upgrade else f"system.buckets.{METRICS}", timestamp)
        current.is_timeseries = is_upgrade
        return True

    def _write_any(self, collection: Collection) -> bool:
        free = collection.free_keys()
        if free and self._rng.random() < 0.3:
            raw = collection.documents[self._rng.choice(free)]
            statement = self._statements.update(collection, raw)
        else:
            statement = self._statements.insert(collection)
        if statement is not None:
            self._deployment.write(statement)
        return statement is not None
