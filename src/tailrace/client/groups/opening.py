"""Open a group: where its positions are kept, what it watches, and where it begins."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import InvalidURI
from pymongo.uri_parser import parse_uri

from tailrace.bson import documents, extjson
from tailrace.client.flow import Flow
from tailrace.client.groups.collection_store import CollectionGroups
from tailrace.client.groups.consumer import ConsumerParts, ConsumerSettings, Shell
from tailrace.client.groups.file_store import FileGroups
from tailrace.client.groups.read_positions import ReadCollection, first_position
from tailrace.client.groups.snapshot import filters_of, listing
from tailrace.client.groups.state import GroupState, Slot
from tailrace.client.groups.store import GroupStore
from tailrace.client.options import Document, Keywords, Pipeline, StreamOptions
from tailrace.client.token_order import high_water_mark
from tailrace.errors import UsageError
from tailrace.events.cluster_time import from_timestamp

Positions: TypeAlias = "str | Path | Any | None"
"""A file, the connection string of a collection, PyMongo's collection, or None for the server's own."""

DEFAULT_SLOTS: Final = 32
MOST_SLOTS: Final = 1024
AWAIT_MS: Final = 500
"""How long a worker waits for events at once: it notices changes of its group in between."""
OWN_DATABASE: Final = "tailrace"
OWN_COLLECTION: Final = "groups"
_OWN_KEYWORDS: Final = (
    *("ns", "positions", "slots", "merge_fragments", "snapshot"),
    *("lease_seconds", "save_seconds", "max_outage"),
)
_SCHEMES: Final = ("mongodb://", "mongodb+srv://")


class GroupKeywords(Keywords, total=False):
    """The keyword arguments of `consume`: those of `watch`, and these."""

    ns: str | None
    positions: Positions
    slots: int | None
    lease_seconds: float
    save_seconds: float
    max_outage: float | None
    merge_fragments: bool
    snapshot: bool


@dataclass(frozen=True, slots=True)
class Watched:
    """PyMongo's object that is watched, its client, and its name."""

    target: Any
    client: Any
    namespace: str


def preparing(
    shell: Shell, target: Any, group: str, pipeline: Pipeline, keywords: GroupKeywords, opened: list[Any]
) -> Flow[ConsumerParts]:
    """The parts of a worker, and the group if it does not exist; clients are added to ``opened``."""
    given: dict[str, Any] = dict(keywords)
    own = {name: given.pop(name) for name in _OWN_KEYWORDS if name in given}
    options: Keywords = given  # type: ignore[assignment]
    watched = watched_of(target, own.pop("ns", None), shell, opened)
    store = yield from opening_store(own.pop("positions", None), watched.client, shell, opened)
    text = stream_text(pipeline, options)
    slots, has_snapshot = own.pop("slots", None), own.pop("snapshot", False)
    filtered = without_own_changes(pipeline, watched, store)
    if has_snapshot:
        filters_of(filtered)
    state = yield from opening_group(
        store, shell, watched, group, options, text, slots, has_snapshot=has_snapshot
    )
    merges = own.pop("merge_fragments", False)
    return ConsumerParts(
        watched.target,
        store,
        filtered,
        {"max_await_time_ms": AWAIT_MS, **without_start(options)},
        ConsumerSettings(group, **own),
        shell,
        text,
        merges,
        opened,
        watched.client,
        state.collections,
    )


def watched_of(target: Any, ns: str | None, shell: Shell, opened: list[Any]) -> Watched:
    """What a connection string or an object of PyMongo stands for; a client is added to ``opened``."""
    if not isinstance(target, str):
        if ns is not None:
            raise UsageError("ns belongs to a connection string; pass the database or collection instead")
        return _watched(target)
    client = shell.connect(target)
    opened.append(client)
    return watched_in(client, ns or "")


def watched_in(client: Any, namespace: str) -> Watched:
    """What a client watches, by its name: a collection, a database, or everything."""
    database, _, collection = namespace.partition(".")
    found = client[database] if database else client
    return Watched(found[collection] if collection else found, client, namespace)


def _watched(target: Any) -> Watched:
    if isinstance(target, Collection | AsyncCollection):
        return Watched(target, target.database.client, target.full_name)
    if isinstance(target, Database | AsyncDatabase):
        return Watched(target, target.client, target.name)
    return Watched(target, target, "")


