"""What stages store in files is what they would have held in memory, and the files do not stay."""

import random
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from bson import Code, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from pymongo import MongoClient
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import OperationFailure

from tests.cli.serving import serving
from tests.mongod.server.running import Document, connected, running

SORT = "internalQueryMaxBlockingSortMemoryUsageBytes"
GROUP = "internalDocumentSourceGroupMaxMemoryBytes"
WINDOW = "internalDocumentSourceSetWindowFieldsMaxMemoryBytes"
TOTAL = "tailraceMaxTotalStageMemoryBytes"
SMALL = {SORT: 4000, GROUP: 4000, WINDOW: 4000}
LARGE = dict.fromkeys(SMALL, 104_857_600)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def limited(data: Path) -> Iterator[MongoClient[Document]]:
    with running(data=data) as server, connected(server) as client:
        yield client


def set_limits(client: MongoClient[Document], limits: dict[str, int]) -> None:
    for name, value in limits.items():
        client.admin.command({"setParameter": 1, name: value})


def files(data: Path) -> list[Path]:
    return list((data / "_tmp").glob("*"))


def random_value(rng: random.Random, depth: int = 0) -> Any:
    kinds: list[Callable[[], Any]] = [
        lambda: rng.randrange(-3, 4),
        lambda: rng.choice([0.0, -0.0, 1.0, 2.5, float("inf")]),
        lambda: Int64(rng.randrange(5)),
        lambda: Decimal128(rng.choice(["1", "1.0", "2.5", "-3E2"])),
        lambda: rng.choice(["a", "A", "b", "B", "ä", "z" * 40, ""]),
        lambda: None,
        lambda: rng.random() < 0.5,
        lambda: ObjectId(bytes(11) + bytes([rng.randrange(4)])),
        lambda: Timestamp(rng.randrange(3), 1),
        lambda: rng.choice([MinKey(), MaxKey(), Regex("a", "i"), Code("f"), b"x"]),
    ]
    if depth < 2:
        kinds += [
            lambda: [random_value(rng, depth + 1) for _ in range(rng.randrange(4))],
            lambda: {rng.choice("xyz"): random_value(rng, depth + 1) for _ in range(rng.randrange(3))},
        ]
    return rng.choice(kinds)()


def random_documents(rng: random.Random, count: int) -> list[Document]:
    found = []
    for number in range(count):
        document: Document = {"_id": number, "n": rng.randrange(20)}
        for name in ("k", "v"):
            if rng.random() < 0.9:
                document[name] = random_value(rng)
        if rng.random() < 0.5:
            document["t"] = rng.choice(["a", "A", "b", "ä"])
        found.append(document)
    return found


def fixed(value: Any) -> str:
    return repr(value)


SORTS: list[Document] = [
    {"t": 1},
    {"t": -1},
    {"t": -1, "n": 1},
    {"n": -1, "k": 1},
    {"v.x": 1, "_id": -1},
]
ACCUMULATORS: Document = {
    "sum": {"$sum": "$n"},
    "avg": {"$avg": "$n"},
    "dev": {"$stdDevPop": 1},
    "count": {"$count": {}},
    "first": {"$first": "$v"},
    "last": {"$last": "$v"},
    "least": {"$min": "$k"},
    "most": {"$max": "$k"},
    "first3": {"$firstN": {"n": 3, "input": "$v"}},
    "last3": {"$lastN": {"n": 3, "input": "$v"}},
    "least3": {"$minN": {"n": 3, "input": "$t"}},
    "most3": {"$maxN": {"n": 3, "input": "$t"}},
    "all": {"$push": "$v"},
    "set": {"$addToSet": "$k"},
    "merged": {"$mergeObjects": {"n": "$n", "t": "$t"}},
    "top": {"$top": {"output": "$_id", "sortBy": {"t": 1, "n": -1}}},
    "bottom2": {"$bottomN": {"n": 2, "output": ["$_id", "$v"], "sortBy": {"t": -1}}},
    "middle": {"$median": {"input": "$n", "method": "approximate"}},
}
STAGES: list[Document] = [
    *({"$sort": sort} for sort in SORTS),
    {"$group": {"_id": "$k", **ACCUMULATORS}},
    {"$group": {"_id": {"t": "$t", "n": "$n"}, **ACCUMULATORS}},
    {"$group": {"_id": None, **ACCUMULATORS}},
    {"$bucketAuto": {"groupBy": "$k", "buckets": 4, "output": {"all": {"$push": "$_id"}}}},
    {"$bucketAuto": {"groupBy": "$n", "buckets": 3, "granularity": "POWERSOF2"}},
    {
        "$setWindowFields": {
            "partitionBy": "$t",
            "sortBy": {"n": -1},
            "output": {
                "all": {"$push": "$_id", "window": {"documents": ["unbounded", "current"]}},
                "sum": {"$sum": "$n"},
                "rank": {"$rank": {}},
            },
        }
    },
    {"$facet": {"a": [{"$sort": {"n": 1}}], "b": [{"$group": {"_id": "$t", **ACCUMULATORS}}]}},
    {"$densify": {"field": "n", "partitionByFields": ["t"], "range": {"step": 3, "bounds": "full"}}},
]


