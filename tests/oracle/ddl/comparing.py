"""Run DDL commands on both servers and compare what can be compared.

The real server keeps the collections of a database in the order of their UUIDs, which are random: what it
lists in that order, and what dropDatabase logs in it, is compared sorted by name.
"""

import time
from collections.abc import Iterable
from itertools import groupby
from typing import Any, Final

from bson import ObjectId

from tests.oracle.comparison import Difference, Document, differences, mask_temporary, value_differences
from tests.oracle.twins import Pair, Recalled, Side, Twins

_MARKS: Final = "marks"
_TIMEOUT_SECONDS: Final = 60
EXPANDED: Final = {"showExpandedEvents": True}
SYSTEM: Final = {"showExpandedEvents": True, "showSystemEvents": True}


def filled(value: Any, names: Document) -> Any:
    """A command in which `{a}` and the like stand for databases."""
    if isinstance(value, dict):
        return {name: filled(item, names) for name, item in value.items()}
    if isinstance(value, str):
        for short, name in names.items():
            value = value.replace("{" + short + "}", name)
    return value


def run(twins: Twins, command: Document, database: str) -> list[Difference]:
    """Run a command on both servers; returns the differences of the replies."""
    command = {**command, "$db": database}
    pair = Pair(sorted_reply(twins.real.call(command)), sorted_reply(twins.ours.call(command)))
    found = differences(pair.real, pair.ours)
    twins.tally.add(command, found)
    return found


def sorted_reply(reply: Document) -> Document:
    """A reply with the collections of listCollections sorted by name."""
    cursor = reply.get("cursor")
    if isinstance(cursor, dict) and str(cursor.get("ns", "")).endswith("$cmd.listCollections"):
        batch = sorted(cursor["firstBatch"], key=lambda entry: str(entry["name"]))
        return {**reply, "cursor": {**cursor, "firstBatch": batch}}
    return reply


def sorted_entries(entries: Iterable[Document]) -> list[Document]:
    """Oplog entries with neighbouring drops of one database sorted by name."""
    return _sorted_runs(
        entries, lambda entry: "drop" in entry["o"] and entry["ns"], lambda e: str(e["o"]["drop"])
    )


def sorted_events(events: Iterable[Document]) -> list[Document]:
    """Events with neighbouring drops of one database sorted by name."""
    return _sorted_runs(
        events,
        lambda event: event["operationType"] == "drop" and event["ns"]["db"],
        lambda event: str(event["ns"]["coll"]),
    )


def _sorted_runs(items: Iterable[Document], group: Any, key: Any) -> list[Document]:
    found: list[Document] = []
    for name, run_of in groupby(items, key=group):
        together = list(run_of)
        found += sorted(together, key=key) if name else together
    return found


def oplog_differences(twins: Twins, since: Recalled) -> tuple[int, list[str]]:
    """How many oplog entries since a time are equal, and the differences."""
    pair = twins.oplog(since)
    real, ours = (sorted_entries(side["entries"]) for side in (pair.real, pair.ours))
    return _compared("oplog", real, ours)


def event_differences(
    twins: Twins, since: Recalled, options: Document, database: str
) -> tuple[int, list[str]]:
    """How many events of a database since a time are equal, and the differences.

    The streams are on the cluster, because one on the database would end when it is dropped.
    """
    stage: Document = {"startAtOperationTime": since, "allChangesForCluster": True, **options}
    command: Document = {
        "aggregate": 1,
        "pipeline": [{"$changeStream": stage}, {"$match": {"ns.db": database}}],
        "cursor": {},
        "$db": "admin",
    }
    real, ours = (sorted_events(_events(side, command, database)) for side in (twins.real, twins.ours))
    return _compared(f"events {options}", real, ours)


def _events(side: Side, command: Document, database: str) -> list[Document]:
    """The events until a document that is inserted now; those of such documents are left out."""
    mark = ObjectId()
    side.call({"insert": _MARKS, "documents": [{"_id": mark}], "$db": database})
    reply = side.call(command)
    assert reply.get("ok"), reply
    found = list(reply["cursor"]["firstBatch"])
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while not any(event.get("documentKey") == {"_id": mark} for event in found):
        assert time.monotonic() < deadline, "the stream does not show the last document"
        more = {"getMore": reply["cursor"]["id"], "collection": "$cmd.aggregate", "maxTimeMS": 1000}
        reply = side.call({**more, "$db": "admin"})
        assert reply.get("ok"), reply
        found += reply["cursor"]["nextBatch"]
    side.call({"killCursors": "$cmd.aggregate", "cursors": [reply["cursor"]["id"]], "$db": "admin"})
    return [event for event in found if event.get("ns", {}).get("coll") != _MARKS]


def _sorted_columns(item: Document) -> Document:
    """An entry or an event with the columns of a bucket sorted: the real server has them in no order."""
    found = dict(item)
    for field in ("o", "fullDocument"):
        bucket = item.get(field)
        if isinstance(bucket, dict) and isinstance(bucket.get("data"), dict) and "control" in bucket:
            found[field] = {**bucket, "data": dict(sorted(bucket["data"].items()))}
        elif isinstance(bucket, dict) and "_id" in bucket and "tmp" in str(item["ns"]):
            found[field] = dict(sorted(bucket.items()))  # what `$out` reads from such buckets
    return found


def _shown(item: Document) -> str:
    """What an entry or an event is about."""
    about = [item.get("op"), item.get("operationType"), item["ns"], next(iter(item.get("o", {}).items()), "")]
    return mask_temporary(str(about))


def _compared(what: str, real: list[Document], ours: list[Document]) -> tuple[int, list[str]]:
    if len(real) != len(ours):
        about = [(_shown(one), _shown(other)) for one, other in zip(real, ours, strict=False)]
        place = next((number for number, (one, other) in enumerate(about) if one != other), len(about))
        return 0, [
            f"{what}: {len(real)} real, {len(ours)} ours; first different: {place}\n"
            f"  real {real[place : place + 2]}\n  ours {ours[place : place + 2]}"
        ]
    equal, found = 0, []
    for number, (one, other) in enumerate(
        zip(map(_sorted_columns, real), map(_sorted_columns, ours), strict=True)
    ):
        places = list(value_differences("", one, other))
        equal += not places
        if places:
            found.append(f"{what} {number} {_shown(one)}: {'; '.join(map(str, places[:3]))}")
    return equal, found
