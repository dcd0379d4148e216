"""The texts of frequent errors beside the real server; applications and their tests read some of them."""

from typing import Any

import pytest
from bson import Binary, Code, DatetimeMS, Decimal128, Int64, MaxKey, MinKey, Regex, Timestamp

from tests.oracle.comparison import Document
from tests.oracle.twins import Twins

DATABASE = "messages"
STORED: Document = {"_id": 1, "s": "x", "a": [1, 2], "n": 5, "o": {"p": 1}, "big": 2**62}
UPDATES: list[Any] = [
    {"$inc": {"s": 1}}, {"$inc": {"n": "x"}}, {"$mul": {"s": 1}}, {"$mul": {"n": "x"}},
    {"$inc": {"o.p": None}},
    {"$push": {"s": 1}}, {"$push": {"o.p": 1}}, {"$push": {"a": {"$each": 1}}}, {"$pull": {"s": 1}},
    {"$pop": {"a": 2}}, {"$pop": {"s": 1}}, {"$addToSet": {"s": 1}}, {"$addToSet": {"a": {"$each": "x"}}},
    {"$foo": {"a": 1}}, {"$set": 1}, {"$set": "x"}, {"$set": {"a": 1}, "b": 1}, {"$unset": {"_id": 1}},
    {"$set": {"n": 1}, "$inc": {"n": 1}}, {"$set": {"o": 1, "o.p": 2}}, {"$set": {"s.x": 1}},
    {"$set": {"o.p.x": 1}}, {"$rename": {"a": 1}}, {"$rename": {"a": "a"}}, {"$inc": {"big": 2**62}},
    {"$set": {"": 1}}, {"$set": {"a.": 1}}, {"$set": {"a.$": 1}}, {"$set": {"s.$[]": 1}},
    {"$pullAll": {"a": 1}}, {"$set": {"_id": 2}}, {"_id": 2, "x": 1},
]  # fmt: skip
OTHERS: list[Document] = [
    {"find": "c", "filter": {"$foo": 1}},
    {"find": "c", "filter": {"a": {"$foo": 1}}},
    {"find": "c", "filter": {"$and": []}},
    {"find": "c", "filter": {"$or": 1}},
    {"find": "c", "filter": {}, "projection": {"a": 1, "b": 0}},
    {"aggregate": "c", "pipeline": [{"$foo": 1}], "cursor": {}},
    {"aggregate": "c", "pipeline": [{"$changeStream": {}}, {"$foo": 1}], "cursor": {}},
    {"aggregate": "c", "pipeline": [{"$match": 1}], "cursor": {}},
    {"aggregate": "c", "pipeline": [], "x": 1},
    {"insert": "c", "documents": [{"_id": 1}]},
    {"insert": "c", "documents": []},
    {"create": "c"},
    {"drop": "nothing"},
    {"dropIndexes": "c", "index": "nothing"},
    {"getMore": 123456789012, "collection": "c"},
    {"foo": 1},
]

DUPLICATES: list[Any] = [
    1, Int64(3), 1.0, 1.5, 0.1 + 0.2, 1e300, 5e-324, float("nan"), float("-inf"), Decimal128("0.10"),
    Decimal128("NaN"), Decimal128("1E+6000"), "x", "x" * 151, None, True, {}, {"a": [1, [2.0, {}]]},
    {"r": Regex("a/b", "im")}, Code("f()"), Code("f()", {"a": 1}), MinKey(), MaxKey(), Timestamp(1, 2),
    DatetimeMS(-5), Binary(b"abc", 5), Binary(b"x" * 16, 4), Binary(b"x" * 16, 3),
]  # fmt: skip


@pytest.fixture(scope="module")
def filled(twins: Twins) -> Twins:
    twins.same({"insert": "c", "documents": [STORED]}, DATABASE)
    twins.same({"create": "d"}, DATABASE)
    return twins


def text(reply: Document) -> Any:
    errors = reply.get("writeErrors") or [reply]
    return errors[0].get("code"), errors[0].get("errmsg")


def require_same_text(twins: Twins, command: Document, database: str = DATABASE) -> None:
    pair = twins.run(command, database)
    assert text(pair.real)[0] is not None
    assert text(pair.ours) == text(pair.real)


@pytest.mark.parametrize("change", UPDATES, ids=str)
def test_updates(filled: Twins, change: Any) -> None:
    require_same_text(filled, {"update": "c", "updates": [{"q": {"_id": 1}, "u": change}]})


@pytest.mark.parametrize("command", OTHERS, ids=str)
def test_other_commands(filled: Twins, command: Document) -> None:
    require_same_text(filled, command)


def test_a_name_that_is_taken(filled: Twins) -> None:
    command = {"renameCollection": f"{DATABASE}.c", "to": f"{DATABASE}.d"}
    require_same_text(filled, command, "admin")


@pytest.mark.parametrize("value", DUPLICATES, ids=lambda value: str(value)[:30])
def test_duplicates(filled: Twins, value: Any) -> None:
    filled.run({"drop": "unique"}, DATABASE)
    filled.same({"insert": "unique", "documents": [{"_id": value}]}, DATABASE)
    require_same_text(filled, {"insert": "unique", "documents": [{"_id": value}]})


@pytest.mark.parametrize("value", DUPLICATES, ids=lambda value: str(value)[:30])
def test_duplicates_of_a_clustered_collection(filled: Twins, value: Any) -> None:
    """Its faults have codes of their own, with texts of the server's source."""
    filled.run({"drop": "clustered"}, DATABASE)
    filled.same({"create": "clustered", "clusteredIndex": {"key": {"_id": 1}, "unique": True}}, DATABASE)
    filled.same({"insert": "clustered", "documents": [{"_id": value}]}, DATABASE)
    filled.same({"insert": "clustered", "documents": [{"_id": value}]}, DATABASE)
