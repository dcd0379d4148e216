"""Read the documents of a deployment's collections, by ranges of `_id`.

A range is read as of one cluster time, with a snapshot read, so that it is known exactly which changes it
has. It is bounded on the index of `_id` (`min` and `max`), because the comparisons of a filter see only
values of one type. Members are asked as the read preference of the connection string wants it. Of a cluster
the router is asked: a shard alone would also return documents of chunks that it does not own.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from bson import MaxKey
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument
from pymongo.client_session import ClientSession

from tailrace.bson import raw as rawbson
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.cluster_time import from_timestamp, to_timestamp
from tailrace.sources.deployments import rights
from tailrace.sources.deployments.clients import Client
from tailrace.sources.deployments.document_range import DocumentRange
from tailrace.sources.deployments.driver_errors import driver_errors

_RAW: Final = CodecOptions(document_class=RawBSONDocument)
_INTERNAL: Final = frozenset({"admin", "config", "local"})
_NOT_OF_USERS: Final = ("system.", "tmp.agg_out.", "tmp.mr.")
"""Beginnings of names that servers give: what `$out` and mapReduce write is renamed in the end"""
_SAMPLES_PER_PART: Final = 20

_read_int32 = rawbson.INT32_LE.unpack_from


@dataclass(frozen=True, slots=True)
class CollectionFacts:
    """A collection, as a deployment lists it."""

    namespace: str
    kind: str
    """``collection``, ``view`` or ``timeseries``"""
    is_capped: bool
    has_collation: bool
    uuid: bytes | None
    """What tells it from a later one of the same name"""

    @property
    def why_not(self) -> str | None:
        """Why its documents cannot be followed; None if they can."""
        if self.kind == "view":
            return "it is a view; mirror the collection that it reads"
        if self.kind == "timeseries":
            return "it is a time series, whose measurements have no change events"
        if self.is_capped:
            return "it is capped, and the oplog does not have what falls out of it"
        return None


def is_ordinary(namespace: str) -> bool:
    """Whether a namespace is that of a user's collection.

    >>> is_ordinary("shop.orders"), is_ordinary("shop.system.views"), is_ordinary("config.chunks")
    (True, False, False)
    """
    database, _, collection = namespace.partition(".")
    return database not in _INTERNAL and bool(collection) and not collection.startswith(_NOT_OF_USERS)


class CollectionReader:
    """Reads collections through one client; errors of the driver are raised as those of `driver_errors`."""

    def __init__(self, client: Client, uri: str) -> None:
        self._client = client
        self._uri = uri

    def databases(self) -> list[str]:
        with driver_errors(self._uri, "listDatabases on the cluster"):
            reply = self._client.admin.command("listDatabases", nameOnly=True)
        return [found["name"] for found in reply["databases"] if found["name"] not in _INTERNAL]

    def collections(self, database: str) -> list[CollectionFacts]:
        """The collections and views of a database, without those of the system."""
        with driver_errors(self._uri, rights.documents_of(database)):
            listed = list(self._client[database].list_collections())
        found = [_facts(database, each) for each in listed]
        return [facts for facts in found if is_ordinary(facts.namespace)]

    def facts_of(self, namespace: str) -> CollectionFacts | None:
        """The collection or view that has a name now; None if there is none."""
        database, _, collection = namespace.partition(".")
        with driver_errors(self._uri, rights.documents_of(namespace)):
            for found in self._client[database].list_collections(filter={"name": collection}):
                return _facts(database, found)
        return None

    def uuid_of(self, namespace: str) -> bytes | None:
        """What tells a collection from a later one of the same name; None if there is no collection now."""
        facts = self.facts_of(namespace)
        return None if facts is None else facts.uuid

    def estimated_count(self, namespace: str) -> int:
        database, _, collection = namespace.partition(".")
        with driver_errors(self._uri, rights.documents_of(namespace)):
            return self._client[database][collection].estimated_document_count()

    def starts(self, facts: CollectionFacts, range_documents: int) -> list[bytes]:
        """Documents with the least `_id` of each range but the first; a range has about so many documents."""
        if facts.has_collation:
            return []  # the index has another order than `_id`
        parts = -(-self.estimated_count(facts.namespace) // range_documents)
        return self.bounds(facts.namespace, parts)

    def bounds(self, namespace: str, parts: int) -> list[bytes]:
        """Documents with an `_id` that cut a collection into at most ``parts`` ranges of about equal size."""
        if parts < 2:
            return []
        database, _, collection = namespace.partition(".")
        size = parts * _SAMPLES_PER_PART
        stages = [{"$sample": {"size": size}}, {"$project": {"_id": 1}}, {"$sort": {"_id": 1}}]
        with driver_errors(self._uri, rights.documents_of(namespace)):
            target = self._client[database].get_collection(collection, codec_options=_RAW)
            with target.aggregate(stages, allowDiskUse=True) as cursor:
                sampled = [_raw_of(found) for found in cursor]
        bounds = [sampled[len(sampled) * part // parts] for part in range(1, parts) if sampled]
        # A range cannot begin with the greatest of all values: servers refuse it as a lower bound.
        return [bound for bound in bounds if _id_type(bound) != rawbson.MAX_KEY]

    def read(self, wanted: DocumentRange, at: int | None) -> Iterator[list[bytes]]:
        """Return the documents of a range as of a cluster time, some at a time, in the order of the index.

        Without a time they are read as they are, each at some moment after the call. Raises `CommandError`,
        with the code of the server, such as 239 or 246 if it does not have the snapshot any more.
        """
        concern: dict[str, Any] = {"level": "majority"}
        if at is not None:
            concern = {"level": "snapshot", "atClusterTime": to_timestamp(at)}
        query: dict[str, Any] = {"readConcern": concern}
        if wanted.by_index:
            query["hint"] = {"_id": 1}
            for name, bound in (("min", wanted.lower), ("max", wanted.upper)):
                if bound is not None:
                    query[name] = RawBSONDocument(bound)
        has_greatest = wanted.lower is None or wanted.upper is not None
        for documents in self._found(wanted.namespace, query):
            yield documents
            has_greatest = has_greatest or _id_type(documents[-1]) == rawbson.MAX_KEY
        if not has_greatest:
            # A range without an upper bound ends before the greatest of all values.
            greatest = {"filter": {"_id": MaxKey()}, "readConcern": concern}
            yield from self._found(wanted.namespace, greatest)

    def _found(self, namespace: str, query: dict[str, Any]) -> Iterator[list[bytes]]:
        """The documents that a query finds, one batch of its cursor at a time."""
        database, _, collection = namespace.partition(".")
        with (
            driver_errors(self._uri, rights.documents_of(namespace)),
            self._client.start_session(causal_consistency=False) as session,
        ):
            ask = self._asking(database, session)
            cursor, documents = _batch(ask({"find": collection, **query}))
            try:
                while True:
                    if documents:
                        yield documents
                    if not cursor:
                        return
                    cursor, documents = _batch(ask({"getMore": cursor, "collection": collection}))
            finally:
                if cursor:
                    ask({"killCursors": collection, "cursors": [cursor]})

    def _asking(self, database: str, session: ClientSession) -> Callable[[dict[str, Any]], RawBSONDocument]:
        target, preference = self._client[database], self._client.read_preference

        def ask(command: dict[str, Any]) -> RawBSONDocument:
            reply: Any = target.command(
                command, session=session, codec_options=_RAW, read_preference=preference
            )
            found: RawBSONDocument = reply
            return found

        return ask

    def newest_time(self) -> int:
        """The cluster time of the server that is asked."""
        with driver_errors(self._uri, rights.NONE):
            reply = self._client.admin.command("ping", read_preference=self._client.read_preference)
        return from_timestamp(reply["operationTime"])


def _facts(database: str, listed: Mapping[str, Any]) -> CollectionFacts:
    options = listed.get("options", {})
    uuid = listed.get("info", {}).get("uuid")
    return CollectionFacts(
        f"{database}.{listed['name']}",
        listed["type"],
        bool(options.get("capped")),
        "collation" in options,
        None if uuid is None else bytes(uuid),
    )


def _raw_of(document: Any) -> bytes:
    """The bytes of a `RawBSONDocument`; PyMongo declares the type of a decoded document."""
    raw: bytes = document.raw
    return raw


def _batch(reply: RawBSONDocument) -> tuple[int, list[bytes]]:
    """The cursor and the documents of a reply; the cursor is 0 after the last one."""
    raw = _raw_of(reply)
    cursor = _place(raw, b"cursor")
    number = 0
    documents: list[bytes] = []
    for kind, name, start, end in rawbson.elements(raw, cursor):
        if name == b"id":
            number = int.from_bytes(raw[start:end], "little", signed=True)
        elif name in (b"firstBatch", b"nextBatch") and kind == rawbson.ARRAY:
            documents = _documents(raw, start)
    return number, documents


def _place(raw: bytes, wanted: bytes) -> int:
    for _, name, start, _ in rawbson.elements(raw):
        if name == wanted:
            return start
    raise CommandError(ErrorCode.FailedToParse, "a reply has no cursor")


def _id_type(document: bytes) -> int | None:
    found = rawbson.find(document, b"_id")
    return None if found is None else found[0]


def _documents(raw: bytes, start: int) -> list[bytes]:
    """The documents of an array."""
    found = []
    position = start + 4
    end = start + _read_int32(raw, start)[0] - 1
    while position < end:
        begin = raw.index(0, position + 1) + 1
        position = begin + _read_int32(raw, begin)[0]
        found.append(raw[begin:position])
    return found
