"""The catalog: collections, indexes and views as immutable values.

A `Catalog` belongs to a state of the store. Readers use the one of their snapshot; a writer builds a new one,
which others see once it is committed.
"""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final

from tailrace.bson import documents
from tailrace.mongod.store.indexes.id_keys import document_key, id_key_of, sharded_document_key
from tailrace.mongod.store.tables import pack_ident
from tailrace.mongod.store.transactions.locks import wait_until
from tailrace.query.collation import Collation

ID_INDEX_NAME: Final = "_id_"
ID_INDEX_VERSION: Final = 2
ID_INDEX: Final[Mapping[str, Any]] = {"v": ID_INDEX_VERSION, "key": {"_id": 1}, "name": ID_INDEX_NAME}
OPLOG_NS: Final = "local.oplog.rs"
PRE_IMAGES_NS: Final = "config.system.preimages"
SESSIONS_NS: Final = "config.transactions"
IMAGES_NS: Final = "config.image_collection"
VIEWS: Final = "system.views"
PROFILE: Final = "system.profile"
TEMPORARY_OUTPUT: Final = "tmp.agg_out."
"""Prefix of the collections that `$out` writes to before they get their name"""
BUCKETS: Final = "system.buckets."
"""Prefix of the collection with the buckets of a time series, which clients use by the name without it"""


def id_index_spec(options: Mapping[str, Any]) -> dict[str, Any]:
    """The specification of the index on `_id` of a collection with these options."""
    collation = options.get("collation")
    return dict(ID_INDEX) if collation is None else {**ID_INDEX, "collation": collation}


@dataclass(frozen=True, slots=True, eq=False)
class Index:
    """An index; ``spec`` is what listIndexes shows."""

    ident: int
    spec: Mapping[str, Any]
    changed: int = 0
    """A number that is higher the later `collMod` changed it; 0 if it never did"""
    prefix: bytes = field(init=False)
    name: str = field(init=False)
    key: tuple[tuple[str, Any], ...] = field(init=False)
    """Paths and directions: 1, -1, or the name of a special kind"""
    unique: bool = field(init=False)
    allows_duplicates: bool = field(init=False)
    """Whether two documents may have the same key; False for `prepareUnique`, too"""

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "prefix", pack_ident(self.ident))
        put(self, "name", self.spec["name"])
        put(self, "key", tuple(self.spec["key"].items()))
        put(self, "unique", bool(self.spec.get("unique")) or self.spec["name"] == ID_INDEX_NAME)
        put(self, "allows_duplicates", not self.unique and not self.spec.get("prepareUnique"))

    @property
    def is_id(self) -> bool:
        return self.name == ID_INDEX_NAME

    @property
    def collation(self) -> Collation | None:
        return _collation_in(self) if "collation" in self.spec else None


# Both are immutable, so a cached collation never becomes stale.
@lru_cache(maxsize=4096)
def _collation_in(described: "Index | Collection") -> Collation | None:
    fields = described.spec if isinstance(described, Index) else described.options
    return Collation.parse(fields["collation"])


