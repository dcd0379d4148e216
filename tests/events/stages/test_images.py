"""Pre- and post-images: which events show them, where they are read, and when a missing one is an error."""

from typing import Any

import pytest
from bson import Int64, Timestamp

from tailrace.bson.documents import decode, encode
from tailrace.errors import CommandError
from tailrace.events.stages.lookups import Lookups
from tests.events.stages.streams import (
    UUID,
    at,
    code_of,
    command,
    delete,
    entry,
    insert,
    open_engine,
    stream,
    types,
    update,
)

OPLOG = [
    insert(1, 1, a=1),
    update(2, 1, {"u": {"a": 2}}),
    entry(3, "u", {"_id": 1, "a": 3}, o2={"_id": 1}),
    delete(4, 1),
]
BEFORE = {at(2): {"_id": 1, "a": 1}, at(3): {"_id": 1, "a": 2}, at(4): {"_id": 1, "a": 3}}
NOW = {"_id": 1, "a": "now"}


def pre_image(uuid: bytes, ts: int, index: int) -> bytes | None:
    return encode(BEFORE[ts]) if uuid == bytes(UUID) and index == 0 and ts in BEFORE else None


def document(ns: str, key: bytes, uuid: bytes | None) -> bytes | None:
    return encode(NOW) if (ns, decode(key), uuid) == ("shop.orders", {"_id": 1}, None) else None


STORED = {"": Lookups(pre_image=pre_image, document=document)}
MISSING = "no such field"


def images(spec: dict[str, Any], lookups: dict[str, Lookups]) -> list[tuple[Any, Any]]:
    """Return (before, after) of each event."""
    return [
        (event.get("fullDocumentBeforeChange", MISSING), event.get("fullDocument", MISSING))
        for event in stream(OPLOG, spec, lookups=lookups)
    ]


@pytest.mark.parametrize("before", ["off", "whenAvailable", "required"])
@pytest.mark.parametrize("after", ["default", "updateLookup", "whenAvailable", "required"])
def test_the_images_that_each_event_shows(before: str, after: str) -> None:
    found = images({"fullDocumentBeforeChange": before, "fullDocument": after}, STORED)
    shown = {"default": MISSING, "updateLookup": NOW}.get(after, {"_id": 1, "a": 2})
    pre = [MISSING] * 4 if before == "off" else [MISSING, *BEFORE.values()]
    assert found == list(zip(pre, [{"_id": 1, "a": 1}, shown, {"_id": 1, "a": 3}, MISSING], strict=True))


def test_missing_images_are_null() -> None:
    spec = {"fullDocumentBeforeChange": "whenAvailable", "fullDocument": "whenAvailable"}
    expected = [(MISSING, {"_id": 1, "a": 1}), (None, None), (None, {"_id": 1, "a": 3}), (None, MISSING)]
    assert images(spec, {"": Lookups()}) == expected
    assert images({**spec, "fullDocument": "updateLookup"}, {"": Lookups()}) == expected


@pytest.mark.parametrize("option", ["fullDocumentBeforeChange", "fullDocument"])
def test_a_missing_required_image_ends_the_stream(option: str) -> None:
    engine = open_engine({option: "required"})
    operation = {
        "op": "u",
        "ns": "shop.orders",
        "ui": UUID,
        "o": {"$v": 2, "diff": {"u": {"a": 1}}},
        "o2": {},
    }
    session: dict[str, Any] = {"lsid": {"id": UUID}, "txnNumber": Int64(77)}
    engine.push("", [insert(1, 1), command(2, {"applyOps": [operation]}, **session), insert(3, 3)])
    assert len(engine.drain()) == 1
    with pytest.raises(CommandError) as raised:
        engine.drain()
    assert raised.value.code == 47
    for named in ("update", "shop.orders", "1700000000, 2", "77"):
        assert named in raised.value.message


def test_the_lookup_of_the_current_document_can_require_the_same_collection() -> None:
    spec = {"fullDocument": "updateLookup", "matchCollectionUUIDForUpdateLookup": True}
    for uuid, found in ((bytes(UUID), NOW), (bytes(16), None)):

        def of_collection(_ns: str, _key: bytes, wanted: bytes | None, stored: bytes = uuid) -> bytes | None:
            return encode(NOW) if wanted == stored else None

        (event,) = stream([OPLOG[1]], spec, lookups={"": Lookups(document=of_collection)})
        assert event["fullDocument"] == found


def test_an_ambiguous_lookup_ends_the_stream() -> None:
    def two(_ns: str, _key: bytes, _uuid: bytes | None) -> bytes | None:
        raise CommandError(280, "two documents")

    assert code_of(OPLOG, {"fullDocument": "updateLookup"}, lookups={"": Lookups(document=two)}) == 280


