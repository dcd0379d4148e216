"""A workload on a real server: what its own streams show, beside the archive of its oplog.

`Record` is one workload with its archive. `stream_differences` compares a stream of it with what an engine of
ours makes of the archive; `Engine` is the one thing to give.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from bson import Timestamp
from pymongo import MongoClient
from pymongo.database import Database

from tailrace.bson.documents import decode, encode
from tests.oracle.replay.archive import Archive, write_archive
from tests.oracle.replay.random_cases import CaseMaker
from tests.oracle.replay.real_streams import ON_A_VIEW, RealStreams
from tests.oracle.replay.stream_case import Part, StreamCase, fails_elsewhere
from tests.oracle.replay.workload import RealWorkload
from tests.oracle.replay.written_cases import written_cases

Outcome: TypeAlias = tuple[list[bytes], int | None]
"""The events of a stream as BSON, and the code of the error it ends with."""
Engine: TypeAlias = Callable[[StreamCase], Outcome]
DATABASE_PREFIX: Final = "law"


@dataclass(frozen=True)
class Record:
    """One workload: its archive, and the streams of the server that ran it."""

    seed: int
    start: Timestamp
    databases: list[str]
    archive: Archive
    streams: RealStreams

    def written(self) -> list[StreamCase]:
        return written_cases(self.start, self.databases, random.Random(self.seed))

    def drawn(self, count: int) -> list[StreamCase]:
        """Random streams, with values of events that there are."""
        everything = StreamCase(options={"showExpandedEvents": True, "startAtOperationTime": self.start})
        events = self.streams.read(everything).events
        rng = random.Random(self.seed * 7919)
        maker = CaseMaker(rng, self.start, self.databases, rng.sample(events, min(400, len(events))))
        return [maker.make() for _ in range(count)]


def recorded(
    client: "MongoClient[Any]", seed: int, folder: Path, operations: int, *, large: int = 0
) -> Record:
    """Run a workload on a server, and archive what it leaves.

    With ``large``, it is only one document of so many bytes that is changed twice; its images are stored.
    """
    prefix = f"{DATABASE_PREFIX}{seed}"
    for name in client.list_database_names():
        if name.startswith(DATABASE_PREFIX):
            client.drop_database(name)
    client.admin.command("setParameter", 1, ttlMonitorEnabled=False)
    start = _noted(client, "the workload begins")
    workload = RealWorkload(client, seed, prefix)
    if large:
        _change_large_document(client[workload.databases[0]], large)
    else:
        workload.everything(operations)
    end = _noted(client, "the workload has ended")
    archive = write_archive(client, folder, start, end, workload.databases)
    return Record(seed, start, workload.databases, archive, RealStreams(client, end))


def _change_large_document(database: "Database[Any]", size: int) -> None:
    database.create_collection("large", changeStreamPreAndPostImages={"enabled": True})
    database.large.insert_one({"_id": 1, "text": "x" * size})
    for number in range(2):
        database.large.update_one({"_id": 1}, {"$set": {"number": number}})


def _noted(client: "MongoClient[Any]", text: str) -> Timestamp:
    """The time of a new entry."""
    reply = client.admin.command("appendOplogNote", 1, data={"note": text})
    return Timestamp(reply["operationTime"].time, reply["operationTime"].inc)


def _as_stages_see(event: bytes) -> bytes:
    """An event after stages of ours: a field that an image has twice is there once (docs/server.md)."""
    return encode(decode(event))


def difference(case: StreamCase, real: Part, ours: Outcome) -> str | None:
    """Where a stream of ours differs from the real one; None if it does not."""
    events, code = ours
    if fails_elsewhere(case, real, events, code):
        return None
    for place, (one, other) in enumerate(zip(real.events, events, strict=False)):
        if one != other and not (case.pipeline and _as_stages_see(one) == other):
            return f"{case}\n  event {place} of {len(real.events)}\n  real {one!r}\n  ours {other!r}"
    if len(real.events) != len(events) or real.error != code:
        counts = f"real {len(real.events)} events, error {real.error}; ours {len(events)}, error {code}"
        longer = real.events if len(real.events) > len(events) else events
        first = longer[min(len(real.events), len(events)) :][:1]
        return f"{case}\n  {counts}; the first without a counterpart: {first}"
    return None


def stream_differences(record: Record, cases: Sequence[StreamCase], engine: Engine) -> Iterator[str | None]:
    """Compare streams, and what follows their invalidations; yields a difference or None for each part."""
    for case in cases:
        for opened, real in record.streams.parts(case):
            if real.error != ON_A_VIEW:  # an archive does not show what is a view now
                yield difference(opened, real, engine(opened))
