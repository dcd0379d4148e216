"""Update operators on every kind of target, beside the real server."""

import struct
from collections.abc import Iterator
from typing import Any, Final

import pytest
from bson import DatetimeMS, Decimal128, Int64, MinKey, Regex

from tests.oracle.comparison import Document
from tests.oracle.twins import Twins
from tests.oracle.writing import Case, same_updates

ARGUMENTS: Final[Document] = {
    "$set": 1, "$setOnInsert": 1, "$unset": "", "$inc": 1, "$mul": 2, "$min": 0, "$max": 5, "$push": 1,
    "$addToSet": 1, "$pull": 1, "$pullAll": [1], "$pop": 1, "$bit": {"or": 1}, "$currentDate": True,
    "$rename": "other",
}  # fmt: skip
TARGETS: Final[tuple[Document, ...]] = (
    {}, {"a": 1}, {"a": None}, {"a": "x"}, {"a": []}, {"a": {"b": 1}}, {"a": {"b": [1, 2]}},
    {"a": [1, {"b": 2}]}, {"a": [[1, 5], [5]]},
)  # fmt: skip
PATHS: Final = (
    "a", "a.b", "a.b.c", "a.0", "a.0.b", "a.01", "a.1.b", "a.3", "a.-1", "a.$", "a.$.b", "a.$[]", "a.$[].b",
    "a.b.$[]", "a.b.$[].c", "a.$[].$[]", "a.", ".a", "", "a..b", "_id", "_id.x", "$a", "a.$b",
)  # fmt: skip
DOCUMENTS: Final = {"docs": [{"k": 1, "v": 1}, {"k": 2, "v": 2}, {"k": 2, "v": 3}]}
MIXED: Final = [1, 2.0, "x", None, {"a": 1}, {"a": 2, "b": 1}, [1, 2], True, Decimal128("2"), Regex("x")]


@pytest.mark.parametrize("operator", ARGUMENTS)
def test_paths(twins: Twins, operator: str) -> None:
    def cases() -> Iterator[Case]:
        for target in TARGETS:
            for path in PATHS:
                yield Case(target, {operator: {path: ARGUMENTS[operator]}})
        for path in ("a.$", "a.$.b", "a.$[]"):
            yield Case({"a": [1, {"b": 2}]}, {operator: {path: ARGUMENTS[operator]}}, {"a": 1})
            yield Case({"a": [1, {"b": 2}]}, {operator: {path: ARGUMENTS[operator]}}, {"a.b": 2})

    same_updates(twins, "paths" + operator[1:], cases())


@pytest.mark.parametrize(
    ("filters", "update"),
    [
        ([{"x.k": 1}], {"$set": {"docs.$[x].v": 3}}),
        ([{"x.k": 2}], {"$set": {"docs.$[x].v": 3}}),
        ([{"x.k": 3}], {"$set": {"docs.$[x].v": 3}}),
        ([{"x.k": 1}], {"$set": {"docs.$[x].v": 1}}),
        ([{"x.k": 1}], {"$unset": {"docs.$[x].v": 1, "docs.$[x].w": 1}}),
        ([{"x.k": 1}], {"$unset": {"docs.$[x]": 1}}),
        ([{"x.k": 1}], {"$set": {"docs.$[x].a.b": 1}}),
        ([{"x.k": 1}], {"$set": {"docs.$[x]": 1}}),
        ([{"x.k": 1}, {"y.k": 1}], {"$set": {"docs.$[x].v": 3, "docs.$[y].w": 1}}),
        ([{"x.k": 1}, {"y.k": 2}], {"$set": {"docs.$[x].v": 3, "docs.$[y].w": 1}}),
        ([{"x.k": 1}, {"y.v": 1}], {"$set": {"docs.$[x].v": 3, "docs.$[y].v": 1}}),
        ([], {"$set": {"docs.$[].v": 3}}),
        ([], {"$inc": {"docs.$[].v": 0}}),
        ([], {"$push": {"docs.$[].v": 0}}),
        ([{"x": 1}], {"$set": {"docs.$[x].v": 3}}),
        ([{"x": 1}], {"$set": {"docs.$[y].v": 3}}),
        ([{"x": 1}], {"$set": {"docs.0": 3}}),
        ([{"x": 1}, {"x": 2}], {"$set": {"docs.$[x]": 3}}),
        ([{"x": 1, "y": 1}], {"$set": {"docs.$[x]": 3}}),
        ([{}], {"$set": {"docs.$[x]": 3}}),
        ([{"X": 1}], {"$set": {"docs.$[X]": 3}}),
        ([{"x_": 1}], {"$set": {"docs.$[x_]": 3}}),
        ([{"$or": [{"x.k": 1}, {"x.v": 2}]}], {"$set": {"docs.$[x].z": 3}}),
        ([{"$or": [{"x.k": 1}, {"y.v": 2}]}], {"$set": {"docs.$[x].z": 3}}),
        ([{"$and": []}], {"$set": {"docs.$[x].z": 3}}),
        ([{"$expr": True}], {"$set": {"docs.$[x].z": 3}}),
        ([{"$jsonSchema": {}}], {"$set": {"docs.$[x].z": 3}}),
        ([{"$text": {"$search": "x"}}], {"$set": {"docs.$[x].z": 3}}),
        ([{"x": {"$foo": 1}}], {"$set": {"docs.$[x].z": 3}}),
        ([{"x": {"$elemMatch": {"k": 1}}}], {"$set": {"docs.$[x].z": 3}}),
        ([{"x": 1}], {"a": 1}),
        ([{"X": 1}], {"a": 1}),
        ([{"x": 1}], [{"$set": {"a": 1}}]),
        ([], [{"$set": {"a": 1}}]),
        ([{"x": {"$foo": 1}}], {"$foo": {"docs.$[x].z": 3}}),
    ],
    ids=str,
)
def test_elements(twins: Twins, filters: list[Document], update: Any) -> None:
    same_updates(twins, "elements", [Case(DOCUMENTS, update, options={"arrayFilters": filters})])


