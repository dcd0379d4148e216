"""All oplog-to-event vectors: events, field order, tokens, and the end of the stream."""

from pathlib import Path
from typing import Any

import bson
import pytest
from bson import Binary, json_util
from bson.json_util import JSONOptions

from tailrace.bson.documents import decode, encode
from tailrace.errors import CommandError
from tailrace.events.resume_token import ResumeToken
from tailrace.events.scope import Scope
from tailrace.events.stages.lookups import Lookups
from tailrace.events.stages.plan import Plan
from tailrace.log.local_engine import LocalEngine

VECTORS = Path(__file__).parents[2] / "vectors" / "events.json"
JSON = JSONOptions(
    json_mode=json_util.JSONMode.CANONICAL,
    datetime_conversion=bson.codec_options.DatetimeConversion.DATETIME_MS,
)
CASES: list[dict[str, Any]] = json_util.loads(VECTORS.read_text(), json_options=JSON)


def scope_of(watch: dict[str, Any]) -> Scope:
    if watch["scope"] == "cluster":
        return Scope.cluster()
    return Scope.parse_ns(".".join(filter(None, (watch["db"], watch.get("coll")))))


def lookups_of(case: dict[str, Any]) -> Lookups:
    entries = {int(entry["ts"].time) << 32 | entry["ts"].inc: encode(entry) for entry in case["oplog"]}
    images = {
        (
            bytes(image["_id"]["nsUUID"]),
            image["_id"]["ts"].time << 32 | image["_id"]["ts"].inc,
            int(image["_id"]["applyOpsIndex"]),
        ): encode(image["preImage"])
        for image in case.get("preImages", [])
    }

    def document(ns: str, key: bytes, _uuid: bytes | None) -> bytes | None:
        wanted = decode(key)
        for found in case.get("currentDocuments", {}).get(ns, []):
            if all(found.get(name) == value for name, value in wanted.items()):
                return encode(found)
        return None

    return Lookups(
        entry=lambda ts, _term: entries.get(ts),
        pre_image=lambda uuid, ts, index: images.get((uuid, ts, index)),
        document=document,
    )


def run(case: dict[str, Any], batch_size: int) -> tuple[list[bytes], Any]:
    options = case["options"]
    plan = Plan.open(
        scope_of(options["watch"]),
        {
            **options["changeStream"],
            **({"allChangesForCluster": True} if options["watch"]["scope"] == "cluster" else {}),
        },
        raw_data=options.get("rawData", False),
        parameters=options.get("serverParameters"),
    )
    engine = LocalEngine(plan, {"": lookups_of(case)})
    events: list[bytes] = []
    entries = [encode(entry) for entry in case["oplog"]]
    try:
        for start in range(0, len(entries), batch_size):
            engine.push("", entries[start : start + batch_size])
            events += engine.drain()
        events += engine.drain()
    except CommandError as error:
        return events, {"error": {"code": error.code, "codeName": error.code_name}}
    return events, "invalidated" if engine.done else "open"


@pytest.mark.parametrize("batch_size", [1, 1000])
@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_events(case: dict[str, Any], batch_size: int) -> None:
    events, end = run(case, batch_size)
    assert [list(decode(event)) for event in events] == case["fieldOrder"]
    for event, expected in zip(events, case["expected"], strict=True):
        shown = decode(event)
        del shown["_id"]
        if "wallTime" not in expected:
            del shown["wallTime"]
        assert encode(shown).hex() == encode(expected).hex(), (shown, expected)
    assert end == case["end"]


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_tokens(case: dict[str, Any]) -> None:
    events, _ = run(case, 1000)
    for event, parts in zip(events, case["tokens"], strict=True):
        token = ResumeToken.parse(encode(decode(event)["_id"]))
        uuid = parts["uuid"]
        assert {
            "clusterTime": bson.Timestamp(token.cluster_time >> 32, token.cluster_time & 0xFFFFFFFF),
            "version": token.version,
            "tokenType": token.kind,
            "txnOpIndex": token.txn_op_index,
            "fromInvalidate": token.from_invalidate,
            "uuid": None if token.uuid is None else Binary(token.uuid, 4),
        } == {**{name: parts[name] for name in parts if name != "eventIdentifier"}, "uuid": uuid}
        identifier = None if token.identifier is None else token.identifier.hex()
        assert identifier == encode(parts["eventIdentifier"]).hex()
