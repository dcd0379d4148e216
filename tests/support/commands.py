"""Log commands: create, change, rename and drop collections, indexes and views.

Each method logs its command and returns whether it did something; an index build is a generator, because
other operations may be logged between its start and its end.
"""

from collections.abc import Iterator
from typing import Any, Final

from bson import Int64

from tailrace.bson import documents as bsondocs
from tailrace.events.entry_bytes import command
from tests.support.deployment import Collection, Deployment, uuid_value
from tests.support.statements import StatementMaker

# One name is a prefix of another, some have special characters of regular expressions.
DATABASES: Final = ("shop", "shopping", "a+b", "s(1)", "Shop")
COLLECTIONS: Final = (
    "orders", "orders.items", "order", "systemx", "system", "a.system.b", "x$y", "köln", "[q]", "Orders",
)  # fmt: skip
VIEWS: Final = ("view1", "view2")
SHARD_KEYS: Final = (("k",), ("k", "_id"), ("loc.zip",), ("b", "k"), ("_id",))


class CommandMaker:
    """Logs commands at random."""

    def __init__(
        self, deployment: Deployment, statements: StatementMaker, *, sharded_keys: bool, images: str
    ) -> None:
        self._deployment = deployment
        self._statements = statements
        self._sharded_keys = sharded_keys
        self._images = images
        self._rng = deployment.rng
        self.databases = self._rng.sample(DATABASES, self._rng.choice((1, 2, 2, 3)))

    # -- collections --------------------------------------------------------------------------------

    def new_collection(self) -> Collection | None:
        """A collection under a free name, not created yet."""
        rng, deployment = self._rng, self._deployment
        database, name = rng.choice(self.databases), rng.choice(COLLECTIONS)
        if not deployment.is_free(f"{database}.{name}"):
            return None
        collection = Collection(database, name, deployment.oplog.new_uuid())
        if self._sharded_keys and rng.random() < 0.4:
            collection.shard_key = rng.choice(SHARD_KEYS)
        self._choose_options(collection)
        return collection

    def _choose_options(self, collection: Collection) -> None:
        rng, options = self._rng, collection.options
        if rng.random() < 0.1:
            options |= {"capped": True, "size": Int64(4096)}
        if self._images == "always" or (self._images == "sometimes" and rng.random() < 0.5):
            collection.records_images = True
            options["changeStreamPreAndPostImages"] = {"enabled": True}
        if rng.random() < 0.15:
            options |= {"validator": {"a": {"$exists": True}}, "validationLevel": "off"}
        if rng.random() < 0.15:
            options["collation"] = {"locale": "fr", "strength": 2}
        elif rng.random() < 0.1:
            options["clusteredIndex"] = {"v": 2, "key": {"_id": 1}, "name": "_id_", "unique": True}

    def create(self) -> bool:
        collection = self.new_collection()
        if collection is None:
            return False
        self._deployment.create(collection)
        return True

    def drop(self, collection: Collection | None = None) -> bool:
        """Drop a given collection, or a random one."""
        chosen = collection or self._settled()
        if chosen is None:
            return False
        operation = command(
            chosen.database,
            {"drop": chosen.name},
            uuid=chosen.uuid,
            o2=_count(chosen),
            is_timeseries=chosen.is_timeseries,
        )
        self._deployment.remove(chosen, self._deployment.oplog.write(operation))
        return True

    def rename(self) -> bool:
        """Rename a collection within its database, sometimes over another one."""
        rng, deployment = self._rng, self._deployment
        source = self._settled()
        if source is None:
            return False
        name = rng.choice([name for name in COLLECTIONS if name != source.name])
        target = deployment.collections.get(f"{source.database}.{name}")
        if f"{source.database}.{name}" in deployment.reserved or (target is not None and target.pins):
            return False
        o: dict[str, Any] = {
            "renameCollection": source.namespace,
            "to": f"{source.database}.{name}",
            "stayTemp": False,
        }
        o2 = None
        if target is not None:
            o["dropTarget"] = uuid_value(target.uuid)
            o2 = _count(target)
        timestamp = deployment.oplog.write(command(source.database, o, uuid=source.uuid, o2=o2))
        if target is not None:
            deployment.remove(target, timestamp)
        deployment.move(source, name, timestamp)
        return True

    def drop_database(self) -> bool:
        """Drop every collection of a database and then the database."""
        rng, deployment = self._rng, self._deployment
        database = rng.choice(self.databases)
        collections = [c for c in deployment.collections.values() if c.database == database]
        if any(collection.pins for collection in collections) or any(
            namespace.startswith(f"{database}.") for namespace in deployment.reserved
        ):
            return False
        for collection in collections:
            self.drop(collection)
        deployment.oplog.write(command(database, {"dropDatabase": 1}, from_migrate=False))
        return True

    def modify(self) -> bool:
        """`collMod`: a validator, an index option, or pre-images on and off."""
        rng, deployment = self._rng, self._deployment
        collection = self._settled()
        if collection is None:
            return False
        before = {"uuid": uuid_value(collection.uuid), **collection.options}
        o: dict[str, Any] = {"collMod": collection.name}
        o2: dict[str, Any] = {"collectionOptions_old": before}
        kind = rng.choice(("validator", "index", "images"))
        if kind == "index" and collection.indexes:
            name = rng.choice(list(collection.indexes))
            o["index"] = {"name": name, "expireAfterSeconds": Int64(rng.randrange(1, 1000))}
            o2["indexOptions_old"] = {"expireAfterSeconds": Int64(50)}
        elif kind == "images" and self._images == "sometimes":
            collection.records_images = not collection.records_images
            option = {"enabled": collection.records_images}
            o["changeStreamPreAndPostImages"] = option
            collection.options.pop("changeStreamPreAndPostImages", None)
            if collection.records_images:
                collection.options["changeStreamPreAndPostImages"] = option
        else:
            o["validator"] = {"a": rng.randrange(9)}
        deployment.oplog.write(command(collection.database, o, uuid=collection.uuid, o2=bsondocs.encode(o2)))
        return True

    # -- indexes ------------------------------------------------------------------------------------

    def create_index(self) -> Iterator[None]:
        """One entry on an empty collection; a build that commits or aborts on one with documents."""
        rng, oplog = self._rng, self._deployment.oplog
        collection = self._settled()
        if collection is None:
            return
        spec = self._index_spec()
        if not collection.documents:
            o = {"createIndexes": collection.name, **spec}
            oplog.write(command(collection.database, o, uuid=collection.uuid))
            collection.indexes[spec["name"]] = spec
            return
        build: dict[str, Any] = {"indexBuildUUID": uuid_value(oplog.new_uuid()), "indexes": [spec]}
        if rng.random() < 0.3:
            build["indexes"] = [spec, {"v": 2, "key": {"z": -1}, "name": "z_-1"}]
        collection.pins += 1
        self._log_build(collection, "startIndexBuild", build)
        yield
        if rng.random() < 0.3:
            cause = {"ok": False, "code": 11000, "codeName": "DuplicateKey", "errmsg": "E11000"}
            self._log_build(collection, "abortIndexBuild", build | {"cause": cause})
        else:
            self._log_build(collection, "commitIndexBuild", build)
            collection.indexes |= {made["name"]: made for made in build["indexes"]}
        collection.pins -= 1

    def _log_build(self, collection: Collection, name: str, build: dict[str, Any]) -> None:
        o = {name: collection.name, **build}
        self._deployment.oplog.write(command(collection.database, o, uuid=collection.uuid))

    def _index_spec(self) -> dict[str, Any]:
        rng = self._rng
        field = rng.choice(("a", "b", "a.b", "naïve"))
        direction = rng.choice((1, -1, 1.0, "text", "hashed"))
        spec: dict[str, Any] = {"v": 2, "key": {field: direction}, "name": f"{field}_{direction}"}
        if rng.random() < 0.3:
            spec["expireAfterSeconds"] = rng.choice((50, Int64(50)))
        return spec

    def drop_index(self) -> bool:
        """Drop an existing index."""
        collection = self._settled()
        if collection is None or not collection.indexes:
            return False
        name = self._rng.choice(list(collection.indexes))
        o = {"dropIndexes": collection.name, "index": name}
        spec = bsondocs.encode(collection.indexes.pop(name))
        self._deployment.oplog.write(command(collection.database, o, uuid=collection.uuid, o2=spec))
        return True

    # -- views --------------------------------------------------------------------------------------

    def change_view(self) -> bool:
        """Create, change or drop a view: a write to the database's `system.views`."""
        rng, deployment = self._rng, self._deployment
        database = rng.choice(self.databases)
        views = self.system_collection(database, "system.views")
        identifier = f"{database}.{rng.choice(VIEWS)}"
        definition: dict[str, Any] = {"_id": identifier, "viewOn": rng.choice(COLLECTIONS)}
        definition["pipeline"] = [{"$match": {"a": rng.randrange(9)}}]
        if rng.random() < 0.2:
            definition["collation"] = {"locale": "de"}
        raw = bsondocs.encode(definition)
        statement = self._statements.inserted(views, raw)
        current = views.documents.get(statement.key)
        if current is not None and rng.random() < 0.5:
            statement = self._statements.delete(views, current)
        elif current is not None:
            statement = self._statements.replaced(views, current, raw)
        deployment.write(statement)
        return True

    def system_collection(self, database: str, name: str) -> Collection:
        """A system collection, created if it is missing."""
        found = self._deployment.collections.get(f"{database}.{name}")
        if found is None:
            found = Collection(database, name, self._deployment.oplog.new_uuid())
            self._deployment.create(found)
        return found

    def _settled(self) -> Collection | None:
        collections = self._deployment.user_collections(settled=True)
        return self._rng.choice(collections) if collections else None


def _count(collection: Collection) -> bytes:
    return bsondocs.encode({"numRecords": Int64(len(collection.documents) + len(collection.orphans))})
