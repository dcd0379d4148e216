"""The same operations on collections that store images and on others, and what their streams show."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from bson import Timestamp
from pymongo import MongoClient

from tailrace import as_of, record_snapshot
from tailrace.bson import documents
from tailrace.bson import raw as rawbson
from tailrace.error_codes import ErrorCode
from tailrace.events.cluster_time import from_timestamp
from tailrace.events.stream_release import StreamRelease
from tailrace.lake.table import HistoryTable
from tailrace.sources.deployments.deployment import DeploymentSource
from tailrace.testing.history_builder import HistoryBuilder
from tests.oracle.replay.real_streams import RealStreams
from tests.oracle.replay.stream_case import Part, StreamCase
from tests.support.client_workload import COLLECTIONS, ClientWorkload
from tests.support.fronted import Fronted
from tests.support.history import identity

Document = dict[str, Any]
STORED: Document = {"changeStreamPreAndPostImages": {"enabled": True}}
REQUIRED: Document = {"fullDocument": "required", "fullDocumentBeforeChange": "required"}
NOTHING = bytes([rawbson.NULL])
_AVAILABLE: Document = {"fullDocument": "whenAvailable", "fullDocumentBeforeChange": "whenAvailable"}
_SECONDS = 60
_COMPARED = (
    "operationType", "fullDocument", "documentKey", "updateDescription", "fullDocumentBeforeChange", "from",
)  # fmt: skip


class _Twin(ClientWorkload):
    """Operations on collections that are always there, and all store images or none does."""

    def __init__(self, client: "MongoClient[Any]", seed: int, prefix: str, options: Document) -> None:
        super().__init__(client, seed, prefix, for_comparison=True)
        self._options = options

    def _attempt(self, action: Callable[[], object]) -> bool:
        for name in self.databases:
            there = self._client[name].list_collection_names()
            for missing in sorted({*COLLECTIONS}.difference(there)):
                self._client[name].create_collection(missing, **self._options)
        return super()._attempt(action)

    def _drop_database(self) -> None:
        """A server drops the collections in the order of their UUIDs, which are random."""
        name = self._rng.choice(self.databases)
        for collection in sorted(self._client[name].list_collection_names()):
            self._client[name].drop_collection(collection)
        self._client.drop_database(name)

    def _modify_collection(self) -> None:
        """Images stay as they are."""


def write_twins(client: "MongoClient[Any]", seed: int, operations: int) -> list[tuple[str, str]]:
    """Run the same operations twice; return databases without stored images, each with one that has them."""
    plain = _Twin(client, seed, f"plain{seed}", {})
    stored = _Twin(client, seed, f"stored{seed}", STORED)
    for twin in (plain, stored):
        twin.run(operations)
    assert plain.done == stored.done
    return [*zip(plain.databases, stored.databases, strict=True)]


def check_twins(source: "MongoClient[Any]", front: "MongoClient[Any]", seed: int, operations: int) -> None:
    """Streams through a server that rebuilds images show what the source shows where it stores them."""
    print("seed", seed)
    start = note(source)
    twins = write_twins(source, seed, operations)
    end = note(source)
    shown = changed = 0
    for plain, stored in twins:
        expected = read(source, stored, start, end)
        ours = read(front, plain, start, end)
        assert (ours.error, expected.error) == (None, None)
        for number, (one, other) in enumerate(
            zip(compared(ours.events), compared(expected.events), strict=True)
        ):
            assert one == other, f"event {number} of {plain}: {one}; of {stored}: {other}"
        shown += len(ours.events)
        changed += sum(b"fullDocumentBeforeChange" in event for event in ours.events)
    assert shown > operations / 2 < changed * 4
    assert ErrorCode.NoMatchingDocument in {read(source, plain, start, end).error for plain, _ in twins}


def check_twins_after_snapshot(
    client: "MongoClient[Any]", uri: str, folder: Path, seed: int, operations: int, *, by_front: bool
) -> None:
    """The same for documents that were there before the history began, and are known from a snapshot on.

    It is recorded while the collections change. Before its time an image may be missing, but is never wrong.
    """
    print("seed", seed)
    plain = _Twin(client, seed, f"before{seed}", {})
    stored = _Twin(client, seed, f"beside{seed}", STORED)
    for twin in (plain, stored):
        twin.run(operations)
    history = folder / f"history{seed}"
    start = note(client)
    with DeploymentSource(uri) as deployment, ExitStack() as stack:
        begins = from_timestamp(start)
        release = StreamRelease.parse(client.server_info()["version"])
        HistoryTable.create(history, identity=deployment.identity(), begins=begins, release=release)
        builder = HistoryBuilder(deployment, history)
        builder.build()
        options: Any = {"history": history, "rebuilds_images": True, "records_snapshot": by_front}
        front = stack.enter_context(Fronted(uri, **options)) if by_front else None
        with _in_thread(lambda: plain.run(operations)):
            if front is None:
                record_snapshot(uri, history, range_documents=3)
        if front is not None:
            builder.build()  # it waits for the history to reach its start
            _wait_for(front, lambda images: images["snapshot"]["state"] == "complete")
        settled = note(client)
        stored.run(operations)
        for twin in (plain, stored):
            twin.run(operations)
        assert plain.done == stored.done
        end = note(client)
        builder.build()
        if front is None:
            front = stack.enter_context(Fronted(uri, **options))
        else:
            _wait_for(front, lambda images: images["ranges"] == images["snapshot"]["ranges"])
        for name, beside in zip(plain.databases, stored.databases, strict=True):
            ours = read(front.client(), name, start, end, **_AVAILABLE)
            expected = read(client, beside, start, end, **_AVAILABLE)
            assert (ours.error, expected.error) == (None, None)
            _check_known(ours.events, expected.events, settled)
    for namespace, content in plain.content().items():
        found = {identity(raw): raw for raw in as_of(history, namespace).raw()}
        assert found == content, namespace
    for name in (*plain.databases, *stored.databases):
        client.drop_database(name)


def _check_known(ours: Sequence[bytes], expected: Sequence[bytes], settled: Timestamp) -> None:
    known = 0
    pairs = zip(ours, compared(ours), compared(expected), strict=True)
    for number, (raw, one, other) in enumerate(pairs):
        if documents.decode(raw)["clusterTime"] <= settled:
            for name in ("fullDocument", "fullDocumentBeforeChange"):
                if one[name] == NOTHING:
                    one[name] = other[name]
        else:
            known += one["fullDocumentBeforeChange"] not in (None, NOTHING)
        assert one == other, f"event {number}: {one}; {other}"
    assert known


@contextmanager
def _in_thread(work: Callable[[], object]) -> Iterator[None]:
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(work)
        yield
        future.result()


def _wait_for(front: Fronted, holds: Callable[[Document], bool]) -> None:
    deadline = monotonic() + _SECONDS
    with front.client() as client:
        while not holds(images := client.admin.command("serverStatus")["source"]["images"]):
            assert monotonic() < deadline, images
            sleep(0.02)


def note(client: "MongoClient[Any]") -> Timestamp:
    """The time of a new entry."""
    time: Timestamp = client.admin.command("appendOplogNote", data={"note": 1})["operationTime"]
    return time


def read(client: "MongoClient[Any]", database: str, start: Timestamp, end: Timestamp, **options: Any) -> Part:
    """What a stream on a database shows in an interval, after invalidations too."""
    case = StreamCase(database, None, {**REQUIRED, "startAtOperationTime": start, **options})
    parts = [part for _, part in RealStreams(client, end).parts(case)]
    return Part([event for part in parts for event in part.events], parts[-1].error)


def compared(events: Sequence[bytes]) -> list[dict[str, bytes | str | None]]:
    """What has to be equal of events in two databases: everything but names, times and tokens."""
    found: list[dict[str, bytes | str | None]] = []
    for raw in events:
        fields = {
            name.decode(): bytes([kind]) + raw[start:end] for kind, name, start, end in rawbson.elements(raw)
        }
        ns = rawbson.subdocument(raw, b"ns") or rawbson.EMPTY
        found.append(
            {
                "coll": rawbson.text(ns, rawbson.find(ns, b"coll")),
                **{name: fields.get(name) for name in _COMPARED},
            }
        )
    return found
