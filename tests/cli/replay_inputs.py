"""Inputs for the tests of `tailrace replay`, and readers of its output."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from bson import Int64, Timestamp

from tailrace.bson import extjson
from tests.cli.console import Outcome
from tests.sources.archive_samples import UUID, entry

EXPANDED = '{"showExpandedEvents": true}'


def lines_of(raw_documents: Iterable[bytes]) -> bytes:
    return "".join(extjson.dumps_canonical(raw) + "\n" for raw in raw_documents).encode()


def write(path: Path, *pieces: bytes) -> Path:
    path.write_bytes(b"".join(pieces))
    return path


def transaction(number: int, inserted: Sequence[int], previous: int = 0, **flags: Any) -> bytes:
    """An `applyOps` at (100, number); ``previous`` is the number of the entry before it in its chain."""
    operations = [
        {"op": "i", "ns": "shop.orders", "ui": UUID, "o": {"_id": key}, "o2": {"_id": key}}
        for key in inserted
    ]
    link = {"ts": Timestamp(100 if previous else 0, previous), "t": Int64(1 if previous else -1)}
    o = {"applyOps": operations, **flags}
    session: dict[str, Any] = {"lsid": {"id": 1}, "txnNumber": Int64(1), "prevOpTime": link}
    return entry(number, op="c", ns="admin.$cmd", o=o, **session)


def ids(outcome: Outcome) -> list[int]:
    """The `_id`s of the printed events."""
    return [int(json.loads(line)["documentKey"]["_id"]["$numberInt"]) for line in outcome.lines]
