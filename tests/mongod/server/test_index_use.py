"""Queries return the same documents with every plan: an index may save work, never change results."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from bson import Decimal128, Int64, ObjectId, Timestamp
from bson.datetime_ms import DatetimeMS
from pymongo.database import Database

from tests.mongod.server.running import Document

Db = Database[Document]

SEEDS = range(6)


def scalar(rng: random.Random) -> Any:
    makers: list[Callable[[], Any]] = [
        lambda: rng.randint(-3, 3),
        lambda: rng.choice([-1.5, 0.0, 2.0, float("nan"), float("inf")]),
        lambda: Int64(rng.choice([1, 2**60])),
        lambda: Decimal128(rng.choice(["1", "2.5", "-0"])),
        lambda: rng.choice(["", "a", "b", "a\0b", "ab"]),
        lambda: rng.choice([True, False]),
        lambda: None,
        lambda: DatetimeMS(rng.randint(-2, 2)),
        lambda: Timestamp(rng.randint(0, 2), 1),
        lambda: ObjectId(bytes([rng.randint(0, 2)]) * 12),
        lambda: {"x": rng.randint(0, 2)},
    ]
    return rng.choice(makers)()


def value(rng: random.Random) -> Any:
    kind = rng.random()
    if kind < 0.65:
        return scalar(rng)
    if kind < 0.85:
        return [scalar(rng) for _ in range(rng.randint(0, 3))]
    if kind < 0.95:
        return {"b": scalar(rng), "c": scalar(rng)}
    return [{"b": scalar(rng), "c": scalar(rng)} for _ in range(rng.randint(0, 3))]


def document(rng: random.Random, number: int) -> Document:
    made: Document = {"_id": number}
    for name in ("a", "d"):
        if rng.random() < 0.85:
            # One field with arrays at a time: two arrays cannot be in one index.
            made[name] = value(rng) if name == "a" else scalar(rng)
    return made


def condition(rng: random.Random) -> Any:
    def one() -> Document:
        operator = rng.choice(["$eq", "$gt", "$gte", "$lt", "$lte", "$in"])
        return {
            operator: [scalar(rng) for _ in range(rng.randint(0, 3))] if operator == "$in" else scalar(rng)
        }

    kind = rng.random()
    if kind < 0.3:
        return scalar(rng)
    if kind < 0.6:
        return one()
    if kind < 0.9:
        return {**one(), **one()}
    return {"$elemMatch": one()}


def query(rng: random.Random) -> Document:
    made = {rng.choice(["a", "a.b", "a.c", "d", "_id"]): condition(rng) for _ in range(rng.randint(1, 2))}
    return {"$and": [made, {"d": condition(rng)}]} if rng.random() < 0.2 else made


INDEXES: list[list[tuple[str, int]]] = [
    [("a", 1)],
    [("a", -1)],
    [("d", 1), ("a", -1)],
    [("a.b", 1), ("a.c", 1)],
    [("a", 1), ("d", -1)],
    [("d", -1)],
]


@pytest.mark.parametrize("seed", SEEDS)
def test_with_and_without_indexes(database: Db, seed: int) -> None:
    rng = random.Random(seed)
    documents = [document(rng, number) for number in range(150)]
    late, early = documents[100:], documents[:100]
    database.c.insert_many(early)
    for keys in rng.sample(INDEXES, 3):
        database.c.create_index(keys)
    database.c.create_index("d", sparse=True, name="sparse")
    database.c.create_index("d", partialFilterExpression={"a": {"$gt": 0}}, name="partial")
    database.c.insert_many(late)
    for number in range(0, 150, 7):
        changed = document(rng, number)
        changed.pop("_id")
        database.c.replace_one({"_id": number}, changed)
    for _ in range(60):
        wanted = query(rng)
        scanned = sorted(d["_id"] for d in database.c.find(wanted, {"_id": 1}).hint([("$natural", 1)]))
        chosen = [d["_id"] for d in database.c.find(wanted, {"_id": 1}).batch_size(rng.choice([3, 1000]))]
        assert sorted(chosen) == scanned, f"seed {seed}: {wanted}"
        assert database.c.count_documents(wanted) == len(scanned), f"seed {seed}: {wanted}"


@pytest.mark.parametrize("seed", SEEDS)
def test_sorting_with_and_without_indexes(database: Db, seed: int) -> None:
    rng = random.Random(seed)
    has_arrays = seed % 2
    documents = [document(rng, number) for number in range(120)]
    if not has_arrays:
        documents = [{k: None if isinstance(v, list) else v for k, v in d.items()} for d in documents]
    database.c.insert_many(documents)
    for keys in INDEXES[:3] + INDEXES[4:]:
        database.c.create_index(keys)
    for _ in range(25):
        wanted = query(rng) if rng.random() < 0.6 else {}
        paths = rng.sample(["a", "d", "_id"], rng.randint(1, 2))
        order = [(path, rng.choice([1, -1])) for path in paths]
        order += [] if "_id" in paths else [("_id", 1)]
        scanned = [d["_id"] for d in database.c.find(wanted).sort(order).hint([("$natural", 1)])]
        chosen = [d["_id"] for d in database.c.find(wanted).sort(order).batch_size(7)]
        assert chosen == scanned, f"seed {seed}: {wanted} sorted by {order}"
        short = [d["_id"] for d in database.c.find(wanted).sort(order).skip(2).limit(5)]
        assert short == scanned[2:7], f"seed {seed}: {wanted} sorted by {order}"


@pytest.mark.parametrize("seed", SEEDS)
def test_collations_with_and_without_indexes(database: Db, seed: int) -> None:
    """Indexes with the query's collation, with another one, and with none."""
    rng = random.Random(seed)
    letters = ["a", "A", "b", "B", "ab", "Ab", "á", "", "z", "Z9", "z10"]
    collations: list[Document] = [
        {"locale": "en", "strength": 2},
        {"locale": "en", "numericOrdering": True},
        {"locale": "simple"},
    ]
    default = rng.choice(collations)
    database.create_collection("c", collation=default)
    for collation in collations:
        database.c.create_index(
            [("a", rng.choice([1, -1])), ("n", 1)],
            name=f"x{collations.index(collation)}",
            collation=collation,
        )
    rows = [
        {"_id": f"{n}", "a": rng.choice([rng.choice(letters), n % 4, None]), "n": n % 3} for n in range(90)
    ]
    database.c.insert_many(rows)
    for _ in range(30):
        options = {} if rng.random() < 0.3 else {"collation": rng.choice(collations)}
        value, other = rng.choice(letters), rng.choice(letters)
        wanted: Document = rng.choice(
            [
                {"a": value},
                {"a": {"$gte": value}},
                {"a": {"$gt": value, "$lt": other}},
                {"a": {"$in": [value, 2, None]}, "n": 1},
                {"a": {"$gte": 1}},
                {},
            ]
        )
        order = [("a", rng.choice([1, -1])), ("n", rng.choice([1, -1])), ("_id", 1)]
        scanned = [d["_id"] for d in database.c.find(wanted, **options).sort(order).hint([("$natural", 1)])]
        chosen = [d["_id"] for d in database.c.find(wanted, **options).sort(order)]
        assert chosen == scanned, f"seed {seed}: {wanted} {options} sorted by {order}"
        found = {d["_id"] for d in database.c.find(wanted, **options).batch_size(5)}
        assert found == set(scanned), f"seed {seed}: {wanted} {options}"