def results(items: Collection[Document], stage: Document, collation: Document | None) -> Any:
    found = list(items.aggregate([stage], collation=collation, allowDiskUse=True))
    if "$group" in stage:
        # Without a limit groups are in the order of their first documents; MongoDB defines none.
        return sorted(map(fixed, found))
    if "$facet" in stage:
        return fixed(found[0]["a"]), sorted(map(fixed, found[0]["b"]))
    return list(map(fixed, found))


@pytest.mark.parametrize("seed", range(2))
def test_stages_have_the_same_results_with_and_without_files(
    limited: MongoClient[Document], data: Path, seed: int
) -> None:
    seed = seed or random.randrange(10**9)
    print(f"seed {seed}")
    rng = random.Random(seed)
    items = limited.random[f"c{seed}"]
    items.insert_many(random_documents(rng, 300))
    for collation in (None, {"locale": "en", "strength": 1}):
        for stage in STAGES:
            set_limits(limited, LARGE)
            expected = results(items, stage, collation)
            set_limits(limited, SMALL)
            assert results(items, stage, collation) == expected, f"{stage} {collation} seed {seed}"
    set_limits(limited, LARGE)
    assert files(data) == []


@pytest.fixture
def many(limited: MongoClient[Document]) -> Iterator[Database[Document]]:
    """500 documents of a kilobyte, and small limits."""
    database = limited.many
    if not database.items.count_documents({}):
        database.items.insert_many([{"_id": n, "k": -n, "text": "x" * 1000} for n in range(500)])
    set_limits(limited, SMALL)
    yield database
    set_limits(limited, LARGE)


def test_a_find_with_record_ids_keeps_them_in_a_file(many: Database[Document]) -> None:
    found = list(many.items.find(sort=[("k", 1)], show_record_id=True))
    assert [document["_id"] for document in found] == list(range(499, -1, -1))
    assert [document["$recordId"] for document in found] == list(range(500, 0, -1))


@pytest.mark.parametrize("stage", [{"$sort": {"k": 1}}, {"$group": {"_id": "$k", "all": {"$push": "$text"}}}])
def test_a_cursor_has_a_file_until_it_is_closed(
    many: Database[Document], data: Path, stage: Document
) -> None:
    cursor = many.items.aggregate([stage], batchSize=10)
    next(cursor)
    assert len(files(data)) == 1
    cursor.close()
    assert files(data) == []


def test_a_cursor_that_is_read_to_its_end_has_no_file(many: Database[Document], data: Path) -> None:
    cursor = many.items.aggregate([{"$sort": {"k": 1}}], batchSize=10)
    assert len(list(cursor)) == 500
    assert files(data) == []


def test_a_stage_that_fails_leaves_no_file(many: Database[Document], data: Path) -> None:
    stages: list[Document] = [
        {"$sort": {"k": 1}},
        {"$project": {"x": {"$divide": [1, {"$add": ["$k", 300]}]}}},
    ]
    with pytest.raises(OperationFailure):
        list(many.items.aggregate(stages))
    assert files(data) == []


def test_idle_cursors_share_a_total(
    limited: MongoClient[Document], many: Database[Document], data: Path
) -> None:
    """Each holds half a megabyte, which is far below the limit of one stage."""
    set_limits(limited, LARGE)
    limited.admin.command({"setParameter": 1, TOTAL: 1_200_000})
    try:
        cursors = [many.items.aggregate([{"$sort": {"k": 1}}], batchSize=1) for _ in range(5)]
        assert len(files(data)) == 3
        with pytest.raises(OperationFailure) as caught:
            many.items.aggregate([{"$sort": {"k": 1}}], batchSize=1, allowDiskUse=False)
        assert caught.value.code == 292
        for cursor in cursors:
            assert [document["_id"] for document in cursor] == list(range(499, -1, -1))
        assert files(data) == []
        many.items.aggregate([{"$sort": {"k": 1}}], batchSize=1, allowDiskUse=False).close()
    finally:
        limited.admin.command({"setParameter": 1, TOTAL: 2**29})


def test_a_killed_server_leaves_no_files_to_the_next_one(tmp_path: Path) -> None:
    options = ("--data", str(tmp_path), "--set-parameter", f"{SORT}=4000")
    with serving(*options) as (process, uri), MongoClient[Document](uri) as client:
        client.test.items.insert_many([{"_id": n, "text": "x" * 1000} for n in range(100)])
        cursor = client.test.items.aggregate([{"$sort": {"text": 1, "_id": -1}}], batchSize=1)
        assert next(cursor)["_id"] == 99
        assert files(tmp_path)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert files(tmp_path)
    with serving(*options) as (_, uri), MongoClient[Document](uri) as client:
        assert files(tmp_path) == []
        assert client.test.items.count_documents({}) == 100


def start_sessions(client: MongoClient[Document], count: int) -> None:
    for _ in range(count):
        client.admin.command("startSession")


def test_sessions_have_a_maximum() -> None:
    with running(parameters={"maxSessions": 5}) as server, connected(server) as client:
        start_sessions(client, 3)
        with pytest.raises(OperationFailure) as caught:
            start_sessions(client, 3)
        assert caught.value.code == 261
