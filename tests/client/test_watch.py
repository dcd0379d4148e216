"""Both streams on a server: what they send, to which member, in which session, and how they take replies."""

import asyncio
import gc
import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from bson.codec_options import TypeDecoder, TypeRegistry
from bson.raw_bson import RawBSONDocument
from pymongo import AsyncMongoClient, MongoClient
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import ConfigurationError, OperationFailure, PyMongoError
from pymongo.monitoring import CommandStartedEvent
from pymongo.read_concern import ReadConcern

from tailrace import AsyncChangeStream, awatch, watch, watch_async
from tailrace.spectest.recorder import CommandRecorder
from tailrace.testing.replica_set import ReplicaSet
from tests.client.shells import Event, keys, opened, take

LABEL = ["ResumableChangeStreamError"]
ONCE = {"times": 1}


_numbers = itertools.count()


@pytest.fixture
def collection(server: ReplicaSet) -> Collection[Event]:
    """A new collection."""
    return server.client().shop[f"orders{next(_numbers)}"]


def namespace(collection: Collection[Event]) -> str:
    return collection.full_name


@pytest.mark.parametrize("scope", ["", "shop", "shop.scopes"])
def test_a_collection_a_database_and_everything_can_be_watched(
    server: ReplicaSet, shell: str, scope: str
) -> None:
    scopes = server.client().shop.scopes
    with opened(shell, server.uri, scope) as stream:
        key = scopes.insert_one({}).inserted_id
        assert stream.next()["documentKey"] == {"_id": key}


def test_events_come_in_order_and_the_token_follows_them(
    server: ReplicaSet, shell: str, collection: Collection[Event]
) -> None:
    with opened(shell, server.uri, namespace(collection)) as stream:
        collection.insert_many([{"_id": number} for number in range(300)])
        collection.update_one({"_id": 7}, {"$set": {"x": 1}})
        events = take(stream, 301)
        assert keys(events) == [*range(300), 7]
        assert events[-1]["operationType"] == "update"
        position = stream.resume_token
    with opened(shell, server.uri, namespace(collection), resume_after=position) as stream:
        collection.insert_one({"_id": 300})
        assert keys([stream.next()]) == [300]


def test_the_token_is_a_copy(server: ReplicaSet, shell: str, collection: Collection[Event]) -> None:
    with opened(shell, server.uri, namespace(collection)) as stream:
        copy: Any = stream.resume_token
        copy.clear()
        assert stream.resume_token


def test_try_next_sends_one_get_more_and_shows_a_newer_token(
    server: ReplicaSet, shell: str, collection: Collection[Event]
) -> None:
    recorder = CommandRecorder()
    with opened(shell, server.uri, namespace(collection), recorder=recorder) as stream:
        before = stream.resume_token
        for _ in range(2):
            collection.database.elsewhere.insert_one({})
        assert stream.try_next() is None
        assert [started.name for started in recorder.commands] == ["aggregate", "getMore"]
        assert stream.resume_token != before
        collection.insert_many([{"_id": 1}, {"_id": 2}])
        assert [stream.try_next() is not None, stream.try_next() is not None] == [True, True]


@pytest.mark.parametrize(
    "data",
    [
        {"closeConnection": True},
        {"errorCode": 43},
        {"errorCode": 11602, "errorLabels": LABEL},
        {"errorCode": 10107, "errorLabels": LABEL},
        {"errorCode": 280, "errorLabels": LABEL},
        {"errorCode": 13436, "errorLabels": []},
    ],
    ids=["cut", "CursorNotFound", "interrupted", "not primary", "any label", "recovering without label"],
)
def test_a_resumable_error_is_not_seen(
    server: ReplicaSet, shell: str, collection: Collection[Event], data: Event
) -> None:
    recorder = CommandRecorder()
    with opened(shell, server.uri, namespace(collection), recorder=recorder, batch_size=2) as stream:
        collection.insert_many([{"_id": number} for number in range(5)])
        seen = take(stream, 2)
        with server.fail_point(mode={"times": 2}, data={"failCommands": ["getMore"], **data}):
            seen += take(stream, 3)
        assert keys(seen) == [0, 1, 2, 3, 4]
    assert len([started for started in recorder.commands if started.name == "aggregate"]) == 3


