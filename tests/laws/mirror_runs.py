"""Mirrors without Spark, in processes that can be killed, and what their tables have to be."""

import multiprocessing
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

from bson import Timestamp
from pymongo import MongoClient

from tailrace.lake.columns.kinds import TableKind
from tailrace.lake.mirror.mirror_table import MirrorTable
from tailrace.pipeline.mirror.engine import MirrorEngine
from tailrace.pipeline.mirror.given_schemas import given_schemas
from tailrace.pipeline.mirror.job import MirrorJob
from tailrace.pipeline.mirror.scope import mirrored_namespaces
from tailrace.pipeline.mirror.settings import MirrorSettings
from tailrace.sources.deployments.deployment import DeploymentSource
from tests.laws.mirror_reading import documents_in
from tests.support.client_workload import COLLECTIONS, RAW_OPTIONS, RENAMED, ClientWorkload

PREFIX: Final = "mirrored"
_PROCESSES: Final = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload([__name__])


SCHEMA: Final = "_id json, a string, qty double, nested json"
"""A schema that some documents of the workload fit, and others do not"""


def settings_of(
    root: Path,
    kind: TableKind,
    schema: str | None = None,
    interval: float | None = None,
    *,
    deletion_vectors: bool = False,
) -> MirrorSettings:
    """Small ranges, files and batches, so that few documents have many of each.

    A row has some 200 columns, most of them null, and about a kilobyte: a file has a few rows.
    """
    databases = [f"{PREFIX}_a", f"{PREFIX}_b"]
    chosen = mirrored_namespaces(databases)
    names = [f"{database}.{name}" for database in databases for name in (*COLLECTIONS, *RENAMED)]
    given = {} if schema is None else dict.fromkeys(names, schema)
    return MirrorSettings(
        root=str(root),
        chosen=chosen,
        kind=kind,
        schemas=given_schemas(given, chosen, kind),
        schema_rows=kind is TableKind.CHANGES,
        deletion_vectors=deletion_vectors,
        range_documents=10,
        file_bytes=6000,
        interval=interval,
        max_entries=200,
        grace_seconds=0.0,
    )


def run_once(
    uri: str,
    root: Path,
    kind: TableKind = TableKind.CURRENT,
    schema: str | None = None,
    *,
    deletion_vectors: bool = False,
) -> MirrorEngine:
    """Mirror until the tables show the collections at one cluster time."""
    settings = settings_of(root, kind, schema, deletion_vectors=deletion_vectors)
    with DeploymentSource(uri) as source:
        engine = MirrorJob(lambda progress: MirrorEngine(source, settings, progress=progress), None).run()
    assert engine is not None
    assert engine.is_consistent
    return engine


def follow(uri: str, settings: MirrorSettings) -> None:
    """Mirror until the process is killed."""
    with DeploymentSource(uri) as source:
        MirrorJob(lambda progress: MirrorEngine(source, settings, progress=progress), 0.0).run()


def run_killed(
    uri: str,
    root: Path,
    rng: random.Random,
    longest: float,
    kind: TableKind = TableKind.CURRENT,
    schema: str | None = None,
    *,
    deletion_vectors: bool = False,
) -> None:
    """Mirror in a process that is killed at some moment."""
    settings = settings_of(root, kind, schema, deletion_vectors=deletion_vectors)
    process = _PROCESSES.Process(target=follow, args=(uri, settings))
    process.start()
    process.join(rng.uniform(0.0, longest))
    assert process.exitcode is None, "the mirror ended before it was killed"
    process.kill()
    process.join()


@contextmanager
def working(client: MongoClient[Any], seed: int) -> Iterator[ClientWorkload]:
    """Run random operations until the block ends."""
    workload = ClientWorkload(client, seed, PREFIX)
    ending = threading.Event()
    errors: list[BaseException] = []

    def work() -> None:
        try:
            while not ending.is_set():
                workload.run(5)
        except BaseException as error:
            errors.append(error)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        yield workload
    finally:
        ending.set()
        worker.join()
    assert not errors, repr(errors)


def documents_at(client: MongoClient[Any], namespace: str, time: int) -> list[bytes]:
    """The documents of a collection at a cluster time, in the order of `_id`."""
    database, _, collection = namespace.partition(".")
    concern = {"level": "snapshot", "atClusterTime": Timestamp(time >> 32, time & 0xFFFFFFFF)}
    with client.start_session(causal_consistency=False) as session:
        reply: Any = client[database].command(
            {"find": collection, "hint": {"_id": 1}, "batchSize": 1_000_000, "readConcern": concern},
            session=session,
            codec_options=RAW_OPTIONS,
        )
    assert not reply["cursor"]["id"]
    return [bytes(document.raw) for document in reply["cursor"]["firstBatch"]]


def check_equal(client: MongoClient[Any], engine: MirrorEngine) -> int:
    """Compare every table with its collection at the time that the mirror states; return how many rows.

    What is a dead letter counts: every document is in exactly one of the two tables.
    """
    count = 0
    for namespace, seen in engine.tables.items():
        table = MirrorTable.open(seen.place)
        expected = documents_at(client, namespace, engine.through)
        found = documents_in(table.places, engine.through)
        if not table.letters:
            assert table.documents() == found, f"{namespace} reads otherwise"
        wrong = [(ours, theirs) for ours, theirs in zip_longest(found, expected) if ours != theirs]
        assert not wrong, f"{namespace} differs at {engine.through}: {len(wrong)} rows, as {wrong[0]}"
        count += len(expected)
    return count
