"""A token stays good when the pipeline changes: also if the new one hides the event of the token."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.collection import Collection
from pymongo.errors import OperationFailure

from tailrace.events.resume_token import ResumeToken
from tailrace.spectest.recorder import CommandRecorder
from tailrace.testing.replica_set import ReplicaSet
from tests.client.shells import Event, keys, opened, take
from tests.oracle.real_server import missing_mongod, real_replica_set

EVEN = [{"$match": {"fullDocument.kind": "even"}}]
ODD = [{"$match": {"fullDocument.kind": "odd"}}]
_numbers = itertools.count()


@pytest.fixture(scope="module", params=["ours", pytest.param("real", marks=pytest.mark.slow)])
def uri(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of ours, and a real one."""
    if request.param == "ours":
        with ReplicaSet() as server:
            yield server.uri
        return
    if (reason := missing_mongod()) is not None:
        pytest.skip(reason)
    with real_replica_set(tmp_path_factory.mktemp("mongod")) as real:
        yield real.uri


@pytest.fixture
def collection(uri: str) -> Iterator[Collection[Event]]:
    with MongoClient[Event](uri) as client:
        yield client.filters.create_collection(f"orders{next(_numbers)}")


def fill(collection: Collection[Event], *numbers: int) -> None:
    """In one transaction, so that all events have the same cluster time."""
    with collection.database.client.start_session() as session, session.start_transaction():
        for number in numbers:
            kind = "odd" if number % 2 else "even"
            collection.insert_one({"_id": number, "kind": kind}, session=session)


def tokens(uri: str, collection: Collection[Event], *numbers: int) -> dict[int, Any]:
    """Insert documents; return the tokens of their events."""
    with opened("sync", uri, collection.full_name) as stream:
        fill(collection, *numbers)
        return {event["documentKey"]["_id"]: event["_id"] for event in take(stream, len(numbers))}


@pytest.mark.parametrize("option", ["resume_after", "start_after"])
def test_a_stream_goes_on_after_an_event_that_its_pipeline_hides(
    uri: str, shell: str, collection: Collection[Event], option: str
) -> None:
    found = tokens(uri, collection, *range(6))
    # The event of 1 is hidden; 0 is visible and before it, in the same transaction.
    with opened(shell, uri, collection.full_name, EVEN, **{option: found[1]}) as stream:
        assert keys(take(stream, 2)) == [2, 4]
    with opened(shell, uri, collection.full_name, ODD, **{option: found[2]}) as stream:
        assert keys(take(stream, 2)) == [3, 5]
        fill(collection, 6, 7)
        assert keys(take(stream, 1)) == [7]


def test_the_event_after_it_may_come_later(uri: str, shell: str, collection: Collection[Event]) -> None:
    found = tokens(uri, collection, 0, 1)
    with opened(shell, uri, collection.full_name, EVEN, resume_after=found[1]) as stream:
        for _ in range(2):
            assert stream.try_next() is None
            assert stream.resume_token is not None
            assert stream.resume_token["_data"] >= found[1]["_data"]
        fill(collection, 2)
        assert keys(take(stream, 1)) == [2]
        fill(collection, 3, 4)
        assert keys(take(stream, 1)) == [4]


def test_a_stream_that_went_on_resumes_after_errors(
    uri: str, shell: str, collection: Collection[Event]
) -> None:
    found = tokens(uri, collection, *range(6))
    data = {"failCommands": ["getMore"], "errorCode": 6, "errorLabels": ["ResumableChangeStreamError"]}
    with opened(shell, uri, collection.full_name, EVEN, resume_after=found[1], batch_size=1) as stream:
        assert keys(take(stream, 1)) == [2]
        admin = collection.database.client.admin
        admin.command("configureFailPoint", "failCommand", mode={"times": 1}, data=data)
        assert keys(take(stream, 1)) == [4]


def test_a_token_that_the_server_does_not_have_is_refused(
    uri: str, shell: str, collection: Collection[Event]
) -> None:
    found = tokens(uri, collection, *range(4))
    known = ResumeToken.parse_data(str(found[1]["_data"]))
    unknown = ResumeToken(known.cluster_time, known.version, txn_op_index=77, uuid=known.uuid,
                          identifier=known.identifier)  # fmt: skip
    fill(collection, 4, 6)
    with (
        pytest.raises(OperationFailure) as caught,
        opened(shell, uri, collection.full_name, EVEN, resume_after={"_data": unknown.data}) as stream,
    ):
        take(stream, 1)
    assert caught.value.code == 280


def test_without_a_pipeline_nothing_is_asked_again(
    uri: str, shell: str, collection: Collection[Event]
) -> None:
    other = collection.database.create_collection(f"{collection.name}-other")
    found = tokens(uri, other, 0)
    fill(collection, 1)
    recorder = CommandRecorder()
    with (
        pytest.raises(OperationFailure) as caught,
        opened(shell, uri, collection.full_name, recorder=recorder, resume_after=found[0]) as stream,
    ):
        take(stream, 1)
    assert caught.value.code == 280
    assert [started.name for started in recorder.commands].count("aggregate") == 1


def test_after_an_invalidation_a_token_is_good_with_every_pipeline(
    uri: str, shell: str, collection: Collection[Event]
) -> None:
    with opened("sync", uri, collection.full_name) as stream:
        fill(collection, 0)
        collection.drop()
        token = take(stream, 3)[-1]["_id"]
    fill(collection, 2)
    with opened(shell, uri, collection.full_name, EVEN, start_after=token) as stream:
        assert keys(take(stream, 1)) == [2]