def test_nested_elements(twins: Twins) -> None:
    def case(document: Document, update: Document, *filters: Document) -> Case:
        return Case(document, update, options={"arrayFilters": list(filters)})

    one, two = {"a": [{"v": [1, 2, 3]}]}, {"a": [{"v": [1, 2]}, {"v": [2, 5, 2]}]}
    updates: list[Document] = [
        {"$set": {"a.$[].v.$[x]": 9}}, {"$inc": {"a.$[].v.$[x]": 1}}, {"$unset": {"a.$[].v.$[x]": 1}},
    ]  # fmt: skip
    same_updates(
        twins,
        "nested",
        [case(base, u, {"x": value}) for base in (one, two) for u in updates for value in (1, 2, 5, 9)]
        + [case(base, {"$push": {"a.$[].v": {"$each": [3], "$slice": 9}}}) for base in (one, two)]
        + [case(base, {"$addToSet": {"a.$[].v": 5}}) for base in (one, two)]
        + [case({"a": [[1], [2]]}, {"$set": {"a.$[x].3": 3}}, {"x": 1})],
    )


PUSHES: Final[tuple[Any, ...]] = (
    1, [1, 2], {"a": 1}, None, {"$each": 1}, {"$each": []}, {"$each": [9], "$position": 0},
    {"$each": [9], "$position": 2}, {"$each": [9], "$position": 3}, {"$each": [9], "$position": 10},
    {"$each": [9], "$position": -1}, {"$each": [9], "$position": -10}, {"$each": [9], "$position": 1.5},
    {"$each": [9], "$position": "x"}, {"$each": [], "$position": 0}, {"$each": [9], "$slice": 0},
    {"$each": [9], "$slice": 3}, {"$each": [9], "$slice": 4}, {"$each": [9], "$slice": 10},
    {"$each": [9], "$slice": -2}, {"$each": [], "$slice": 3}, {"$each": [], "$slice": 2},
    {"$each": [9], "$slice": None}, {"$each": [9], "$slice": 1.5}, {"$each": [9], "$sort": 1},
    {"$each": [], "$sort": 1}, {"$each": [], "$sort": -1}, {"$each": [9], "$sort": {"a": -1}},
    {"$each": [9], "$sort": 2}, {"$each": [9], "$sort": "x"}, {"$each": [9], "$sort": {}},
    {"$each": [9], "$sort": {"": 1}}, {"$each": [9], "$sort": {"a": 2}}, {"$each": [9], "$sort": True},
    {"$each": [9, 0], "$sort": 1, "$slice": -2, "$position": 1}, {"$each": [1], "x": 1},
    {"x": 1, "$each": [1]}, {"$slice": 1}, {"$slice": 1, "$each": [1]}, {"$foo": 1},
    {"$each": [{"a": 2}, {"a": 1}], "$sort": {"a": 1}}, {"$each": [1], "$slice": Int64(2**40)},
)  # fmt: skip


