"""Archived oplogs in an object store are read like local ones, in processes that have no credentials."""

import gzip
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from tailrace.errors import StoreUnavailableError, UsageError
from tailrace.lake.storage.log_store import open_store
from tailrace.sources.archives import opening
from tailrace.sources.archives.files import FilesSource
from tailrace.sources.planning import Planner
from tests.support.bulk import generate_bulk
from tests.support.object_store import SECRET, ObjectStoreServer

TASK = """
import hashlib, pickle, sys
source, after, through = pickle.load(sys.stdin.buffer)
digest = hashlib.sha256()
for shard in source.shards():
    for entries in source.entries(shard, after, through):
        for raw in entries:
            digest.update(raw)
print(digest.hexdigest())
"""
Store = Callable[[dict[str, bytes]], str]


@pytest.fixture
def stored(objects: ObjectStoreServer) -> Store:
    """Store files in a new folder; return its URL."""

    def store(files: dict[str, bytes]) -> str:
        place = objects.url(uuid4().hex)
        folder = open_store(place)
        for name, content in files.items():
            assert folder.create(name, content)
        return place

    return store


def in_a_task(source: FilesSource, after: int, through: int) -> str:
    """What a process without credentials reads of an interval."""
    environment = {name: text for name, text in os.environ.items() if not name.startswith("AWS_")}
    done = subprocess.run(
        [sys.executable, "-c", TASK],
        input=pickle.dumps((source, after, through)),
        env=environment,
        capture_output=True,
        check=True,
    )
    return done.stdout.decode()


def all_entries(source: FilesSource, after: int = 0) -> list[bytes]:
    found = source.entries("", after, source.promised())
    return [raw for entries in found for raw in entries]


def test_a_folder_in_an_object_store_equals_a_local_one(
    stored: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Small reads, so that a search makes several requests.
    monkeypatch.setattr(opening, "_LEAST_BYTES", 70_000)
    entries = list(generate_bulk(9, 3000))
    parts = {
        "b.bson": b"".join(entries[:2000]),
        "a.bson.gz": gzip.compress(b"".join(entries[2000:2600])),
        "c.bson": b"".join(entries[2600:]),
        "c.metadata.json": b"{}",
        "empty.bson": b"",
    }
    for name, content in parts.items():
        (tmp_path / name).write_bytes(content)
    local = FilesSource({"": [str(tmp_path)]})
    place = stored(parts)
    remote = FilesSource({"": [place]})
    assert all_entries(remote) == all_entries(local) == entries
    assert (remote.identity(), remote.promised()) == (local.identity(), local.promised())
    cuts = Planner(local).cuts(0, local.promised(), 4)
    assert Planner(remote).cuts(0, remote.promised(), 4) == cuts
    assert len(cuts) > 1
    assert all_entries(remote, cuts[0]) == all_entries(local, cuts[0])
    assert in_a_task(remote, cuts[0], cuts[1]) == in_a_task(local, cuts[0], cuts[1])
    one = FilesSource({"": [f"{place}/b.bson", f"{place}/a.bson.gz", f"{place}/c.bson"]})
    assert all_entries(one) == entries
    assert SECRET not in repr(remote.__dict__)


def test_what_is_not_there_or_does_not_answer_is_reported(
    stored: Store, objects: ObjectStoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = stored({"oplog.bson": b"".join(generate_bulk(9, 100))})
    with pytest.raises(UsageError, match=r"there is no file or folder s3://.*missing"):
        FilesSource({"": [f"{place}/missing"]})
    with pytest.raises(UsageError, match=r"there is no file or folder s3://.*images"):
        FilesSource({"": [place]}, {None: [f"{place}/images.bson"]})
    source = FilesSource({"": [place]})
    assert len(all_entries(source)) == 100
    objects.fail("refused", "GET", "oplog.bson", 100)
    try:
        with pytest.raises(StoreUnavailableError, match="does not answer"):
            all_entries(source)
    finally:
        objects.fail("refused", "GET", "oplog.bson", 0)
    assert len(all_entries(source)) == 100