def opening_store(positions: Positions, client: Any, shell: Shell, opened: list[Any]) -> Flow[GroupStore]:
    """The position store; a client that is opened for it is added to ``opened``."""
    if positions is None:
        build = yield partial(client.admin.command, "buildInfo")
        if OWN_DATABASE not in build.get("buildEnvironment", {}):
            raise UsageError(
                "a group needs a place for its positions, and this server is not Tailrace's own; name a "
                "collection, as mongodb://HOST/DB.COLLECTION, or a file on this machine"
            )
        return CollectionGroups(client[OWN_DATABASE][OWN_COLLECTION])
    if isinstance(positions, str) and positions.startswith(_SCHEMES):
        try:
            parsed = parse_uri(positions, warn=False)
        except InvalidURI as error:
            raise UsageError(f"the place of the positions is no connection string: {error}") from None
        database, collection = parsed["database"], parsed["collection"]
        if not (database and collection):
            raise UsageError("the place of the positions names a collection, as mongodb://HOST/DB.COLLECTION")
        client = shell.connect(positions)
        opened.append(client)
        return CollectionGroups(client[database][collection])
    if isinstance(positions, str | Path):
        return FileGroups(positions, shell.call)
    return CollectionGroups(positions)


def opening_group(
    store: GroupStore,
    shell: Shell,
    watched: Watched,
    group: str,
    options: Keywords,
    stream: str,
    slots: int | None,
    *,
    has_snapshot: bool = False,
) -> Flow[GroupState]:
    """The group's state; a group that does not exist is created, and begins at the start of the options.

    With a snapshot it begins with the documents that there are, and goes on with the changes since.
    """
    if not group:
        raise UsageError("a group has a name")
    if slots is not None and not 1 <= slots <= MOST_SLOTS:
        raise UsageError(f"a group has 1 to {MOST_SLOTS} slots")
    state = yield from store.load(group)
    while state is None:
        if has_snapshot and StreamOptions.of(options).start:
            raise UsageError("a group begins with a snapshot or at a given place; leave out one of them")
        first = yield from _starting(shell, watched, options)
        collections: tuple[ReadCollection, ...] = ()
        if has_snapshot:
            # After the start of the stream: a collection that is created later is in it as a whole.
            collections = yield from listing(watched.client, watched.namespace, store.namespaces)
            first = first_position(first)
        created = GroupState(
            group,
            watched.namespace,
            stream,
            (Slot(first),) * (slots or DEFAULT_SLOTS),
            collections=collections,
        )
        is_new = yield from store.create(created)
        state = created if is_new else (yield from store.load(group))
    if state.namespace != watched.namespace:
        raise UsageError(
            f"the group {group} consumes {state.namespace or 'the whole deployment'}, not "
            f"{watched.namespace or 'the whole deployment'}; name another group"
        )
    if slots is not None and slots != len(state.slots):
        raise UsageError(f"the group {group} has {len(state.slots)} slots, for good; name another group")
    return state


def _starting(shell: Shell, watched: Watched, options: Keywords) -> Flow[Document]:
    """The token at which a new group begins: every slot has to begin at the same place."""
    start = StreamOptions.of(options).start
    for name in ("startAfter", "resumeAfter"):
        if name in start:
            return dict(start[name])
    if "startAtOperationTime" in start:
        return high_water_mark(from_timestamp(start["startAtOperationTime"]))
    stream = yield partial(shell.watch, watched.target, (), max_await_time_ms=1)
    token: Document | None = stream.resume_token
    yield stream.close
    if token is None:  # a server before 4.0.7
        reply = yield partial(watched.client.admin.command, "ping")
        return high_water_mark(from_timestamp(reply["operationTime"]))
    return token


def without_start(options: Keywords) -> Keywords:
    return {**options, "resume_after": None, "start_after": None, "start_at_operation_time": None}


def stream_text(pipeline: Pipeline, options: Keywords) -> str:
    """Pipeline and options of a stream as Extended JSON, for `--status` and for people."""
    stage = StreamOptions.of(without_start(options)).stage
    return extjson.dumps_canonical(documents.encode({"pipeline": list(pipeline), "options": dict(stage)}))


def without_own_changes(pipeline: Pipeline, watched: Watched, store: GroupStore) -> Pipeline:
    """A stream that covers the position store does not show it: each commit would be an event to commit."""
    hidden = [
        {"ns.db": database, "ns.coll": collection}
        for database, _, collection in (name.partition(".") for name in store.namespaces)
        if watched.namespace in ("", database)
    ]
    return [{"$match": {"$nor": hidden}}, *pipeline] if hidden else pipeline