def test_an_index_with_the_querys_collation_is_used(database: Db) -> None:
    english = {"locale": "en", "strength": 2}
    database.c.create_index("a", collation=english, name="english")
    database.c.insert_many([{"_id": 1, "a": "X"}, {"_id": 2, "a": "x"}, {"_id": 3, "a": "y"}])

    def index_of(**options: Any) -> str | None:
        explained = database.command({"explain": {"find": "c", **options}, "verbosity": "queryPlanner"})
        name: str | None = explained["queryPlanner"]["winningPlan"].get("inputStage", {}).get("indexName")
        return name

    assert index_of(filter={"a": "x"}, collation=english) == "english"
    assert index_of(sort={"a": 1}, collation=english) == "english"
    assert index_of(filter={"a": "x"}) is None
    assert index_of(filter={"a": 5}) == "english"
    assert [d["_id"] for d in database.c.find({"a": "x"}, collation=english)] == [1, 2]


def test_both_ends_of_a_range_may_be_met_by_different_elements(database: Db) -> None:
    database.c.create_index("a")
    database.c.insert_many([{"_id": 1, "a": [1, 10]}, {"_id": 2, "a": 5}, {"_id": 3, "a": [4, 6]}])
    query = {"a": {"$gt": 3, "$lt": 6}}
    assert sorted(d["_id"] for d in database.c.find(query)) == [1, 2, 3]


def test_an_update_that_creates_an_array_makes_the_index_multikey(database: Db) -> None:
    database.c.create_index("a")
    database.c.insert_one({"_id": 1, "a": 5})
    database.c.update_one({"_id": 1}, {"$set": {"a": [1, 10]}})
    assert database.c.count_documents({"a": {"$gt": 3, "$lt": 6}}) == 1


def test_an_index_built_on_arrays_is_multikey(database: Db) -> None:
    database.c.insert_one({"_id": 1, "a": [1, 10]})
    database.c.create_index("a")
    assert database.c.count_documents({"a": {"$gt": 3, "$lt": 6}}) == 1


def test_a_document_with_several_keys_is_returned_once(database: Db) -> None:
    database.c.create_index("a")
    database.c.insert_many([{"_id": n, "a": [n, n + 1, n + 2]} for n in range(50)])
    found = [d["_id"] for d in database.c.find({"a": {"$gte": 10}}).batch_size(4)]
    assert sorted(found) == list(range(8, 50))
    assert len(found) == len(set(found))