@pytest.mark.parametrize(
    "data",
    [{"errorCode": 6, "errorLabels": []}, {"errorCode": 280, "errorLabels": []}, {"errorCode": 2}],
)
def test_any_other_error_is_raised_and_closes_the_stream(
    server: ReplicaSet, shell: str, collection: Collection[Event], data: Event
) -> None:
    with opened(shell, server.uri, namespace(collection)) as stream:
        with (
            server.fail_point(mode=ONCE, data={"failCommands": ["getMore"], **data}),
            pytest.raises(PyMongoError),
        ):
            stream.next()
        assert not stream.alive
        assert stream.try_next() is None
        with pytest.raises(StopIteration):
            stream.next()


def test_one_session_is_used_for_all_that_a_stream_sends(
    server: ReplicaSet, shell: str, collection: Collection[Event]
) -> None:
    recorder = CommandRecorder()
    with opened(shell, server.uri, namespace(collection), recorder=recorder) as stream:
        data = {"failCommands": ["getMore"], "errorCode": 6, "errorLabels": LABEL}
        with server.fail_point(mode=ONCE, data=data):
            assert stream.try_next() is None
        assert stream.try_next() is None
    names = [started.name for started in recorder.commands]
    assert names == ["aggregate", "getMore", "killCursors", "aggregate", "getMore", "killCursors"]
    assert len({started.command["lsid"]["id"] for started in recorder.commands}) == 1


def test_a_session_that_is_passed_in_is_used_and_left_open(server: ReplicaSet) -> None:
    recorder = CommandRecorder()
    client = server.client(event_listeners=[recorder])
    with client.start_session() as session:
        with watch(client.shop.sessions, session=session, max_await_time_ms=1) as stream:
            stream.try_next()
        assert not session.has_ended
        assert {started.command["lsid"]["id"] for started in recorder.commands} == {session.session_id["id"]}


def open_cursors(server: ReplicaSet) -> int:
    status = server.client().admin.command("serverStatus")
    count: int = status["metrics"]["cursor"]["open"]["total"]
    return count


def test_closing_frees_the_cursor_and_can_be_repeated(
    server: ReplicaSet, shell: str, collection: Collection[Event]
) -> None:
    before = open_cursors(server)
    with opened(shell, server.uri, namespace(collection)) as stream:
        assert open_cursors(server) == before + 1
        stream.close()
        stream.close()
        assert open_cursors(server) == before
        assert not stream.alive


