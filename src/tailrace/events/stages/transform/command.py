"""Commands as events: create, drop, rename, index and option changes. One function for one command."""

from collections.abc import Callable
from typing import Final, TypeAlias

from tailrace.bson import raw as rawbson
from tailrace.errors import CommandError
from tailrace.events.change_event import ChangeEvent, DdlParts, EventKinds, namespace_document
from tailrace.events.oplog_entry import OplogEntry

Builder: TypeAlias = Callable[[OplogEntry, str, EventKinds], ChangeEvent]
"""(entry, value of the command's first field, kinds) to the event"""

_BUCKETS: Final = "system.buckets."


def transform_command(entry: OplogEntry, kinds: EventKinds) -> ChangeEvent:
    for kind, name, start, end in rawbson.elements(entry.o):
        build = _COMMANDS.get(name)
        if build is not None:
            if name == b"dropDatabase":
                return build(entry, "", kinds)
            if kind != rawbson.STRING:
                raise CommandError(
                    40532, f"the command {name.decode()} in an entry does not name a collection"
                )
            if entry.head.ui is None:
                raise CommandError(7826901, f"a {name.decode()} entry has no collection UUID")
            return build(entry, rawbson.string_value(entry.o, start, end), kinds)
        break
    raise CommandError(11352605, f"an oplog entry holds the unexpected command {entry.command!r}")


def _event(
    entry: OplogEntry, kinds: EventKinds, operation_type: str, collection: str, parts: DdlParts
) -> ChangeEvent:
    kind = kinds.of(operation_type, entry.head.database, collection, entry.head.ui)
    return ChangeEvent(entry, kind, ddl=parts)


def _drop(entry: OplogEntry, collection: str, kinds: EventKinds) -> ChangeEvent:
    return _event(entry, kinds, "drop", collection, DdlParts())


def _drop_database(entry: OplogEntry, _: str, kinds: EventKinds) -> ChangeEvent:
    return ChangeEvent(entry, kinds.of("dropDatabase", entry.head.database, None, None), ddl=DdlParts())


def _rename(entry: OplogEntry, source: str, kinds: EventKinds) -> ChangeEvent:
    described: list[bytes] = []
    to = None
    for kind, name, start, end in rawbson.elements(entry.o):
        if name == b"to" and kind == rawbson.STRING:
            to = namespace_document(*_split(rawbson.string_value(entry.o, start, end)))
            described.append(rawbson.element(rawbson.DOCUMENT, b"to", to))
        elif name not in (b"renameCollection", b"stayTemp"):
            described.append(rawbson.element(kind, name, entry.o[start:end]))
    if to is None:
        raise CommandError(40532, "a renameCollection entry has no target")
    database, collection = _split(source)
    kind_of_event = kinds.of("rename", database, collection, entry.head.ui)
    return ChangeEvent(entry, kind_of_event, ddl=DdlParts(description=rawbson.document(*described), to=to))


def _viewless_timeseries(entry: OplogEntry, collection: str, kinds: EventKinds) -> ChangeEvent:
    plain = collection.removeprefix(_BUCKETS)
    upgrade = rawbson.field(entry.o, b"isUpgrade") == (rawbson.BOOL, b"\x01")
    source, target = (_BUCKETS + plain, plain) if upgrade else (plain, _BUCKETS + plain)
    to = namespace_document(entry.head.database, target)
    description = rawbson.document(rawbson.element(rawbson.DOCUMENT, b"to", to))
    return _event(entry, kinds, "rename", source, DdlParts(description=description, to=to))


def _split(namespace: str) -> tuple[str, str]:
    database, _, collection = namespace.partition(".")
    return database, collection


def _create(entry: OplogEntry, collection: str, kinds: EventKinds) -> ChangeEvent:
    is_timeseries = rawbson.find(entry.o, b"timeseries") is not None and not collection.startswith(_BUCKETS)
    description = rawbson.without(entry.o, (b"create",))
    ns_type = "timeseries" if is_timeseries else "collection"
    return _event(entry, kinds, "create", collection, DdlParts(description=description, ns_type=ns_type))


def _indexes(specs: bytes) -> bytes:
    return rawbson.document(rawbson.element(rawbson.ARRAY, b"indexes", specs))


def _one_index(spec: bytes) -> bytes:
    return _indexes(rawbson.document(rawbson.element(rawbson.DOCUMENT, b"0", spec)))


def _create_indexes(entry: OplogEntry, collection: str, kinds: EventKinds) -> ChangeEvent:
    spec = rawbson.without(entry.o, (b"createIndexes",))
    return _event(entry, kinds, "createIndexes", collection, DdlParts(description=_one_index(spec)))


def _index_build(operation_type: str) -> Builder:
    def build(entry: OplogEntry, collection: str, kinds: EventKinds) -> ChangeEvent:
        found = rawbson.field(entry.o, b"indexes")
        if found is None or found[0] != rawbson.ARRAY:
            raise CommandError(40532, f"a {operation_type} entry does not list its indexes")
        return _event(entry, kinds, operation_type, collection, DdlParts(description=_indexes(found[1])))

    return build


def _drop_indexes(entry: OplogEntry, collection: str, kinds: EventKinds) -> ChangeEvent:
    if entry.o2 is None:
        raise CommandError(40532, "a dropIndexes entry does not hold the dropped index in `o2`")
    return _event(entry, kinds, "dropIndexes", collection, DdlParts(description=_one_index(entry.o2)))


def _modify(entry: OplogEntry, collection: str, kinds: EventKinds) -> ChangeEvent:
    before: list[bytes] = []
    for shown, logged in (
        (b"collectionOptions", b"collectionOptions_old"),
        (b"indexOptions", b"indexOptions_old"),
    ):
        found = rawbson.field(entry.o2 or rawbson.EMPTY, logged)
        if found is not None:
            before.append(rawbson.element(found[0], shown, found[1]))
    parts = DdlParts(
        description=rawbson.without(entry.o, (b"collMod",)), state_before_change=rawbson.document(*before)
    )
    return _event(entry, kinds, "modify", collection, parts)


_COMMANDS: Final[dict[bytes, Builder]] = {
    b"abortIndexBuild": _index_build("abortIndexBuild"),
    b"collMod": _modify,
    b"commitIndexBuild": _index_build("createIndexes"),
    b"create": _create,
    b"createIndexes": _create_indexes,
    b"drop": _drop,
    b"dropDatabase": _drop_database,
    b"dropIndexes": _drop_indexes,
    b"renameCollection": _rename,
    b"startIndexBuild": _index_build("startIndexBuild"),
    b"upgradeDowngradeViewlessTimeseries": _viewless_timeseries,
}

KNOWN_COMMANDS: Final = frozenset(name.decode() for name in _COMMANDS)
"""Commands that have an event."""