class TestHints:
    @pytest.fixture
    def indexed(self, database: Db) -> Db:
        database.c.insert_many([{"_id": n, "a": n % 3, "b": n} for n in range(12)] + [{"_id": "none"}])
        database.c.create_index("a")
        database.c.create_index("b", sparse=True)
        database.c.create_index("b", name="late", partialFilterExpression={"b": {"$gt": 5}})
        return database

    def plan(self, database: Db, **options: Any) -> Document:
        plan: Document = database.command({"explain": {"find": "c", **options}, "verbosity": "queryPlanner"})[
            "queryPlanner"
        ]["winningPlan"]
        return plan

    def test_by_name_and_by_pattern(self, indexed: Db) -> None:
        for hint in ("a_1", {"a": 1}):
            plan = self.plan(indexed, filter={"b": 3}, hint=hint)
            assert plan["inputStage"]["indexName"] == "a_1"
            assert [d["_id"] for d in indexed.c.find({"b": 3}, hint=hint)] == [3]

    def test_a_sparse_index_is_used_only_if_it_has_all_matches(self, indexed: Db) -> None:
        assert self.plan(indexed, filter={"b": {"$lt": 3}})["inputStage"]["indexName"] == "b_1"
        assert self.plan(indexed, sort={"b": 1})["stage"] == "SORT"
        assert self.plan(indexed, filter={"b": None})["stage"] == "COLLSCAN"
        assert [d["_id"] for d in indexed.c.find({"b": None})] == ["none"]

    def test_a_hinted_sparse_index_lacks_documents(self, indexed: Db) -> None:
        assert len(list(indexed.c.find().hint("b_1"))) == 12
        assert len(list(indexed.c.find())) == 13

    def test_a_partial_index(self, indexed: Db) -> None:
        indexed.c.drop_index("b_1")
        assert self.plan(indexed, filter={"b": 7})["inputStage"]["indexName"] == "late"
        assert self.plan(indexed, filter={"b": {"$gt": 5}})["inputStage"]["indexName"] == "late"
        assert self.plan(indexed, filter={"b": 3})["stage"] == "COLLSCAN"
        assert [d["_id"] for d in indexed.c.find({"b": 3})] == [3]

    def test_a_hidden_index_is_not_used(self, indexed: Db) -> None:
        assert self.plan(indexed, filter={"a": 1})["stage"] == "FETCH"
        indexed.command({"collMod": "c", "index": {"name": "a_1", "hidden": True}})
        assert self.plan(indexed, filter={"a": 1})["stage"] == "COLLSCAN"


def test_clustered_collections_are_read_by_key(database: Db) -> None:
    database.create_collection("c", clusteredIndex={"key": {"_id": 1}, "unique": True})
    keys: list[Any] = [5, -3, 2.5, "b", "a", "", ObjectId(bytes(12)), True, None, 0]
    database.c.insert_many([{"_id": key} for key in keys])
    order = [d["_id"] for d in database.c.find().hint([("$natural", 1)])]
    assert [d["_id"] for d in database.c.find().sort("_id", 1)] == order
    assert [d["_id"] for d in database.c.find().sort("_id", -1)] == order[::-1]
    assert [d["_id"] for d in database.c.find({"_id": {"$gt": 0}})] == [2.5, 5]
    assert [d["_id"] for d in database.c.find({"_id": {"$gte": 0, "$lt": 5}})] == [0, 2.5]
    assert [d["_id"] for d in database.c.find({"_id": {"$lte": "a"}})] == ["", "a"]
    assert [d["_id"] for d in database.c.find({"_id": {"$gte": ""}})] == ["", "a", "b"]
    assert [d["_id"] for d in database.c.find({"_id": {"$gte": ""}}).sort("_id", -1)] == ["b", "a", ""]
    assert [d["_id"] for d in database.c.find({"_id": {"$in": [5, "a", 77]}})] == [5, "a"]
    assert [d["_id"] for d in database.c.find({"_id": True})] == [True]
    assert [d["_id"] for d in database.c.find({"_id": {"$gt": 0}}, hint={"_id": 1})] == [2.5, 5]


def test_a_partial_index_is_not_used_for_documents_without_its_field(database: Db) -> None:
    database.c.create_index("a", partialFilterExpression={"a": {"$exists": True}})
    database.c.insert_many([{"_id": 1}, {"_id": 2, "a": None}, {"_id": 3, "a": 5}])
    assert sorted(d["_id"] for d in database.c.find({"a": None})) == [1, 2]


def test_a_partial_index_is_not_used_under_a_collation(database: Db) -> None:
    database.c.create_index("a", partialFilterExpression={"a": "x"})
    database.c.insert_many([{"_id": 1, "a": "x"}, {"_id": 2, "a": "X"}])
    collation = {"locale": "en", "strength": 2}
    assert sorted(d["_id"] for d in database.c.find({"a": "x"}, collation=collation)) == [1, 2]