def test_pushes(twins: Twins) -> None:
    bases: tuple[Any, ...] = ([3, 1, 2], [1, 2, 3], [], [{"a": 3}, {"a": 0}])
    documents: list[Document] = [{}, {"a": 5}, *({"a": base} for base in bases)]
    cases = [Case(base, {"$push": {"a": push}}) for base in documents for push in PUSHES]
    cases += [Case(base, {"$addToSet": {"a": push}}) for base in documents for push in PUSHES]
    same_updates(twins, "pushes", cases)


PULLS: Final[tuple[Any, ...]] = (
    1, 2, "x", None, {"a": 1}, {"b": 1, "a": 2}, [1, 2], [1], True, Regex("x"), {"$gt": 1}, {"$in": [1, "x"]},
    {"$in": [Regex("x")]}, {"a": {"$gt": 0}}, {"a": {"$exists": False}}, {"$exists": True}, {"$ne": 1},
    {"$not": {"$gt": 1}}, {"$elemMatch": {"$gt": 1}}, {"$or": [{"a": 1}, {"a": 2}]}, {"$and": []},
    {"$type": "string"}, {"$foo": 1}, {"$eq": {"a": 1}}, {}, {"$size": 2}, {"$regex": "x"},
    {"a": 1, "$gt": 1}, {"$gt": 1, "a": 1}, {"$expr": True}, {"$and": [{"$expr": True}]}, {"$jsonSchema": {}},
    {"a": 1, "$expr": True}, {"$comment": "x"}, {"$nor": [{"a": 1}]}, {"$ref": 1}, {"$id": 1},
    {"$alwaysTrue": 1}, {"$mod": [2, 0]}, MinKey(),
)  # fmt: skip


def test_pulls(twins: Twins) -> None:
    documents: list[Document] = [{"a": MIXED}, {}, {"a": 5}, {"a": []}]
    cases = [Case(base, {"$pull": {"a": pull}}) for base in documents for pull in PULLS]
    cases += [Case(base, {"$pullAll": {"a": [pull]}}) for base in documents for pull in PULLS]
    cases += [Case(base, {"$pullAll": {"a": 1}}) for base in documents]
    counts: tuple[Any, ...] = (1, -1, 0, 2, 1.0, 1.5, "x", None, True, Decimal128("1"), Int64(-1), {})
    for count in counts:
        cases += [Case(base, {"$pop": {"a": count}}) for base in documents]
    same_updates(twins, "pulls", cases)


NUMBERS: Final = (
    1, 0, -1, 1.5, 0.0, -0.0, Int64(5), Int64(0), Decimal128("1.5"), Decimal128("0.00"), Decimal128("NaN"),
    2**31 - 1, Int64(2**63 - 1), Int64(-(2**63)), float("inf"), float("nan"), 1e308, Decimal128("-Infinity"),
    Decimal128("9.999999999999999999999999999999999E+6144"),
)  # fmt: skip
NANS: Final = (
    *(struct.unpack("<d", bytes.fromhex(bits))[0] for bits in ("000000000000f8ff", "896745230100f8ff")),
    *(Decimal128.from_bid(b"\5" + bytes(14) + sign) for sign in (b"\x7c", b"\xfc")),
    Decimal128("sNaN"),
)
"""With a sign or a payload."""


@pytest.mark.parametrize("operator", ["$inc", "$mul", "$min", "$max", "$set"])
def test_numbers(twins: Twins, operator: str) -> None:
    values = (*NUMBERS, None, "x", True, [1], {"x": 1})
    cases = [Case({"a": value}, {operator: {"a": other}}) for value in values for other in values]
    some = (1, -0.0, float("nan"), Decimal128("NaN"), Decimal128("1.5"), float("inf"))
    pairs = [(nan, other) for nan in NANS for other in (*some, *NANS)]
    cases += [Case({"a": one}, {operator: {"a": other}}) for one, other in pairs]
    cases += [Case({"a": other}, {operator: {"a": one}}) for one, other in pairs]
    same_updates(twins, "numbers" + operator[1:], cases)


def test_bits_and_dates(twins: Twins) -> None:
    bits: tuple[Any, ...] = (
        {"and": 5}, {"or": 5}, {"xor": 5}, {"and": 5, "or": 8}, {"or": 8, "and": 5}, {"and": Int64(5)},
        {"and": 5.0}, {"and": "x"}, {"foo": 1}, {}, 1, {"or": Int64(2**40)}, {"and": -1}, {"xor": True},
    )  # fmt: skip
    dates: tuple[Any, ...] = (
        True, False, {"$type": "date"}, {"$type": "timestamp"}, {"$type": 9}, 1, "date", None, {},
        {"$type": "date", "x": 1}, {"type": "date"},
    )  # fmt: skip
    documents: list[Document] = [
        {"a": 12}, {"a": Int64(12)}, {"a": 12.0}, {}, {"a": "x"}, {"a": DatetimeMS(0)},
    ]  # fmt: skip
    cases = [Case(base, {"$bit": {"a": spec}}) for base in documents for spec in bits]
    cases += [Case(base, {"$currentDate": {"a": spec}}) for base in documents for spec in dates]
    same_updates(twins, "bits", cases)


