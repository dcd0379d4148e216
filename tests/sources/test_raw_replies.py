"""Raw batches are those of PyMongo, without an object for each document."""

import bson
import pytest
from pymongo.errors import OperationFailure

from tailrace.sources.deployments.clients import raw_batches
from tailrace.sources.deployments.raw_replies import ReplyCursor, reply_of
from tailrace.testing.replica_set import ReplicaSet


def test_batches_are_those_of_pymongo() -> None:
    with ReplicaSet() as rs:
        numbers = rs.client().shop.numbers
        numbers.insert_many([{"_id": number, "text": "x" * number} for number in range(120)])
        with ReplyCursor(numbers, {}, batch_size=7) as cursor:
            found = list(raw_batches(cursor))
        assert found == list(raw_batches(numbers.find_raw_batches({}, batch_size=7)))
        assert len(found) > 10
        assert [document["_id"] for batch in found for document in bson.decode_all(batch)] == [*range(120)]
        with ReplyCursor(numbers, {"_id": -1}) as cursor:
            assert list(raw_batches(cursor)) == []
        with pytest.raises(OperationFailure, match="unknown operator"):
            next(ReplyCursor(numbers, {"_id": {"$no": 1}}))


def test_what_is_around_the_batch_is_decoded() -> None:
    whole = {
        "cursor": {"nextBatch": [{"a": 1}, {"b": [{}]}], "postBatchResumeToken": {"_data": "82"}, "id": 0},
        "ok": 1.0,
        "operationTime": bson.Timestamp(7, 1),
    }
    reply = reply_of(memoryview(bson.encode(whole)))
    assert reply is not None
    batch = reply["cursor"].pop("nextBatch")
    assert bson.decode_all(batch[0]) == whole["cursor"].pop("nextBatch")  # type: ignore[attr-defined]
    assert reply == whole


@pytest.mark.parametrize(
    "unusual", [{"ok": 0.0, "code": 43}, {"cursor": {"id": 0, "firstBatch": []}}, {"cursor": 1}, {}]
)
def test_other_replies_are_left_to_pymongo(unusual: dict[str, object]) -> None:
    assert reply_of(bson.encode(unusual)) is None