@dataclass(frozen=True, slots=True, eq=False)
class IndexBuild:
    """Indexes that are being built: writes keep them right, and nobody reads them."""

    uuid: bytes
    indexes: tuple[Index, ...]
    unclear: set[bytes] = field(default_factory=set)
    """Keys of records to look at again at the end: another one has the same key in a unique index, or they
    cannot be indexed. Only while the server runs that builds them."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def wait_ended(self, deadline: float | None) -> None:
        """Return when the build has ended; raise MaxTimeMSExpired past the deadline."""
        await wait_until(self.ended, deadline)


@dataclass(frozen=True, slots=True, eq=False)
class Collection:
    """A collection; ``options`` are those of `create`, in catalog order and without the UUID."""

    database: str
    name: str
    uuid: bytes
    ident: int
    options: Mapping[str, Any]
    indexes: tuple[Index, ...]
    table: str = "records"
    """The table of its documents; each of the server's own collections has its own table"""
    shard_key: tuple[str, ...] = ()
    """On a shard, the paths of its shard key, which document keys begin with; clients do not see them here"""
    is_raw: bool = False
    """Whether the documents of a time series are its buckets, because it was called by their name"""
    build: IndexBuild | None = None
    ns: str = field(init=False)
    prefix: bytes = field(init=False)
    """The prefix of its record keys in the table"""
    is_logged: bool = field(init=False)
    """Whether its changes are logged; those of the database `local` are not"""
    records_images: bool = field(init=False)
    is_capped: bool = field(init=False)
    is_clustered: bool = field(init=False)
    is_timeseries: bool = field(init=False)

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "ns", f"{self.database}.{self.name}")
        put(self, "prefix", pack_ident(self.ident) if self.table == "records" else b"")
        put(self, "is_logged", self.database != "local" and self.name != PROFILE)
        images = self.options.get("changeStreamPreAndPostImages")
        put(self, "records_images", bool(images and images.get("enabled")))
        put(self, "is_capped", bool(self.options.get("capped")))
        put(self, "is_clustered", bool(self.options.get("clusteredIndex")))
        put(self, "is_timeseries", "timeseries" in self.options and not self.is_raw)

    @property
    def collation(self) -> Collation | None:
        """The default collation, by which it compares the `_id`s of its documents, too."""
        return _collation_in(self) if "collation" in self.options else None

    def id_key(self, document: bytes) -> bytes | None:
        """The key by which a document, or that of a document key, is found; None without an `_id`."""
        return id_key_of(document, self.collation)

    @property
    def id_index(self) -> Index | None:
        """The index on `_id`; None for clustered collections, and for those without such an index."""
        return self.indexes[0] if self.indexes and self.indexes[0].is_id else None

    @property
    def secondary_indexes(self) -> list[Index]:
        """The indexes other than that on `_id`, in the order in which they were created or last changed."""
        found = [index for index in self.indexes if not index.is_id]
        return sorted(found, key=lambda index: max(index.ident, index.changed))

    @property
    def is_internal(self) -> bool:
        """Whether it is one of the server's own collections, which clients cannot write to."""
        return self.table != "records"

    @property
    def shown_name(self) -> str:
        """The name that clients use."""
        return self.name.removeprefix(BUCKETS) if self.is_timeseries else self.name

    def index(self, name: str) -> Index | None:
        """The index of that name, or None."""
        return next((index for index in self.indexes if index.name == name), None)

    def document_key(self, document: bytes) -> bytes:
        """The key of a document in the oplog: the fields of the shard key, if there is one, and `_id`."""
        paths = self.shard_key
        return sharded_document_key(document, paths) if paths else document_key(document)

    def with_changes(self, **changes: Any) -> "Collection":
        """A copy with other values for some attributes."""
        return replace(self, **changes)

    def to_bson(self) -> bytes:
        """The document in the table `catalog`."""
        entry: dict[str, Any] = {
            "db": self.database,
            "coll": self.name,
            "uuid": self.uuid,
            "ident": self.ident,
            "options": dict(self.options),
            "indexes": [
                {"ident": index.ident, "spec": dict(index.spec), "changed": index.changed}
                for index in self.indexes
            ],
            "table": self.table,
        }
        if self.shard_key:
            entry["shardKey"] = list(self.shard_key)
        if self.build is not None:
            built = [{"ident": index.ident, "spec": dict(index.spec)} for index in self.build.indexes]
            entry["build"] = {"uuid": self.build.uuid, "indexes": built}
        return documents.encode(entry)

    @classmethod
    def from_bson(cls, raw: bytes) -> "Collection":
        """The collection of a catalog document."""
        found = documents.decode(raw)
        indexes = tuple(
            Index(index["ident"], index["spec"], index.get("changed", 0)) for index in found["indexes"]
        )
        build = None
        if "build" in found:
            built = tuple(Index(index["ident"], index["spec"]) for index in found["build"]["indexes"])
            build = IndexBuild(bytes(found["build"]["uuid"]), built)
        return cls(
            found["db"],
            found["coll"],
            bytes(found["uuid"]),
            found["ident"],
            found["options"],
            indexes,
            found["table"],
            tuple(found.get("shardKey", ())),
            build=build,
        )