@pytest.mark.parametrize(
    "update",
    [
        {"$set": {"a": 1, "a.b": 2}, "$inc": {"x": "y"}},
        {"$inc": {"x": "y"}, "$set": {"a": 1, "a.b": 2}},
        {"$set": {"a": 1, "a.b": 2}, "$foo": {"x": "y"}},
        {"$set": {"a": 1}, "$inc": {"a": "y"}},
        {"$set": {"a.$[x]": 1, "b": 1, "b.c": 1}},
        {"$set": {"b": 1, "b.c": 1, "a.$[x]": 1}},
        {"$set": {"b": 1, "": 1, "b.c": 1}},
        {"$set": {"a.$.b.$": 1}},
        {"$set": {"$[]": 1}},
        {"$set": {"$.a": 1}},
        {"$set": {"a.$[": 1}},
        {"$set": {}},
        {"$set": {}, "$unset": {}},
        {"$set": 1},
        {"$set": {"a": 1}, "b": 1},
        {"a": 1, "$set": {"b": 1}},
        {"$v": 2, "$set": {"b": 3}},
        {"$v": 2, "diff": {"u": {"b": 3}}},
        {"$rename": {"a": "a"}},
        {"$rename": {"a": "a.b"}},
        {"$rename": {"a.b": "a"}},
        {"$rename": {"a": 1}},
        {"$rename": {"a": ""}},
        {"$rename": {"": "b"}},
        {"$rename": {"a.0": "b"}},
        {"$rename": {"b": "a.0"}},
        {"$rename": {"a.$": "c"}},
        {"$rename": {"b": "a.$[]"}},
        {"$rename": {"x": "y"}},
        {"$rename": {"x": "b.c"}},
        {"$rename": {"b.x": "y"}},
        {"$rename": {"a": "b.y"}},
        {"$rename": {"a": "b"}},
        {"$rename": {"a": "c", "b": "c"}},
        {"$rename": {"a": "b", "b": "c"}},
        {"$rename": {"a": "x.y", "b": "x.z"}},
        {"$rename": {"_id": "b"}},
        {"$rename": {"a": "_id"}},
        {"$set": {"_id": 1.0}},
        {"$unset": {"_id": 1}},
        {"$inc": {"_id": 0}},
        {"$inc": {"_id": 1, "b": "x"}},
    ],
    ids=str,
)
def test_faults(twins: Twins, update: Document) -> None:
    same_updates(
        twins,
        "faults",
        [
            Case({"a": [{"c": 1}], "b": 2}, update),
            Case({"a": [{"c": 1}], "b": 2}, update, {"a": {"$foo": 1}}),
            Case(None, update),
            Case(None, update, options={"upsert": True}),
        ],
    )


DOLLARS: Final[tuple[Document, ...]] = (
    {"$v": 1}, {"$x": 1, "a": 1}, {"$ref": "x"}, {"$ref": 1}, {"$id": 1}, {"$db": "x"},
    {"$ref": "x", "$id": 1}, {"$ref": "x", "$id": 1, "$db": 1}, {"a": {"$x": 1}}, {"a": {"$ref": 1}},
    {"a": {"b.c": 1}}, {"a": {"": 1}}, {"_id": {"$x": 1}},
    {"_id": [1]}, {"_id": Regex("x")}, {"_id": {"a": {"$x": 1}}},
)  # fmt: skip


def test_dollar_names(twins: Twins) -> None:
    def cases() -> Iterator[Case]:
        for fields in DOLLARS:
            for update in ({"$set": fields}, fields, {"q": 1, **fields}, [{"$set": {"$literal": fields}}]):
                yield Case({}, update)
                yield Case({"$x": 1, "$ref": "c"}, update)
                yield Case(None, update)
                yield Case(None, update, options={"upsert": True})
        yield Case({"$x": {"a": 1}}, {"$set": {"$x.a": 2}})
        yield Case({"$x": {"a": 1}}, {"$unset": {"$x": 2}})
        yield Case({"$x": {"a": 1}}, {"$rename": {"$x": "y"}})
        yield Case({"x": {"a": 1}}, {"$rename": {"x": "$y"}})

    same_updates(twins, "dollars", cases())
