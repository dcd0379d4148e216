"""The keys by which documents are found: the quick form is the general one, wherever the `_id` is."""

from typing import Any

import bson
import pytest
from bson import Binary, Code, DatetimeMS, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp

from tailrace.bson import documents, keystring
from tailrace.errors import CommandError
from tailrace.mongod.store.indexes.id_keys import document_key, has_key, id_key_of, sharded_document_key
from tailrace.mongod.store.tables import fit_key

Document = dict[str, Any]
IDS: list[Any] = [
    ObjectId(bytes(range(12))), 0, 1, -1, 2**31 - 1, -(2**31), Int64(5), Int64(2**62), Int64(-(2**62)), 1.5,
    -0.0,
    Decimal128("1.5"), "", "a", "a\0b", "x" * 390, "x" * 400, "é" * 300, b"", b"abc", b"x" * 254, b"x" * 255,
    b"x" * 256, b"x" * 260, Binary(bytes(16), 4), Binary(b"ab", 5), True, False, None, DatetimeMS(5),
    Timestamp(1, 2), Regex("a", "i"), Code("f"), MinKey(), MaxKey(), {"a": 1}, {},
]  # fmt: skip


@pytest.mark.parametrize("identity", IDS, ids=lambda value: repr(value)[:30])
def test_every_id_has_the_key_of_the_general_encoder(identity: Any) -> None:
    general = fit_key(keystring.encode(documents.encode({"": identity})).data)
    front, later = documents.encode({"_id": identity, "a": 1}), documents.encode({"a": 1, "_id": identity})
    assert id_key_of(front) == general
    assert id_key_of(later) == general
    assert document_key(front) == documents.encode({"_id": identity})
    assert document_key(later) == documents.encode({"_id": identity})


def test_a_document_without_an_id() -> None:
    for document in ({}, {"a": 1}, {"_idx": 1}, {"a": {"_id": 1}}):
        assert id_key_of(documents.encode(document)) is None
        with pytest.raises(CommandError) as caught:
            document_key(documents.encode(document))
        assert caught.value.code == 2


@pytest.mark.parametrize(
    ("document", "paths", "key"),
    [
        ({"_id": 1, "s": 2}, ("s",), {"s": 2, "_id": 1}),
        ({"s": 2, "_id": 1}, ("s", "_id"), {"s": 2, "_id": 1}),
        ({"_id": 1, "s": 2}, ("_id", "s"), {"_id": 1, "s": 2}),
        ({"_id": 1, "s": 2}, ("_id",), {"_id": 1}),
        ({"_id": 1, "s": {"t": {"u": 3}}}, ("s.t.u", "s.t"), {"s.t.u": 3, "s.t": {"u": 3}, "_id": 1}),
        ({"_id": 1}, ("s",), {"_id": 1}),
        ({"_id": 1, "s": 5}, ("s.t",), {"_id": 1}),
        ({"_id": 1, "s": [{"t": 1}]}, ("s.t",), {"_id": 1}),
        ({"_id": 1, "s": {"x": 1}}, ("s.t",), {"_id": 1}),
        ({"_id": 1, "s": None}, ("s",), {"s": None, "_id": 1}),
        ({"_id": {"a": 4}}, ("_id.a",), {"_id.a": 4, "_id": {"a": 4}}),
    ],
)
def test_the_key_of_a_sharded_document(document: Document, paths: tuple[str, ...], key: Document) -> None:
    found = sharded_document_key(documents.encode(document), paths)
    assert bson.decode(found) == key
    assert list(bson.decode(found)) == list(key)


@pytest.mark.parametrize(
    ("key", "is_its_key"),
    [
        ({"_id": 1}, True),
        ({"_id": 9}, True),  # it was found by its `_id`
        ({"s": 2, "_id": 1}, True),
        ({"s": 2.0, "_id": 1}, True),
        ({"s": 2, "_id": Int64(1)}, True),
        ({"s": 3, "_id": 1}, False),
        ({"t.u": "x", "s": 2, "_id": 1}, True),
        ({"t.u": "y", "s": 2, "_id": 1}, False),
        ({"v": 1, "_id": 1}, False),
        ({"s": None, "_id": 1}, False),
    ],
)
def test_whether_a_document_has_a_key(key: Document, is_its_key: bool) -> None:
    document = documents.encode({"_id": 1, "s": 2, "t": {"u": "x"}})
    assert has_key(document, documents.encode(key)) == is_its_key
