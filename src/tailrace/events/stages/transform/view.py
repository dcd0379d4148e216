"""Changes of view definitions as events.

A view is a document in `<db>.system.views`; streams on a database or the cluster show changes there as
create, modify and drop of the view it defines.
"""

from typing import Final

from tailrace.bson import raw as rawbson
from tailrace.errors import CommandError
from tailrace.events.change_event import ChangeEvent, DdlParts, EventKinds
from tailrace.events.oplog_entry import OplogEntry

_TYPES: Final = {"i": "create", "u": "modify", "d": "drop"}


def transform_view(entry: OplogEntry, kinds: EventKinds) -> ChangeEvent:
    """The event of an insert, replacement or delete of a view definition."""
    name = rawbson.text(entry.o, rawbson.find(entry.o, b"_id"))
    if name is None:
        raise CommandError(40532, "an entry of system.views does not name its view in `o._id`")
    database, _, view = name.partition(".")
    operation_type = _TYPES[entry.head.op]
    kind = kinds.of(operation_type, database, view, entry.head.ui)
    if operation_type == "drop":
        parts = DdlParts(shows_uuid=False)
    else:
        parts = DdlParts(
            description=rawbson.without(entry.o, (b"_id",)),
            always_described=True,
            shows_uuid=False,
            ns_type=_ns_type(entry.o) if operation_type == "create" else None,
        )
    return ChangeEvent(entry, kind, ddl=parts)


def _ns_type(definition: bytes) -> str:
    source = rawbson.text(definition, rawbson.find(definition, b"viewOn")) or ""
    return "timeseries" if source.startswith("system.buckets.") else "view"
