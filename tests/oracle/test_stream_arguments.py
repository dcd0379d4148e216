"""Options of `$changeStream`, targets and cursors of streams, beside the real server."""

from collections.abc import Iterator
from typing import Any, Final
from uuid import uuid4

import pytest
from bson import Binary, Code, DatetimeMS, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp

from tailrace.bson.documents import Symbol
from tests.oracle.comparison import Document
from tests.oracle.seeds import some
from tests.oracle.twins import Pair, Recalled, Twins, end_cursors

OPTIONS: Final = (
    "resumeAfter", "startAfter", "startAtOperationTime", "fullDocument", "fullDocumentBeforeChange",
    "allChangesForCluster", "showExpandedEvents", "showSystemEvents", "showMigrationEvents",
    "showRawUpdateDescription", "allowToRunOnConfigDB", "allowToRunOnSystemNS",
    "matchCollectionUUIDForUpdateLookup", "ignoreRemovedShards", "version", "supportedEvents",
    "showCommitTimestamp", "unknown",
)  # fmt: skip
VALUES: Final[tuple[Any, ...]] = (
    1, 0, -1, Int64(1), 1.5, "x", "", True, False, None, {}, {"a": 1}, [], [1], Binary(b"x"),
    Binary(b"\5\0\0\0\0"), Binary(bytes(16), 4), ObjectId(), DatetimeMS(0), Regex("a"), Code("x"),
    Code("x", {"a": 1}), Decimal128("1"), MinKey(), MaxKey(), Symbol("x"), {"_data": "x"}, {"_data": 1},
    {"_data": ""}, {"_data": "82", "_typeBits": 1}, "updateLookup", "required", "off",
)  # fmt: skip
MARK: Final = {"_data": "82FFFFFFFF000000012B0229296E04"}
STARTS: Final[tuple[tuple[str, Any], ...]] = (
    ("resumeAfter", MARK), ("startAfter", MARK), ("startAtOperationTime", Timestamp(2**32 - 1, 1)),
    ("resumeAfter", None), ("startAfter", None), ("startAtOperationTime", None), ("resumeAfter", {}),
    ("startAfter", {"_data": "zz"}), ("resumeAfter", {"_data": "82"}), ("startAtOperationTime", 1),
    ("unknown", 1), ("allChangesForCluster", True), ("fullDocument", "x"),
)  # fmt: skip
NAMES: Final[tuple[Any, ...]] = (
    "", "a$b", "$x", ".a", "a.", "a..b", "system.x", "system.views", "x" * 300, "$cmd", "$cmd.aggregate", 1,
    0, 2, 1.5, True, None, Int64(1), Decimal128("1"), Decimal128("2"), {}, [], 1.0,
)  # fmt: skip
SAMPLE: Final = 60
DATABASES: Final = ("test", "$db", "admin", "local", "config", "a$b", "x" * 63, "$external")


def compare(twins: Twins, commands: list[tuple[Document, str]]) -> None:
    different = []
    for command, database in commands:
        pair = twins.run(command, database)
        end_cursors(twins, pair)
        if pair.differences:
            different.append(f"{database} {command}: {pair.differences[0]}")
    assert not different, f"{len(different)} of {len(commands)}\n" + "\n".join(different[:30])


def opening(spec: Any, collection: Any = "c", **fields: Any) -> Document:
    return {"aggregate": collection, "pipeline": [{"$changeStream": spec}], "cursor": {}, **fields}


@pytest.fixture(scope="module", autouse=True)
def _quiet(twins: Twins) -> Iterator[None]:
    """Without no-ops, which would move the positions of one server only."""
    twins.run({"insert": "c", "documents": [{"_id": 0}]})
    twins.run({"setParameter": 1, "writePeriodicNoops": False}, "admin")
    yield
    twins.run({"setParameter": 1, "writePeriodicNoops": True}, "admin")


def test_every_option_with_every_type(twins: Twins) -> None:
    specs: list[Any] = [{option: value} for option in OPTIONS for value in VALUES]
    compare(twins, [(opening(spec), "test") for spec in (*specs, *VALUES)])


def test_all_combinations_of_start_points(twins: Twins) -> None:
    pairs = [
        {first: one, second: other} for first, one in STARTS for second, other in STARTS if first != second
    ]
    scopes: list[tuple[Any, str]] = [("c", "test"), (1, "test"), ("system.x", "test"), (1, "admin")]
    cases = [(opening(spec, name), database) for spec in pairs for name, database in scopes]
    compare(twins, some(cases, SAMPLE))


