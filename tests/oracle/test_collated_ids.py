"""Values of `_id` that the collation of a collection makes equal, beside the real server."""

from collections.abc import Iterator
from typing import Any, Final

import pytest
from bson import MinKey

from tests.oracle.twins import Twins

Command = dict[str, Any]
CLUSTERED: Final = {"clusteredIndex": {"key": {"_id": 1}, "unique": True, "name": "mine"}}
BY_ID: Final = {"_id": 1}
IDS: Final[tuple[Any, ...]] = (1, 2.5, 3, "a", "B", "c", "áb", {"k": "z"}, MinKey(), None, True)
COLLATIONS: Final[tuple[dict[str, Any] | None, ...]] = (
    None, {"locale": "en", "strength": 1}, {"locale": "en", "strength": 2}, {"locale": "en"},
)  # fmt: skip


def made(twins: Twins, name: str, collation: dict[str, Any] | None, *, is_clustered: bool) -> None:
    twins.run({"drop": name})
    given = {} if collation is None else {"collation": collation}
    twins.same({"create": name, **given, **(CLUSTERED if is_clustered else {})})
    twins.same({"insert": name, "documents": [{"_id": each, "n": 0} for each in IDS]})


def finds(hint: Any) -> Iterator[Command]:
    ranges: list[Command] = [{"min": {"_id": low}} for low in (1, "a", {"k": "Z"})]
    ranges += ({"max": {"_id": high}} for high in ("b", "AB", None))
    ranges += (
        {"min": {"_id": low}, "max": {"_id": high}} for low, high in ((1, "C"), ("A", "AB"), (3, 1), (1, 1))
    )
    ranges += ({"min": bound, "max": {"_id": 5}} for bound in ({"a": 1}, {"_id": 1, "a": 1}))
    for bounds in ranges:
        for sort in ({}, {"_id": 1}, {"_id": -1}, {"n": 1, "_id": -1}):
            for collation in ({}, {"collation": {"locale": "fr"}}):
                yield {"find": "ids", **bounds, "hint": hint, "sort": sort, **collation}
        yield {"find": "ids", **bounds, "hint": {"$natural": 1}}
        yield {"find": "ids", **bounds}
        yield {"find": "ids", **bounds, "hint": hint, "filter": {"_id": {"$lt": "b"}}}
    for condition in (
        "A",
        "ab",
        {"k": "Z"},
        {"$in": ["A", "b", 3]},
        {"$gt": "A"},
        {"$lte": "B"},
        {"$ne": "A"},
    ):
        for sort in ({}, {"_id": 1}, {"_id": -1}):
            for collation in ({}, {"collation": {"locale": "simple"}}, {"collation": {"locale": "en"}}):
                yield {"find": "ids", "filter": {"_id": condition}, "sort": sort, **collation}


@pytest.mark.parametrize("is_clustered", [False, True], ids=["indexed", "clustered"])
@pytest.mark.parametrize("collation", COLLATIONS, ids=str)
def test_reads(twins: Twins, collation: dict[str, Any] | None, *, is_clustered: bool) -> None:
    made(twins, "ids", collation, is_clustered=is_clustered)
    for command in finds("mine" if is_clustered else "_id_"):
        twins.same(command)


@pytest.mark.parametrize("is_clustered", [False, True], ids=["indexed", "clustered"])
@pytest.mark.parametrize("collation", COLLATIONS, ids=str)
def test_writes_and_their_events(
    twins: Twins, collation: dict[str, Any] | None, *, is_clustered: bool
) -> None:
    made(twins, "ids", collation, is_clustered=is_clustered)
    since = twins.operation_time()
    statements: list[Command] = [
        *({"insert": "ids", "documents": [{"_id": each, "n": 1}]} for each in ("A", "ab", {"k": "Z"}, 4)),
        *({"update": "ids", "updates": [{"q": {"_id": "A"}, "u": change}]} for change in (
            {"$set": {"m": 1}}, {"_id": "A", "m": 2}, {"m": 3})),
        {"update": "ids", "updates": [{"q": {"_id": "Q"}, "u": {"$set": {"_id": "q"}}, "upsert": True}]},
        {"update": "ids", "updates": [{"q": {"_id": "R"}, "u": {"$set": {"n": 9}}, "upsert": True}]},
        {"update": "ids", "updates": [{"q": {"_id": "r"}, "u": {"$inc": {"n": 1}}, "upsert": True}]},
        {"findAndModify": "ids", "query": {"_id": "C"}, "remove": True},
        {"delete": "ids", "deletes": [{"q": {"_id": "A"}, "limit": 1, "collation": {"locale": "simple"}}]},
        {"delete": "ids", "deletes": [{"q": {"_id": "a"}, "limit": 1}]},
        {"insert": "ids", "documents": [{"_id": "A", "n": "new"}]},
        {"aggregate": "ids", "pipeline": [{"$match": {"n": 0}}, {"$merge": {"into": "ids"}}], "cursor": {}},
        {"find": "ids", "sort": BY_ID},
    ]  # fmt: skip
    for statement in statements:
        pair = twins.both({**statement, "$db": "test"})
        # What is shown of a duplicate key is the key of the index there, which has no text.
        faults = [[fault["code"] for fault in each.pop("writeErrors", ())] for each in (pair.real, pair.ours)]
        assert faults[0] == faults[1], statement
        assert not pair.differences, f"{statement}\n" + "\n".join(map(str, pair.differences))
    stage = {"startAtOperationTime": since, "fullDocument": "updateLookup"}
    assert len(twins.same_events(stage, collection="ids", count=5)) >= 5
