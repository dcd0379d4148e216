"""The keys of mirrored rows: many documents at the same time, and one by one."""

from random import Random

import pyarrow as pa
import pytest
from bson import Int64

from tailrace.bson import keystring
from tailrace.bson.documents import encode
from tailrace.bson.id_key import id_key
from tailrace.errors import BsonError
from tailrace.lake.mirror.bulk_keys import row_keys
from tests.support.documents import DocumentMaker

SEED = 20261118


def test_keys_are_those_of_an_index_on_the_id() -> None:
    print(f"seed {SEED}")
    rng = Random(SEED)
    maker = DocumentMaker(rng)
    ids = [maker.identifier() for _ in range(2000)]
    ids += [Int64(sign * (1 << bits) + step) for bits in range(62) for sign in (1, -1) for step in (-1, 0, 1)]
    ids += [rng.randbytes(size) for size in (15, 16, 17, 300)]
    documents = [
        encode({"_id": each, "a": "text"} if rng.random() < 0.9 else {"a": 1, "_id": each}) for each in ids
    ]
    expected = [keystring.encode(encode({"": each})).data for each in ids]
    assert row_keys(pa.array(documents, pa.binary())).to_pylist() == expected
    assert [id_key(document) for document in documents] == expected


def test_a_document_without_an_id_has_no_key() -> None:
    with pytest.raises(BsonError, match="no _id"):
        row_keys(pa.array([encode({"_id": 1}), encode({"a": 1})], pa.binary()))


def test_no_documents_have_no_keys() -> None:
    assert row_keys(pa.array([], pa.binary())).to_pylist() == []