def test_the_error_of_a_lookup_follows_the_events_before_it() -> None:
    def broken(_uuid: bytes, ts: int, _index: int) -> bytes | None:
        if ts == at(3):
            raise CommandError(22, "the store is damaged")
        return pre_image(bytes(UUID), ts, 0)

    lookups = {"": Lookups(pre_image=broken)}
    engine = open_engine({"fullDocumentBeforeChange": "whenAvailable"}, lookups=lookups)
    engine.push("", OPLOG)
    assert types([decode(raw) for raw in engine.drain()]) == ["insert", "update"]
    with pytest.raises(CommandError) as raised:
        engine.drain()
    assert raised.value.code == 22


@pytest.mark.parametrize(
    ("diff", "code"),
    [({"u": {"a": 1}, "i": {"a": 1}}, 4728000), ({"sa": {"a": True, "l": 1, "u1": 1}}, 12495901)],
)
def test_an_invalid_diff_is_an_error_when_the_post_image_is_computed(diff: dict[str, Any], code: int) -> None:
    oplog = [update(2, 1, diff)]
    assert types(stream(oplog)) == ["update"]
    assert code_of(oplog, {"fullDocument": "whenAvailable"}, lookups=STORED) == code


@pytest.mark.parametrize(
    "condition",
    [
        {"operationType": "insert", "fullDocument.a": 1},
        {"$and": [{"$and": [{"operationType": "insert", "fullDocument.a": 1}]}]},
        {"$nor": [{"operationType": {"$ne": "insert"}}, {"fullDocument.a": 7}]},
        {"$expr": {"$eq": ["$operationType", "insert"]}, "fullDocument": {"$exists": True}},
    ],
)
def test_the_conditions_that_need_no_image_are_evaluated_before_the_lookup(condition: dict[str, Any]) -> None:
    # With a collation the filter is not pushed down, so it is not the oplog scan that drops the other events.
    options: dict[str, Any] = {"collation": {"locale": "en"}}
    spec = {"fullDocument": "required", "fullDocumentBeforeChange": "required"}
    match: dict[str, Any] = {"$match": condition}
    for pipeline in ([match], [{"$match": {}}, match]):
        assert types(stream(OPLOG, spec, pipeline, **options)) == ["insert"]


@pytest.mark.parametrize(
    "pipeline",
    [
        [{"$match": {"fullDocument.a": 1}}],
        [{"$match": {"$or": [{"operationType": "insert"}, {"fullDocumentBeforeChange.a": 1}]}}],
        [{"$match": {"$expr": {"$eq": [{"$getField": "fullDocument"}, 1]}}}],
        [{"$match": {"$expr": {"$eq": [{"$type": "$$ROOT"}, "array"]}}}],
        [{"$match": {"ns.coll": {"$size": 1}}}],
        [{"$match": {"ns": {"$elemMatch": {"$gt": 1}}}}],
        [{"$project": {"operationType": 1}}],
        [{"$redact": "$$PRUNE"}],
    ],
)
def test_stages_that_may_read_images_run_after_the_lookup(pipeline: Any) -> None:
    spec = {"fullDocument": "required", "fullDocumentBeforeChange": "required"}
    assert code_of(OPLOG, spec, pipeline) == 47


def test_no_image_is_required_before_the_resume_point() -> None:
    deleted = [{"op": "d", "ns": "shop.orders", "ui": UUID, "o": {"_id": key}} for key in range(3)]
    oplog = [command(1, {"applyOps": deleted}, ui=None)]
    tokens = [event["_id"] for event in stream(oplog)]
    stored = Lookups(pre_image=lambda _uuid, _ts, index: encode({"_id": index}) if index else None)
    spec = {"fullDocumentBeforeChange": "required"}
    assert code_of(oplog, spec, lookups={"": stored}) == 47
    (last,) = stream(oplog, {**spec, "resumeAfter": tokens[1]}, lookups={"": stored})
    assert last["fullDocumentBeforeChange"] == {"_id": 2}


def test_filters_see_the_images() -> None:
    spec = {"fullDocument": "required", "fullDocumentBeforeChange": "required"}
    for condition, times in (
        ({"fullDocument.a": 2}, [2]),
        ({"fullDocumentBeforeChange.a": 3}, [4]),
        ({"$expr": {"$eq": [{"$getField": "fullDocumentBeforeChange"}, {"_id": 1, "a": 2}]}}, [3]),
        ({"$expr": {"$lt": ["$fullDocumentBeforeChange.a", "$fullDocument.a"]}}, [1, 2, 3]),
    ):
        found = stream(OPLOG, spec, [{"$match": condition}], lookups=STORED)
        assert [event["clusterTime"] for event in found] == [Timestamp(1_700_000_000, i) for i in times]