@dataclass(frozen=True, slots=True)
class View:
    """A stored pipeline on another collection or view."""

    database: str
    name: str
    view_on: str
    pipeline: tuple[Mapping[str, Any], ...]
    collation: Mapping[str, Any] | None = None

    @property
    def ns(self) -> str:
        return f"{self.database}.{self.name}"


class Catalog:
    """All collections and views by namespace."""

    __slots__ = ("_by_uuid", "_collections", "_named", "_opened", "_views")

    def __init__(
        self,
        collections: Mapping[str, Collection] | None = None,
        views: Mapping[str, View] | None = None,
        opened: frozenset[str] = frozenset(),
    ) -> None:
        self._collections = dict(collections or {})
        self._views = dict(views or {})
        self._opened = opened
        self._named = self._collections
        series = [
            own for own in self._collections.values() if own.name.startswith(BUCKETS) and own.is_timeseries
        ]
        if series:
            self._named = dict(self._collections)
            for own in series:
                self._named[own.ns] = own.with_changes(is_raw=True)
                self._named[f"{own.database}.{own.shown_name}"] = own
        self._by_uuid = {own.uuid: self._named[own.ns] for own in self._collections.values()}

    def share(self, other: "Catalog") -> None:
        """Take over the contents of another catalog; for subclasses that check what is looked up."""
        for name in Catalog.__slots__:
            setattr(self, name, getattr(other, name))

    def collection(self, ns: str) -> Collection | None:
        """The collection that clients call so; a time series has two names, of itself and of its buckets."""
        return self._named.get(ns)

    def by_uuid(self, uuid: bytes) -> Collection | None:
        return self._by_uuid.get(uuid)

    def view(self, ns: str) -> View | None:
        return self._views.get(ns)

    def collections(self, database: str | None = None) -> Iterator[Collection]:
        """The collections of one database or of all, sorted by namespace."""
        for ns in sorted(self._collections):
            collection = self._collections[ns]
            if database is None or collection.database == database:
                yield collection

    def views(self, database: str | None = None) -> Iterator[View]:
        """The views of one database or of all, sorted by namespace."""
        for ns in sorted(self._views):
            view = self._views[ns]
            if database is None or view.database == database:
                yield view

    def databases(self) -> list[str]:
        """The names of databases that have collections, sorted."""
        return sorted({collection.database for collection in self._collections.values()})

    def has_opened(self, database: str) -> bool:
        """Whether a collection was in the database, or was about to be, since the start or since its drop."""
        return database in self._opened or any(own.database == database for own in self._collections.values())

    def with_collection(self, collection: Collection) -> "Catalog":
        """A catalog with this collection, which replaces one of the same name."""
        if collection.is_raw:
            collection = collection.with_changes(is_raw=False)
        opened = self._opened if collection.database in self._opened else self._opened | {collection.database}
        return Catalog({**self._collections, collection.ns: collection}, self._views, opened)

    def with_opened(self, database: str) -> "Catalog":
        """The same catalog, for which the database is there, also if it has no collection."""
        return Catalog(self._collections, self._views, self._opened | {database})

    def without_collection(self, ns: str) -> "Catalog":
        kept = {k: c for k, c in self._collections.items() if k != ns}
        return Catalog(kept, self._views, self._opened | {ns.partition(".")[0]})

    def without_database(self, database: str) -> "Catalog":
        """The same catalog, for which an empty database was never opened."""
        return Catalog(self._collections, self._views, self._opened - {database})

    def with_view(self, view: View) -> "Catalog":
        """A catalog with this view, which replaces one of the same name."""
        return Catalog(self._collections, {**self._views, view.ns: view}, self._opened)

    def without_view(self, ns: str) -> "Catalog":
        return Catalog(self._collections, {k: v for k, v in self._views.items() if k != ns}, self._opened)
