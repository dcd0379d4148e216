"""Lookups in dumps find the right document, in files of any format and order."""

import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bson
import pytest
from bson import Int64, Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.bson import documents, extjson
from tailrace.errors import CommandError, DamagedInputError
from tailrace.sources.archives import keyed_file
from tailrace.sources.archives.document_files import DocumentFiles
from tailrace.sources.archives.keyed_file import KeyedFile
from tailrace.sources.archives.pre_image_files import PreImageFiles

Writer = Callable[[list[bytes]], bytes]
FORMATS: dict[str, Writer] = {
    "dump.bson": b"".join,
    "dump.bson.gz": lambda raw: gzip.compress(b"".join(raw)),
    "dump": b"".join,
    "dump.json": lambda raw: "\n".join(map(extjson.dumps_canonical, raw)).encode(),
}
ONE, TWO = bytes(16), bytes(range(16))


def image(uuid: bytes, second: int, index: int = 0, value: Any = "before") -> bytes:
    return documents.encode(
        {
            "_id": {
                "nsUUID": bson.Binary(uuid, 4),
                "ts": Timestamp(second, 1),
                "applyOpsIndex": Int64(index),
            },
            "operationTime": bson.DatetimeMS(0),
            "preImage": {"_id": second, "value": value},
        }
    )


def images() -> list[bytes]:
    """Return images for several blocks, in the order of the collection."""
    return [
        image(uuid, second, index, "x" * 300)
        for uuid in (ONE, TWO)
        for second in range(1, 200)
        for index in (0, 1)
    ]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("in_order", [True, False])
def test_every_image_is_found(tmp_path: Path, name: str, in_order: bool) -> None:
    stored = images()
    if not in_order:
        random.Random(1).shuffle(stored)
    path = tmp_path / name
    path.write_bytes(FORMATS[name](stored))
    with PreImageFiles([str(path)]) as files:
        for uuid in (ONE, TWO):
            for second in range(1, 200):
                for index in (0, 1):
                    expected = documents.encode({"_id": second, "value": "x" * 300})
                    assert files.find(uuid, second << 32 | 1, index) == expected
        assert files.find(ONE, 1 << 32 | 1, 2) is None
        assert files.find(ONE, 1 << 32 | 2, 0) is None
        assert files.find(b"\xff" * 16, 1 << 32 | 1, 0) is None
        assert files.find(bytes(15) + b"\x01", 1 << 32 | 1, 0) is None


def test_several_dumps_are_searched(tmp_path: Path) -> None:
    for name, uuid in (("one.bson", ONE), ("two.bson", TWO)):
        (tmp_path / name).write_bytes(image(uuid, 1, value=name))
    with PreImageFiles([str(tmp_path / "one.bson"), str(tmp_path / "two.bson")]) as files:
        assert files.find(TWO, 1 << 32 | 1, 0) == documents.encode({"_id": 1, "value": "two.bson"})


def test_an_empty_dump_has_no_documents(tmp_path: Path) -> None:
    (tmp_path / "empty.bson").touch()
    with PreImageFiles([str(tmp_path / "empty.bson")]) as files:
        assert files.find(ONE, 1, 0) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"_id": 1, "preImage": {}},
        {"_id": {"nsUUID": bson.Binary(ONE, 4), "ts": Timestamp(1, 1)}, "preImage": {}},
        {"_id": {"nsUUID": bson.Binary(ONE, 4), "ts": 1, "applyOpsIndex": 0}, "preImage": {}},
        {"_id": {"nsUUID": bson.Binary(ONE, 4), "ts": Timestamp(1, 1), "applyOpsIndex": -1}, "preImage": {}},
        {"_id": {"nsUUID": bson.Binary(ONE, 4), "ts": Timestamp(1, 1), "applyOpsIndex": 0}},
    ],
)
@pytest.mark.parametrize("name", ["dump.bson", "dump.bson.gz"])
def test_a_document_that_is_no_image_is_damage(tmp_path: Path, wrong: dict[str, Any], name: str) -> None:
    good = image(ONE, 1)
    path = tmp_path / name
    path.write_bytes(FORMATS[name]([good, documents.encode(wrong)]))
    with pytest.raises(DamagedInputError) as caught:
        PreImageFiles([str(path)])
    assert (caught.value.path, caught.value.offset) == (str(path), len(good))