def test_names(twins: Twins) -> None:
    specs: list[Document] = [{}, {"allowToRunOnSystemNS": True}, {"allowToRunOnConfigDB": True}]
    compare(twins, [(opening(spec, name), db) for spec in specs for name in NAMES for db in DATABASES])


def test_cut_tokens(twins: Twins) -> None:
    began = twins.operation_time("began")
    twins.run({"insert": "c", "documents": [{"_id": "text"}]})
    found = twins.events({"startAtOperationTime": began}, collection="c", count=1)
    sides = {twins.real: found.real, twins.ours: found.ours}
    tokens = {side: reply["events"][0]["_id"]["_data"] for side, reply in sides.items()}
    different = []
    for length in range(0, len(tokens[twins.real]), 2):
        for start in ("resumeAfter", "startAfter"):
            for side, token in tokens.items():
                side.recalled["cut"] = {"_data": token[:length]}
            pair = twins.run(opening({start: Recalled("cut")}))
            end_cursors(twins, pair)
            if pair.differences:
                different.append(f"{length} {start} {pair.differences[0]}")
    assert not different, "\n".join(different)


def test_options_of_the_stable_api(twins: Twins) -> None:
    strict = {"apiVersion": "1", "apiStrict": True}
    compare(
        twins,
        [
            (opening({option: value}, **api), "test")
            for option in OPTIONS[5:]
            for value in (True, False)
            for api in ({"apiVersion": "1"}, strict)
        ],
    )


def test_read_concerns_collations_and_variables(twins: Twins) -> None:
    fields: list[Document] = [
        *({"readConcern": {"level": level}} for level in ("majority", "local", "snapshot", "linearizable")),
        *({"collation": {"locale": name, "strength": 1}} for name in ("en", "simple", "xx")),
        *({"let": let} for let in ({"a": 1}, {"A": 1}, {"a": "$x"}, {"a": {"$none": 1}})),
        *({"hint": hint} for hint in ("x", {"_id": 1})),
        {"collectionUUID": Binary.from_uuid(uuid4())},
        {"lsid": {"id": Binary.from_uuid(uuid4())}, "txnNumber": Int64(5)},
        {
            "lsid": {"id": Binary.from_uuid(uuid4())},
            "txnNumber": Int64(1),
            "autocommit": False,
            "startTransaction": True,
        },
    ]
    compare(twins, [(opening({}, **one), "test") for one in fields])


def test_fields_that_drivers_add(twins: Twins) -> None:
    names = ("$queryOptions", "$readPreference", "$audit", "$client", "$configServerState")
    commands = [(opening({}, **{name: value}), "test") for name in names for value in VALUES]
    compare(twins, some(commands, SAMPLE))


def test_sizes_of_batches(twins: Twins) -> None:
    began = twins.operation_time("before the inserts")
    for number in range(1, 7):
        twins.same({"insert": "c", "documents": [{"_id": number}]})
    for first in (0, 1, 2, 6, 7):
        for following in (None, 0, 1, 2, 6, 7):
            stream = opening({"startAtOperationTime": began}, cursor={"batchSize": first})
            pair = twins.run(stream)
            assert not pair.differences, pair.differences
            for _ in range(4):
                pair = more(twins, pair, {} if following is None else {"batchSize": following})
                assert not pair.differences, f"{first} {following} {pair.differences}"
            end_cursors(twins, pair)


def test_other_sessions_and_collections(twins: Twins) -> None:
    one, other = ({"lsid": {"id": Binary.from_uuid(uuid4())}} for _ in range(2))
    for given in (one, {}):
        opened = twins.run(opening({}, **given))
        for fields in ({}, one, other, {"collection": "other"}, {"collection": "$cmd.aggregate"}):
            found = more(twins, opened, fields)
            assert not found.differences, f"{given} {fields} {found.differences}"
        end_cursors(twins, opened)


def more(twins: Twins, pair: Pair, fields: Document) -> Pair:
    cursor: Recalled = twins.remember("cursor", pair, ["cursor", "id"])
    return twins.run({"getMore": cursor, "collection": "c", "maxTimeMS": 1, **fields})


def test_the_fields_of_explanations(twins: Twins) -> None:
    """The stages themselves are shown as those of this system."""
    command = {"aggregate": "c", "pipeline": [{"$changeStream": {}}], "cursor": {}}
    for explain in ({**command, "explain": True}, {"explain": command, "verbosity": "queryPlanner"}):
        pair = twins.both({**explain, "$db": "test"})
        assert list(pair.real) == list(pair.ours)
