"""The operation that an event other than a document change comes from: the inverse of `stages/transform/`."""

from collections.abc import Callable
from typing import Final, TypeAlias

from tailrace.bson import raw as rawbson
from tailrace.errors import CommandError
from tailrace.events.entry_bytes import Operation
from tailrace.events.recovered.shown_event import UNREADABLE, ShownEvent

_Recover: TypeAlias = Callable[[ShownEvent], Operation]

_DESCRIPTION: Final = b"operationDescription"
_UUID: Final = b"collectionUUID"
_VIEWS: Final = "system.views"
_BEFORE: Final = {b"collectionOptions": b"collectionOptions_old", b"indexOptions": b"indexOptions_old"}


def command_of(event: ShownEvent) -> Operation:
    """Return the operation of an event; raises `CommandError` if there is no way back for its type."""
    recover = _TYPES.get(event.operation_type)
    if recover is None:
        raise CommandError(UNREADABLE, f"events of type {event.operation_type} are not known")
    return recover(event)


def _command(event: ShownEvent, name: bytes, *rest: bytes, o2: bytes | None = None) -> Operation:
    """A command on the event's collection."""
    o = rawbson.document(rawbson.string(name, event.collection.encode()), *rest)
    return Operation("c", event.command_ns, o, event.uuid, o2)


def _described(event: ShownEvent) -> bytes:
    """The elements of its description."""
    return rawbson.body(event.document_or_none(_DESCRIPTION) or rawbson.EMPTY)


def _of_view(event: ShownEvent, op: str, *, is_described: bool = True) -> Operation:
    """A change of a document in `system.views`."""
    name = rawbson.string(b"_id", event.ns.encode())
    o = rawbson.document(name, _described(event) if is_described else b"")
    o2 = None if op == "d" else rawbson.document(name)
    return Operation(op, f"{event.database}.{_VIEWS}", o, event.uuid, o2)


def _create(event: ShownEvent) -> Operation:
    if not event.shows(_UUID):
        return _of_view(event, "i")
    return _command(event, b"create", _described(event))


def _drop(event: ShownEvent) -> Operation:
    if not event.shows(_UUID):
        return _of_view(event, "d", is_described=False)
    return _command(event, b"drop")


def _drop_database(event: ShownEvent) -> Operation:
    one = rawbson.element(rawbson.INT32, b"dropDatabase", rawbson.INT32_LE.pack(1))
    return Operation("c", event.command_ns, rawbson.document(one))


def _modify(event: ShownEvent) -> Operation:
    if not event.shows(_UUID):
        return _of_view(event, "u")
    state = event.document_or_none(b"stateBeforeChange") or rawbson.EMPTY
    before = [
        rawbson.element(kind, _BEFORE[name], state[start:end])
        for kind, name, start, end in rawbson.elements(state)
        if name in _BEFORE
    ]
    return _command(event, b"collMod", _described(event), o2=rawbson.document(*before))


def _rename(event: ShownEvent) -> Operation:
    parts = [rawbson.string(b"renameCollection", event.ns.encode())]
    description = event.document_or_none(_DESCRIPTION) or rawbson.EMPTY
    for kind, name, start, end in rawbson.elements(description):
        value = description[start:end]
        if name == b"to" and kind == rawbson.DOCUMENT:
            texts = (rawbson.text(value, rawbson.find(value, part)) or "" for part in (b"db", b"coll"))
            parts.append(rawbson.string(b"to", ".".join(texts).encode()))
        else:
            parts.append(rawbson.element(kind, name, value))
    return Operation("c", event.command_ns, rawbson.document(*parts), event.uuid)


def _specs(event: ShownEvent) -> tuple[bytes, list[bytes]]:
    """The array of the indexes that an event describes, and each of them."""
    found = rawbson.field(event.document(_DESCRIPTION), b"indexes")
    if found is None or found[0] != rawbson.ARRAY:
        raise CommandError(UNREADABLE, f"an event of type {event.operation_type} does not list its indexes")
    array = found[1]
    places = list(rawbson.subdocument_places(array, 0))
    return array, [array[place[0] : place[1]] for place in places if place is not None]


def _create_indexes(event: ShownEvent) -> Operation:
    _, specs = _specs(event)
    if len(specs) == 1:
        return _command(event, b"createIndexes", rawbson.body(specs[0]))
    return _index_build(b"commitIndexBuild")(event)


def _drop_indexes(event: ShownEvent) -> Operation:
    _, specs = _specs(event)
    name = rawbson.text(specs[0], rawbson.find(specs[0], b"name")) or ""
    return _command(event, b"dropIndexes", rawbson.string(b"index", name.encode()), o2=specs[0])


def _index_build(command: bytes) -> _Recover:
    return lambda event: _command(
        event, command, rawbson.element(rawbson.ARRAY, b"indexes", _specs(event)[0])
    )


def _noop(event: ShownEvent) -> Operation:
    """An event that is written as a no-op, with its description as payload."""
    name = rawbson.string(event.operation_type.encode(), event.ns.encode())
    o2 = rawbson.document(name, _described(event))
    return Operation("n", event.ns, rawbson.EMPTY, event.uuid, o2)


_TYPES: Final[dict[str, _Recover]] = {
    "abortIndexBuild": _index_build(b"abortIndexBuild"),
    "create": _create,
    "createIndexes": _create_indexes,
    "drop": _drop,
    "dropDatabase": _drop_database,
    "dropIndexes": _drop_indexes,
    "modify": _modify,
    "refineCollectionShardKey": _noop,
    "rename": _rename,
    "reshardCollection": _noop,
    "shardCollection": _noop,
    "startIndexBuild": _index_build(b"startIndexBuild"),
}