@settings(derandomize=False, print_blob=True, max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 200)), max_size=60), st.booleans())
def test_all_documents_with_a_key_are_found(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[int, int]], in_order: bool
) -> None:
    """With small blocks, runs and reads, so that documents cross every boundary."""
    sizes = keyed_file._BLOCK, keyed_file._RUN, keyed_file._READ
    keyed_file._BLOCK, keyed_file._RUN, keyed_file._READ = 100, 400, 64  # type: ignore[misc]
    try:
        if in_order:
            pairs = sorted(pairs)
        stored = [documents.encode({"k": key, "pad": b"x" * size}) for key, size in pairs]
        path = tmp_path_factory.mktemp("keyed") / "dump.bson"
        path.write_bytes(b"".join(stored))
        file = KeyedFile(str(path), lambda raw: bytes([documents.decode(raw)["k"]]))
        for key in range(42):
            expected = [raw for raw, (its_key, _) in zip(stored, pairs, strict=True) if its_key == key]
            assert list(file.find(bytes([key]))) == expected
        file.close()
    finally:
        keyed_file._BLOCK, keyed_file._RUN, keyed_file._READ = sizes  # type: ignore[misc]


# Current documents


def lookup(path: Path, ns: str, key: dict[str, Any], uuid: bytes | None = None) -> dict[str, Any] | None:
    with DocumentFiles({"shop.orders": [str(path)]}) as files:
        found = files.find(ns, documents.encode(key), uuid)
    return None if found is None else documents.decode(found)


@pytest.mark.parametrize("name", FORMATS)
def test_documents_are_found_by_the_whole_key(tmp_path: Path, name: str) -> None:
    first = {"_id": 1, "a": {"b": 5}, "c": "x"}
    second = {"_id": "one", "c": "y"}
    path = tmp_path / name
    path.write_bytes(FORMATS[name]([documents.encode(second), documents.encode(first)]))
    assert lookup(path, "shop.orders", {"_id": 1}) == first
    assert lookup(path, "shop.orders", {"_id": 1.0}) == first
    assert lookup(path, "shop.orders", {"_id": Int64(1)}) == first
    assert lookup(path, "shop.orders", {"a.b": 5, "_id": 1}) == first
    assert lookup(path, "shop.orders", {"c": "x", "a.b": 5.0, "_id": 1}) == first
    assert lookup(path, "shop.orders", {"a.b": 6, "_id": 1}) is None
    assert lookup(path, "shop.orders", {"a.b.c": 5, "_id": 1}) is None
    assert lookup(path, "shop.orders", {"z": None, "_id": "one"}) == second
    assert lookup(path, "shop.orders", {"_id": 2}) is None
    assert lookup(path, "shop.orders", {"c": "x"}) is None
    assert lookup(path, "shop.other", {"_id": 1}) is None


def test_documents_with_the_same_id_are_found_by_the_whole_key(tmp_path: Path) -> None:
    path = tmp_path / "orders.bson"
    path.write_bytes(b"".join(documents.encode({"_id": 1, "x": x}) for x in (1, 2)))
    assert lookup(path, "shop.orders", {"x": 2, "_id": 1}) == {"_id": 1, "x": 2}
    with pytest.raises(CommandError) as caught:
        lookup(path, "shop.orders", {"_id": 1})
    assert caught.value.code == 280


@pytest.mark.parametrize("packed", [False, True])
def test_the_uuid_in_the_metadata_of_the_dump_must_match(tmp_path: Path, packed: bool) -> None:
    path = tmp_path / ("orders.bson.gz" if packed else "orders.bson")
    raw = documents.encode({"_id": 1})
    path.write_bytes(gzip.compress(raw) if packed else raw)
    assert lookup(path, "shop.orders", {"_id": 1}, ONE) == {"_id": 1}  # the UUID of the dump is unknown
    text = json.dumps({"options": {}, "uuid": TWO.hex(), "collectionName": "orders"}).encode()
    metadata = tmp_path / ("orders.metadata.json.gz" if packed else "orders.metadata.json")
    metadata.write_bytes(gzip.compress(text) if packed else text)
    assert lookup(path, "shop.orders", {"_id": 1}, ONE) is None
    assert lookup(path, "shop.orders", {"_id": 1}, TWO) == {"_id": 1}
    assert lookup(path, "shop.orders", {"_id": 1}) == {"_id": 1}
