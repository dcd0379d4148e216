"""Law **Mirror**: at a stated cluster time a table equals its collection, byte for byte.

Random operations run during the copy and after it, with drops, renames, transactions and `_id`s of all types,
while mirrors are killed at random moments.
"""

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from tailrace.lake.columns.kinds import TableKind
from tailrace.testing.replica_set import ReplicaSet
from tests.laws.law_seeds import BASE_SEED
from tests.laws.mirror_reading import documents_in
from tests.laws.mirror_runs import PREFIX, SCHEMA, check_equal, documents_at, run_killed, run_once, working
from tests.oracle.real_server import missing_mongod, real_replica_set
from tests.support.client_workload import ClientWorkload

LONG = range(BASE_SEED, BASE_SEED + 10)
WIDER = "_id json, a json, qty double, nested json"
"""The schema of the runs, after it was changed"""
LONG_SECONDS = 900
"""A loaded machine needs several times the minute that a free one does"""


@contextmanager
def deployment(kind: str, folder: Path) -> Iterator[str]:
    if kind == "tailrace":
        with ReplicaSet() as ours:
            yield ours.uri
        return
    reason = missing_mongod()
    if reason is not None:
        pytest.skip(reason)
    with real_replica_set(folder / "mongod") as real:
        yield real.uri


def check_law(
    uri: str,
    root: Path,
    seed: int,
    kind: TableKind = TableKind.CURRENT,
    *,
    operations: int,
    kills: int,
    longest: float,
    schemas: Sequence[str | None] = (None, None),
) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    with MongoClient[Any](uri, datetime_conversion="DATETIME_AUTO") as client:
        ClientWorkload(client, seed, PREFIX).run(operations)
        with working(client, seed + 1):
            for _ in range(kills):
                run_killed(uri, root, rng, longest, kind, schemas[0])
        first = run_once(uri, root, kind, schemas[0])
        assert check_equal(client, first) > 0
        if not kind.has_past and schemas[0] == schemas[1]:
            return
        before = {name: documents_at(client, name, first.through) for name in first.tables}
        ClientWorkload(client, seed + 2, PREFIX).run(operations)
        if kills and schemas[0] != schemas[1]:
            for _ in range(kills):
                run_killed(uri, root, rng, longest, kind, schemas[1])
        second = run_once(uri, root, kind, schemas[1])
        assert check_equal(client, second) > 0
        if not kind.has_past:
            return
        for name, table in second.tables.items():
            assert documents_in(table.places, first.through) == before.get(name, []), name


def check_vectors(
    uri: str, root: Path, seed: int, *, operations: int, kills: int, longest: float, rounds: int
) -> None:
    """The law for tables with deletion vectors, which the first runs may have been without."""
    print(f"seed {seed}")
    rng = random.Random(seed)
    is_later = rng.random() < 0.5
    with MongoClient[Any](uri, datetime_conversion="DATETIME_AUTO") as client:
        ClientWorkload(client, seed, PREFIX).run(operations)
        if is_later:
            check_equal(client, run_once(uri, root))
        with working(client, seed + 1):
            for _ in range(kills):
                run_killed(uri, root, rng, longest, deletion_vectors=True)
        for number in range(rounds):
            # Once a table has deletion vectors, the option makes no difference.
            engine = run_once(uri, root, deletion_vectors=rng.random() < 0.5 or not number)
            assert check_equal(client, engine) > 0
            ClientWorkload(client, seed + 2 + number, PREFIX).run(rng.choice((3, 30, operations)))
        # What random operations mark dead may be written again in the same batch; one of ten rows is not.
        steady = client[f"{PREFIX}_a"].steady
        steady.insert_many([{"_id": number} for number in range(200)])
        run_once(uri, root, deletion_vectors=True)
        steady.update_many({"_id": {"$mod": [40, 3]}}, {"$set": {"seen": True}})
        engine = run_once(uri, root)
        assert check_equal(client, engine) > 0
        files = engine.tables[steady.full_name].live
        assert [sum(file.dead for file in files), sum(file.is_run for file in files)] == [5, 1]


@pytest.mark.parametrize("kind", ["tailrace", "mongod"])
def test_tables_equal_the_collections_after_kills(kind: str, tmp_path: Path) -> None:
    with deployment(kind, tmp_path) as uri:
        check_law(uri, tmp_path / "lake", BASE_SEED, operations=250, kills=3, longest=1.0)


@pytest.mark.parametrize("kind", [TableKind.VERSIONS, TableKind.CHANGES])
def test_tables_with_a_past_have_every_moment_since_the_copy(kind: TableKind, tmp_path: Path) -> None:
    with deployment("tailrace", tmp_path) as uri:
        check_law(uri, tmp_path / "lake", BASE_SEED, kind, operations=60, kills=1, longest=0.5)


@pytest.mark.slow
@pytest.mark.timeout(LONG_SECONDS)
@pytest.mark.parametrize("seed", LONG)
@pytest.mark.parametrize("kind", [TableKind.VERSIONS, TableKind.CHANGES])
def test_tables_with_a_past_have_every_moment_after_many_kills(
    kind: TableKind, seed: int, tmp_path: Path
) -> None:
    with deployment("mongod", tmp_path) as uri:
        check_law(uri, tmp_path / "lake", seed, kind, operations=600, kills=20, longest=2.0)


@pytest.mark.parametrize("kind", ["tailrace", "mongod"])
def test_tables_with_deletion_vectors_equal_the_collections_after_kills(kind: str, tmp_path: Path) -> None:
    with deployment(kind, tmp_path) as uri:
        check_vectors(uri, tmp_path / "lake", BASE_SEED, operations=150, kills=3, longest=1.0, rounds=6)


@pytest.mark.slow
@pytest.mark.timeout(LONG_SECONDS)
@pytest.mark.parametrize("seed", LONG)
@pytest.mark.parametrize("kind", ["tailrace", "mongod"])
def test_tables_with_deletion_vectors_equal_the_collections_after_many_kills(
    kind: str, seed: int, tmp_path: Path
) -> None:
    with deployment(kind, tmp_path) as uri:
        check_vectors(uri, tmp_path / "lake", seed, operations=300, kills=30, longest=2.0, rounds=20)


def test_tables_with_a_schema_and_their_dead_letters_are_the_collection(tmp_path: Path) -> None:
    with deployment("tailrace", tmp_path) as uri:
        options: Any = {"operations": 60, "kills": 1, "longest": 0.5, "schemas": (SCHEMA, WIDER)}
        check_law(uri, tmp_path / "lake", BASE_SEED, **options)


@pytest.mark.slow
@pytest.mark.timeout(LONG_SECONDS)
@pytest.mark.parametrize("seed", LONG[:3])
@pytest.mark.parametrize("kind", list(TableKind))
def test_tables_with_a_schema_are_the_collection_after_many_kills(
    kind: TableKind, seed: int, tmp_path: Path
) -> None:
    with deployment("tailrace", tmp_path) as uri:
        options: Any = {"operations": 300, "kills": 10, "longest": 2.0, "schemas": (SCHEMA, WIDER)}
        check_law(uri, tmp_path / "lake", seed, kind, **options)


@pytest.mark.slow
@pytest.mark.timeout(LONG_SECONDS)
@pytest.mark.parametrize("seed", LONG)
@pytest.mark.parametrize("kind", ["tailrace", "mongod"])
def test_tables_equal_the_collections_after_many_kills(kind: str, seed: int, tmp_path: Path) -> None:
    with deployment(kind, tmp_path) as uri:
        check_law(uri, tmp_path / "lake", seed, operations=600, kills=50, longest=2.0)
