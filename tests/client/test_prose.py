"""The prose tests of the drivers' specification, by their numbers; 5, 10, 15 and 16 are removed there.

They run on a replica set, and on a sharded cluster with a collection on both shards. Tests of older servers
use emulated ones; `test_change_stream.py` tests the same rules without a server.
"""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from bson import Timestamp
from pymongo import ReadPreference
from pymongo.collection import Collection
from pymongo.errors import InvalidOperation, OperationFailure
from pymongo.monitoring import (
    CommandFailedEvent,
    CommandListener,
    CommandStartedEvent,
    CommandSucceededEvent,
)
from pymongo.server_description import ServerDescription

from tailrace.spectest.recorder import CommandRecorder
from tailrace.testing.replica_set import ReplicaSet
from tailrace.testing.sharded_cluster import ShardedCluster
from tests.client.emulation import emulated
from tests.client.shells import Event, Stream, keys, opened, take

LABEL = ["ResumableChangeStreamError"]
BROKEN_GET_MORE = {"failCommands": ["getMore"], "closeConnection": True}
ONCE = {"times": 1}

_numbers = itertools.count()


Server = ReplicaSet | ShardedCluster


@pytest.fixture(scope="module", params=[ReplicaSet, ShardedCluster])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A deployment for this file: its tests set fail points."""
    with request.param() as started:
        yield started


@pytest.fixture
def collection(server: Server) -> Collection[Event]:
    client = server.client()
    collection = client.prose[f"test{next(_numbers)}"]
    if isinstance(server, ShardedCluster):
        client.admin.command("shardCollection", collection.full_name, key={"_id": "hashed"})
    return collection


def stages(recorder: CommandRecorder) -> list[Mapping[str, Any]]:
    """The `$changeStream` documents of all aggregates."""
    sent = [started.command for started in recorder.commands if started.name == "aggregate"]
    return [command["pipeline"][0]["$changeStream"] for command in sent]


class PostBatchTokens(CommandListener):
    """The post-batch token of the newest reply."""

    newest: Mapping[str, Any] | None = None

    def started(self, event: CommandStartedEvent) -> None: ...

    def failed(self, event: CommandFailedEvent) -> None: ...

    def succeeded(self, event: CommandSucceededEvent) -> None:
        if event.command_name in ("aggregate", "getMore"):
            self.newest = event.reply["cursor"].get("postBatchResumeToken")


def token_of_first_event(shell: str, uri: str, collection: Collection[Event]) -> Any:
    """A token with events after it: the first of three inserts."""
    with opened(shell, uri, collection.full_name) as stream:
        collection.insert_many([{"_id": number} for number in range(3)])
        return stream.next()["_id"]


def test_01_the_token_is_tracked_continuously(
    server: Server, shell: str, collection: Collection[Event]
) -> None:
    with opened(shell, server.uri, collection.full_name, batch_size=2) as stream:
        collection.insert_many([{"_id": number} for number in range(6)])
        for number in range(6):
            event = stream.next()
            assert event["documentKey"] == {"_id": number}
            token: Any = stream.resume_token
            assert token["_data"] >= event["_id"]["_data"]


def test_02_a_missing_token_is_an_error_of_the_server(
    server: Server, shell: str, collection: Collection[Event]
) -> None:
    with opened(shell, server.uri, collection.full_name, [{"$project": {"_id": 0}}]) as stream:
        collection.insert_one({})
        with pytest.raises(OperationFailure) as raised:
            stream.next()
        assert raised.value.code == 280
        assert not stream.alive


def test_02_a_missing_token_is_an_error_of_the_driver_before_4_2(shell: str) -> None:
    with emulated(server_version="4.0.28") as old:
        collection = old.client().prose.old
        with opened(shell, old.uri, collection.full_name, [{"$project": {"_id": 0}}]) as stream:
            collection.insert_one({})
            with pytest.raises(InvalidOperation, match="resume token is missing"):
                stream.next()
            assert not stream.alive


def test_03_one_resume_with_the_initial_pipeline_and_options(
    server: Server, shell: str, collection: Collection[Event]
) -> None:
    recorder = CommandRecorder()
    pipeline = [{"$match": {"documentKey._id": {"$lt": 10}}}]
    with opened(
        shell, server.uri, collection.full_name, pipeline,
        recorder=recorder, full_document="updateLookup", batch_size=3,
    ) as stream:  # fmt: skip
        collection.insert_one({"_id": 1})
        stream.next()
        position = stream.resume_token
        with server.fail_point(mode=ONCE, data=BROKEN_GET_MORE):
            collection.insert_one({"_id": 2})
            assert keys([stream.next()]) == [2]
    first, second = [started.command for started in recorder.commands if started.name == "aggregate"]
    assert first["pipeline"] == [{"$changeStream": {"fullDocument": "updateLookup"}}, *pipeline]
    resumed = {"fullDocument": "updateLookup", "resumeAfter": position}
    assert second["pipeline"] == [{"$changeStream": resumed}, *pipeline]
    assert first["cursor"] == second["cursor"] == {"batchSize": 3}


def test_04_an_error_of_an_aggregate_is_not_resumed(server: Server, shell: str) -> None:
    recorder = CommandRecorder()
    data = {"failCommands": ["aggregate"], "errorCode": 280, "errorLabels": LABEL}
    with (
        server.fail_point(mode=ONCE, data=data),
        pytest.raises(OperationFailure),
        opened(shell, server.uri, "prose.aggregate", recorder=recorder),
    ):
        pass
    assert len(stages(recorder)) == 1


def test_04_nor_is_that_of_a_resume(server: Server, shell: str, collection: Collection[Event]) -> None:
    recorder = CommandRecorder()
    with opened(shell, server.uri, collection.full_name, recorder=recorder) as stream:
        data = {"failCommands": ["getMore", "aggregate"], "errorCode": 280, "errorLabels": LABEL}
        with server.fail_point(mode={"times": 2}, data=data), pytest.raises(OperationFailure):
            stream.next()
        assert len(stages(recorder)) == 2
        collection.insert_one({"_id": 1})
        assert keys([stream.next()]) == [1]  # the next call may try again, as in PyMongo
    assert len(stages(recorder)) == 3


def test_06_a_server_is_selected_before_a_resume(
    server: Server, shell: str, collection: Collection[Event]
) -> None:
    selections: list[list[ServerDescription]] = []

    def select(servers: list[ServerDescription]) -> list[ServerDescription]:
        selections.append(servers)
        return servers

    settings = {"server_selector": select, "readPreference": "secondaryPreferred"}
    recorder = CommandRecorder()
    with opened(
        shell, server.uri, collection.full_name, client=settings, recorder=recorder, batch_size=1
    ) as stream:
        collection.insert_one({"_id": 1})
        stream.next()
        before = len(selections)
        with server.fail_point(mode=ONCE, data=BROKEN_GET_MORE):
            collection.insert_one({"_id": 2})
            stream.next()
        assert len(selections) > before
    preferences = [
        started.command.get("$readPreference") for started in recorder.commands if started.name == "aggregate"
    ]
    assert preferences == [{"mode": "secondaryPreferred"}] * 2


def test_06_a_resume_goes_to_a_member_that_the_read_preference_allows(shell: str) -> None:
    with emulated(members=3) as replica_set:
        collection = replica_set.client().prose.members
        settings = {"readPreference": ReadPreference.SECONDARY.mongos_mode}
        with opened(shell, replica_set.uri, collection.full_name, client=settings) as stream:
            collection.insert_one({"_id": 1})
            stream.next()
            with replica_set.fail_point(mode=ONCE, data=BROKEN_GET_MORE):
                collection.insert_one({"_id": 2})
                assert keys([stream.next()]) == [2]


def test_07_an_empty_first_batch_leaves_the_cursor_open(
    server: Server, shell: str, collection: Collection[Event]
) -> None:
    recorder = CommandRecorder()
    with opened(shell, server.uri, collection.full_name, recorder=recorder) as stream:
        assert stream.alive
        collection.insert_one({"_id": 1})
        stream.next()
        assert {started.name for started in recorder.commands} == {"aggregate", "getMore"}


def test_08_a_kill_during_a_resume_must_not_raise(
    server: Server, shell: str, collection: Collection[Event]
) -> None:
    recorder = CommandRecorder()
    with opened(shell, server.uri, collection.full_name, recorder=recorder) as stream:
        fails = {"errorCode": 6, "errorLabels": LABEL}
        with server.fail_point(mode={"times": 2}, data={"failCommands": ["getMore", "killCursors"], **fails}):
            collection.insert_one({"_id": 1})
            assert keys([stream.next()]) == [1]
        assert "killCursors" in {started.name for started in recorder.commands}


def test_09_a_stream_without_results_resumes_at_its_operation_time_before_4_0_7(shell: str) -> None:
    recorder = CommandRecorder()
    with emulated(server_version="4.0.6") as old:
        collection = old.client().prose.old
        with (
            opened(shell, old.uri, collection.full_name, recorder=recorder) as stream,
            old.fail_point(mode=ONCE, data=BROKEN_GET_MORE),
        ):
            collection.insert_one({"_id": 1})
            assert keys([stream.next()]) == [1]
    first, second = stages(recorder)
    assert first == {}
    assert list(second) == ["startAtOperationTime"]
    assert isinstance(second["startAtOperationTime"], Timestamp)


def test_11_the_post_batch_token_is_the_token_at_the_end_of_a_batch(
    server: Server, shell: str, collection: Collection[Event]
) -> None:
    tokens = PostBatchTokens()
    with opened(shell, server.uri, collection.full_name, client={"event_listeners": [tokens]}) as stream:
        assert stream.resume_token == tokens.newest is not None
        assert stream.try_next() is None
        assert stream.resume_token == tokens.newest
        collection.insert_many([{}, {}])
        take(stream, 2)
        assert stream.resume_token == tokens.newest


@pytest.mark.parametrize("has_start", [False, True])
def test_12_without_post_batch_token_the_last_event_or_the_start_is_the_token(
    shell: str, has_start: bool
) -> None:
    with emulated(server_version="4.0.6") as old:
        collection = old.client().prose.old
        token = token_of_first_event(shell, old.uri, collection)
        start = {"resume_after": token} if has_start else {}
        with opened(shell, old.uri, collection.full_name, batch_size=0, **start) as stream:
            assert stream.resume_token == (token if has_start else None)
            collection.insert_one({"_id": 9})
            assert stream.next()["_id"] == stream.resume_token


def test_13_within_a_batch_the_token_is_that_of_the_event_before(
    server: Server, shell: str, collection: Collection[Event]
) -> None:
    with opened(shell, server.uri, collection.full_name) as stream:
        collection.insert_many([{"_id": number} for number in range(3)])
        for event in take(stream, 2):
            position = event["_id"]
        assert stream.resume_token == position


@pytest.mark.parametrize("option", ["start_after", "resume_after"])
def test_14_a_first_batch_that_was_not_touched_leaves_the_start_as_token(
    server: Server, shell: str, collection: Collection[Event], option: str
) -> None:
    if isinstance(server, ShardedCluster):
        pytest.skip("only for replica sets in the specification: a router's first batch may be empty")
    token = token_of_first_event(shell, server.uri, collection)
    recorder = CommandRecorder()
    with opened(shell, server.uri, collection.full_name, recorder=recorder, **{option: token}) as stream:
        assert stream.resume_token == token
        assert keys(take(stream, 2)) == [1, 2]
        assert [started.name for started in recorder.commands] == ["aggregate"]


def test_14_without_a_start_the_token_is_empty(
    server: Server, shell: str, collection: Collection[Event]
) -> None:
    time = server.cluster_time
    collection.insert_one({"_id": 1})
    with opened(shell, server.uri, collection.full_name, start_at_operation_time=time) as stream:
        assert stream.resume_token is None
        assert keys([stream.next()]) == [1]


def resume(server: Server, stream: Stream) -> None:
    with server.fail_point(mode=ONCE, data=BROKEN_GET_MORE):
        stream.try_next()


def test_17_start_after_stays_start_after_while_there_are_no_results(
    server: Server, shell: str, collection: Collection[Event]
) -> None:
    with opened(shell, server.uri, collection.full_name) as stream:
        token = stream.resume_token
    recorder = CommandRecorder()
    with opened(shell, server.uri, collection.full_name, recorder=recorder, start_after=token) as stream:
        resume(server, stream)
    first, second = stages(recorder)
    assert list(first) == list(second) == ["startAfter"]


def test_18_start_after_becomes_resume_after_with_the_first_result(
    server: Server, shell: str, collection: Collection[Event]
) -> None:
    token = token_of_first_event(shell, server.uri, collection)
    recorder = CommandRecorder()
    with opened(shell, server.uri, collection.full_name, recorder=recorder, start_after=token) as stream:
        position = take(stream, 2)[-1]["_id"]
        resume(server, stream)
    first, second = stages(recorder)
    assert list(first) == ["startAfter"]
    assert list(second) == ["resumeAfter"]
    assert second["resumeAfter"]["_data"] >= position["_data"]
