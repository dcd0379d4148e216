"""The plain loop to compare with: decode each entry, build the event as a dict, encode it.

It uses PyMongo's `bson` and the project's token encoder. For the benchmark's oplog it returns the same bytes
as the engine, which `engine.py` checks before it measures.
"""

from collections.abc import Iterator
from typing import Any

import bson
from bson import CodecOptions, Timestamp
from bson.binary import UuidRepresentation
from bson.codec_options import DatetimeConversion

from tailrace.events.resume_token import ResumeToken

OPTIONS: CodecOptions[dict[str, Any]] = CodecOptions(
    datetime_conversion=DatetimeConversion.DATETIME_MS, uuid_representation=UuidRepresentation.UNSPECIFIED
)


def transform(raw: bytes) -> Iterator[bytes]:
    entry = bson.decode(raw, OPTIONS)
    if entry["op"] == "c" and "applyOps" in entry["o"]:
        is_batch = "multiOpType" in entry
        session = {} if is_batch else {"txnNumber": entry["txnNumber"], "lsid": entry["lsid"]}
        for index, inner in enumerate(entry["o"]["applyOps"]):
            yield one_event(inner, entry, index, session)
    elif entry["op"] in ("i", "u", "d"):
        yield one_event(entry, entry, 0, {})


def one_event(entry: dict[str, Any], outer: dict[str, Any], index: int, session: dict[str, Any]) -> bytes:
    database, _, collection = entry["ns"].partition(".")
    o = entry["o"]
    full_document = update = None
    if entry["op"] == "i":
        operation_type, key, full_document = "insert", entry["o2"], o
    elif entry["op"] == "d":
        operation_type, key = "delete", o
    elif "_id" in o:
        operation_type, key, full_document = "replace", entry["o2"], o
    else:
        operation_type, key, update = "update", entry["o2"], describe(o["diff"])
    ts: Timestamp = outer["ts"]
    token = ResumeToken(
        cluster_time=ts.time << 32 | ts.inc,
        txn_op_index=index,
        uuid=bytes(entry["ui"]),
        identifier=bson.encode({"operationType": operation_type, "documentKey": key}),
    )
    event = {
        **session,
        "_id": {"_data": token.data},
        "operationType": operation_type,
        "clusterTime": ts,
        "wallTime": outer["wall"],
    }
    if full_document is not None:
        event["fullDocument"] = full_document
    event["ns"] = {"db": database, "coll": collection}
    event["documentKey"] = key
    if update is not None:
        event["updateDescription"] = update
    # PyMongo moves a top-level _id to the front; events in transactions have it third.
    return _encode_in_order(event) if session else bson.encode(event)


def _encode_in_order(event: dict[str, Any]) -> bytes:
    return bson.encode({"": event})[6:-1]


def describe(diff: dict[str, Any]) -> dict[str, Any]:
    updated: dict[str, Any] = {}
    removed: list[str] = []
    truncated: list[dict[str, Any]] = []
    walk(diff, "", updated, removed, truncated)
    return {"updatedFields": updated, "removedFields": removed, "truncatedArrays": truncated}


def walk(
    diff: dict[str, Any],
    prefix: str,
    updated: dict[str, Any],
    removed: list[str],
    truncated: list[dict[str, Any]],
) -> None:
    if diff.get("a") is True:
        for name, value in diff.items():
            if name == "l":
                truncated.append({"field": prefix[:-1], "newSize": value})
            elif name.startswith("u"):
                updated[prefix + name[1:]] = value
            elif name.startswith("s"):
                walk(value, f"{prefix}{name[1:]}.", updated, removed, truncated)
        return
    for section in ("u", "i"):
        for name, value in diff.get(section, {}).items():
            updated[prefix + name] = value
    removed += [prefix + name for name in diff.get("d", {})]
    for name, value in diff.items():
        if name.startswith("s"):
            walk(value, f"{prefix}{name[1:]}.", updated, removed, truncated)