class GetMoreRecorder(CommandRecorder):
    """Sets an event when a getMore is sent."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = threading.Event()

    def started(self, event: CommandStartedEvent) -> None:
        super().started(event)
        if event.command_name == "getMore":
            self.waits.set()

    def names(self) -> list[str]:
        return [started.name for started in self.commands]


def test_a_stream_that_another_thread_closes_ends_and_does_not_resume(
    server: ReplicaSet, collection: Collection[Event]
) -> None:
    before = open_cursors(server)
    recorder = GetMoreRecorder()
    with (
        MongoClient[Event](server.uri, event_listeners=[recorder]) as client,
        watch(client.shop[collection.name], max_await_time_ms=60_000) as stream,
        ThreadPoolExecutor(1) as pool,
    ):
        waiting = pool.submit(list, stream)
        assert recorder.waits.wait(10)
        stream.close()
        assert waiting.result(10) == []
        assert not stream.alive
        assert recorder.names() == ["aggregate", "getMore", "killCursors"]
        assert open_cursors(server) == before


def test_a_closed_stream_does_not_resume_after_a_resumable_error(
    server: ReplicaSet, collection: Collection[Event]
) -> None:
    recorder = GetMoreRecorder()
    lost = {"failCommands": ["getMore"], "errorCode": 43, "blockConnection": True, "blockTimeMS": 1000}
    with (
        MongoClient[Event](server.uri, event_listeners=[recorder]) as client,
        watch(client.shop[collection.name]) as stream,
        ThreadPoolExecutor(1) as pool,
        server.fail_point(mode=ONCE, data=lost),
    ):
        waiting = pool.submit(list, stream)
        assert recorder.waits.wait(10)
        stream.close()
        collection.insert_one({"_id": 1})
        assert waiting.result(10) == []
        assert recorder.names() == ["aggregate", "getMore", "killCursors"]


def test_a_stream_that_another_task_closes_ends_and_does_not_resume(
    server: ReplicaSet, collection: Collection[Event]
) -> None:
    before = open_cursors(server)
    recorder = GetMoreRecorder()

    async def scenario() -> None:
        async with (
            AsyncMongoClient[Event](server.uri, event_listeners=[recorder]) as client,
            await watch_async(client.shop[collection.name], max_await_time_ms=60_000) as stream,
        ):
            waiting = asyncio.create_task(anext(stream, None))
            assert await asyncio.to_thread(recorder.waits.wait, 10)
            await stream.close()
            assert await asyncio.wait_for(waiting, 10) is None
            assert not stream.alive

    asyncio.run(scenario())
    assert recorder.names() == ["aggregate", "getMore", "killCursors"]
    assert open_cursors(server) == before


def test_an_error_of_a_kill_is_ignored(server: ReplicaSet, shell: str, collection: Collection[Event]) -> None:
    recorder = CommandRecorder()
    with (
        opened(shell, server.uri, namespace(collection), recorder=recorder) as stream,
        server.fail_point(data={"failCommands": ["killCursors"], "closeConnection": True}),
    ):
        data = {"errorCode": 6, "errorLabels": LABEL}
        with server.fail_point("failGetMoreAfterCursorCheckout", ONCE, data):
            collection.insert_one({"_id": 1})
            assert keys([stream.next()]) == [1]
        stream.close()
    assert [started.name for started in recorder.commands].count("killCursors") == 2


def test_a_lost_connection_leaves_no_cursor(
    server: ReplicaSet, shell: str, collection: Collection[Event]
) -> None:
    before = open_cursors(server)
    with opened(shell, server.uri, namespace(collection)) as stream:
        with server.fail_point(
            mode={"times": 3}, data={"failCommands": ["getMore"], "closeConnection": True}
        ):
            collection.insert_one({"_id": 1})
            stream.next()
        assert open_cursors(server) == before + 1


def test_a_stream_that_is_dropped_leaves_no_cursor(server: ReplicaSet) -> None:
    before = open_cursors(server)
    client = server.client()
    stream = watch(client.shop.dropped)
    assert open_cursors(server) == before + 1
    del stream
    gc.collect()
    deadline = time.monotonic() + 30
    while open_cursors(server) > before:
        assert time.monotonic() < deadline


def test_an_invalidated_stream_ends_and_can_be_started_after(
    server: ReplicaSet, shell: str, collection: Collection[Event]
) -> None:
    collection.insert_one({"_id": 0})
    with opened(shell, server.uri, namespace(collection)) as stream:
        collection.drop()
        assert [event["operationType"] for event in take(stream, 2)] == ["drop", "invalidate"]
        assert not stream.alive
        with pytest.raises(StopIteration):
            stream.next()
        position = stream.resume_token
    with opened(shell, server.uri, namespace(collection), start_after=position) as stream:
        collection.insert_one({"_id": 1})
        assert keys([stream.next()]) == [1]


@pytest.mark.parametrize(
    ("pipeline", "options", "code"),
    [
        ([], {"full_document": "whenever"}, 2),
        ([], {"full_document_before_change": "whenever"}, 2),
        ([], {"resume_after": {"_data": "00"}, "start_after": {"_data": "00"}}, 50865),
        ([], {"stage_options": {"unheardOf": 1}}, 40415),
        ([], {"batch_size": -1}, 2),
        ([{"$changeStream": {}}], {}, 40602),
        ([{"$group": {"_id": None}}], {}, 20),
        ([{"$nonsense": 1}], {}, 40324),
    ],
)
def test_the_server_judges_options_and_stages(
    server: ReplicaSet, shell: str, pipeline: list[Event], options: Event, code: int
) -> None:
    with (
        pytest.raises(OperationFailure) as raised,
        opened(shell, server.uri, "shop.judged", pipeline, **options),
    ):
        pass
    assert raised.value.code == code


def test_the_read_concern_of_the_target_is_sent_and_judged_by_the_server(server: ReplicaSet) -> None:
    recorder = CommandRecorder()
    target = server.client(event_listeners=[recorder]).shop.concerned
    with watch(target.with_options(read_concern=ReadConcern("majority"))):
        assert recorder.commands[0].command["readConcern"] == {"level": "majority"}
    with pytest.raises(OperationFailure) as raised:
        watch(target.with_options(read_concern=ReadConcern("linearizable")))
    assert raised.value.code == 72


def test_what_cannot_be_watched_is_refused(server: ReplicaSet) -> None:
    target: Any = "shop.orders"
    with pytest.raises(TypeError, match=r"shop\.orders"):
        watch(target)
    with pytest.raises(TypeError, match=r"shop\.orders"):
        asyncio.run(watch_async(target))
    with (
        MongoClient[Event]("mongodb://127.0.0.1:1/?loadBalanced=true", connect=False) as balanced,
        pytest.raises(ConfigurationError, match="load balancer"),
    ):
        watch(balanced)


def test_the_pipeline_is_copied(server: ReplicaSet, collection: Collection[Event]) -> None:
    pipeline: list[Event] = [{"$match": {"documentKey._id": {"$gt": 1}}}]
    with watch(collection, pipeline, max_await_time_ms=1) as stream:
        pipeline[0]["$match"]["documentKey._id"]["$gt"] = 100
        with server.fail_point(mode=ONCE, data={"failCommands": ["getMore"], "closeConnection": True}):
            stream.try_next()
        collection.insert_many([{"_id": 1}, {"_id": 2}])
        assert next(stream)["documentKey"] == {"_id": 2}


def test_raw_documents_stay_raw(server: ReplicaSet) -> None:
    client: MongoClient[RawBSONDocument] = MongoClient(server.uri, document_class=RawBSONDocument)
    with client, watch(client.shop.raw, batch_size=2, max_await_time_ms=50) as stream:
        server.client().shop.raw.insert_many([{"_id": number} for number in range(5)])
        with server.fail_point(mode=ONCE, data={"failCommands": ["getMore"], "closeConnection": True}):
            events = [next(stream) for _ in range(5)]
        assert all(isinstance(event, RawBSONDocument) for event in events)
        assert [event["documentKey"]["_id"] for event in events] == [0, 1, 2, 3, 4]


class Shouting(TypeDecoder):
    """A decoder that would damage a resume token."""

    bson_type = str

    def transform_bson(self, value: str) -> str:
        return f"{value}!"


def test_decoders_of_the_application_do_not_touch_tokens(
    server: ReplicaSet, shell: str, collection: Collection[Event]
) -> None:
    settings = {"type_registry": TypeRegistry([Shouting()])}
    with opened(shell, server.uri, namespace(collection), client=settings, batch_size=1) as stream:
        collection.insert_many([{"_id": 1, "x": "a"}, {"_id": 2, "x": "b"}])
        with server.fail_point(mode=ONCE, data={"failCommands": ["getMore"], "closeConnection": True}):
            assert [event["fullDocument"]["x"] for event in take(stream, 2)] == ["a!", "b!"]


def test_a_call_that_runs_out_of_time_leaves_a_usable_stream(
    server: ReplicaSet, shell: str, collection: Collection[Event]
) -> None:
    settings = {"timeoutMS": 300}
    with opened(shell, server.uri, namespace(collection), client=settings) as stream:
        with pytest.raises(PyMongoError) as raised:
            stream.next()
        assert raised.value.timeout
        assert stream.alive
        collection.insert_one({"_id": 1})
        assert keys([stream.next()]) == [1]


def test_a_cancelled_call_loses_nothing(server: ReplicaSet, collection: Collection[Event]) -> None:
    async def scenario() -> list[Any]:
        async with (
            AsyncMongoClient[Event](server.uri) as client,
            await watch_async(client.shop[collection.name]) as stream,
        ):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(stream.next(), 0.1)
            await client.shop[collection.name].insert_many([{"_id": 1}, {"_id": 2}])
            return [event["documentKey"]["_id"] async for event in _some(stream, 2)]

    assert asyncio.run(scenario()) == [1, 2]


async def _some(stream: AsyncChangeStream[Event], count: int) -> Any:
    async for event in stream:
        yield event
        count -= 1
        if count == 0:
            return


def test_an_async_stream_is_opened_by_its_block(tailrace_uri: str, tailrace_database: Database[Any]) -> None:
    async def scenario() -> None:
        async with AsyncMongoClient[dict[str, Any]](tailrace_uri) as client:
            orders = client[tailrace_database.name].orders
            async with awatch(orders, [{"$match": {"n": {"$exists": False}}}]) as stream:
                await orders.insert_one({"_id": 1})
                assert (await anext(stream))["documentKey"] == {"_id": 1}
                token = stream.resume_token
            assert not stream.alive
            again = await awatch(orders, start_after=token)
            await orders.insert_one({"_id": 2})
            assert (await again.next())["documentKey"] == {"_id": 2}
            await again.close()

    asyncio.run(scenario())
