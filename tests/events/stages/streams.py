"""Short oplogs and streams over them, for tests of single stages."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from bson import Binary, DatetimeMS, Int64, Timestamp

from tailrace.bson.documents import decode, encode
from tailrace.errors import CommandError
from tailrace.events.cluster_time import cluster_time
from tailrace.events.scope import Scope
from tailrace.events.stages.lookups import Lookups
from tailrace.events.stages.plan import Plan
from tailrace.log.local_engine import LocalEngine

UUID = Binary(bytes(range(16)), 4)
OTHER_UUID = Binary(bytes(range(16, 32)), 4)


def at(increment: int) -> int:
    return cluster_time(1_700_000_000, increment)


def entry(increment: int, op: str, o: dict[str, Any], **fields: Any) -> bytes:
    """Return an oplog entry in the server's field order."""
    session: dict[str, Any] = {name: fields.pop(name) for name in ("lsid", "txnNumber") if name in fields}
    previous = {"prevOpTime": fields.pop("prevOpTime")} if "prevOpTime" in fields else {}
    ns = fields.pop("ns", "shop.$cmd" if op == "c" else "shop.orders")
    o2 = fields.pop("o2", {"_id": o.get("_id")} if op == "i" else None)
    ui = fields.pop("ui", UUID)
    return encode({
        **session, "op": op, "ns": ns,
        **({} if ui is None else {"ui": ui}),
        "o": o,
        **({} if o2 is None else {"o2": o2}),
        **fields,
        "ts": Timestamp(1_700_000_000, increment), "t": Int64(1), "v": Int64(2),
        "wall": DatetimeMS(1_700_000_000_000 + increment),
        **previous,
    })  # fmt: skip


def insert(increment: int, key: Any, ns: str = "shop.orders", **fields: Any) -> bytes:
    return entry(increment, "i", {"_id": key, **fields}, ns=ns)


def update(increment: int, key: Any, diff: dict[str, Any]) -> bytes:
    return entry(increment, "u", {"$v": 2, "diff": diff}, o2={"_id": key})


def delete(increment: int, key: Any) -> bytes:
    return entry(increment, "d", {"_id": key})


def command(increment: int, o: dict[str, Any], **fields: Any) -> bytes:
    return entry(increment, "c", o, **fields)


def open_engine(
    spec: Mapping[str, Any] | None = None,
    pipeline: Sequence[Mapping[str, Any]] = (),
    *,
    ns: str | None = "shop.orders",
    lookups: Mapping[str, Lookups] | None = None,
    **options: Any,
) -> LocalEngine:
    scope = Scope.cluster() if ns is None else Scope.parse_ns(ns)
    document = {**(spec or {}), **({"allChangesForCluster": True} if ns is None else {})}
    plan = Plan.open(scope, document, pipeline, **options)
    return LocalEngine(plan, {"": Lookups()} if lookups is None else lookups)


def stream(
    entries: Sequence[bytes],
    spec: Mapping[str, Any] | None = None,
    pipeline: Sequence[Mapping[str, Any]] = (),
    **options: Any,
) -> list[dict[str, Any]]:
    """Return all events of a stream over one oplog; raises the stream's error."""
    engine = open_engine(spec, pipeline, **options)
    engine.push("", entries)
    events = [decode(raw) for raw in engine.drain()]
    engine.drain()
    return events


def code_of(
    entries: Sequence[bytes],
    spec: Mapping[str, Any] | None = None,
    pipeline: Sequence[Any] = (),
    **options: Any,
) -> int:
    """Return the code of the error that a stream over one oplog raises."""
    with pytest.raises(CommandError) as raised:
        stream(entries, spec, pipeline, **options)
    return raised.value.code


def types(events: Sequence[Mapping[str, Any]]) -> list[str]:
    return [event["operationType"] for event in events]
