"""Events for people: a live tail that is never too fast to read, and the events of a range of time.

Both are change streams of the visitor's own client: its rights decide what is shown, and the deployment
decides whether an event comes from the oplog or from the history.
"""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

from bson import Timestamp
from bson.json_util import RELAXED_JSON_OPTIONS, dumps, loads
from pymongo.asynchronous.change_stream import AsyncChangeStream
from pymongo.errors import OperationFailure, PyMongoError

from tailrace.events.cluster_time import seconds_of
from tailrace.events.resume_token import cluster_time_of
from tailrace.web.deployment import Client, in_short

_EVENTS_A_SECOND: Final = 50
"""More cannot be read; the rest is skipped, and the stream continues with new events."""
_WAIT_MS: Final = 1000
_RANGE_EVENTS: Final = 500
_RANGE_SECONDS: Final = 10.0
_RANGE_WAIT_MS: Final = 100
_LONGEST_EVENT: Final = 1 << 18

Event = dict[str, Any]


class WrongFilterError(ValueError):
    """A filter that is no JSON document, or a name that is none of a collection or a database."""


@dataclass(frozen=True, slots=True)
class Tail:
    """What is to be shown: of a collection, a database or everything, and only what a filter accepts."""

    ns: str
    match: Mapping[str, Any]

    @classmethod
    def parse(cls, ns: str, filter_text: str) -> "Tail":
        """Read what a visitor has written."""
        try:
            match = loads(filter_text) if filter_text.strip() else {}
        except (ValueError, TypeError) as error:
            raise WrongFilterError(f"the filter is not JSON: {error}") from None
        if not isinstance(match, dict):
            raise WrongFilterError('the filter is a document such as {"operationType": "insert"}')
        return cls(ns.strip(), match)

    async def open(self, client: Client, **options: Any) -> AsyncChangeStream[Event]:
        pipeline = [{"$match": dict(self.match)}] if self.match else []
        database, _, collection = self.ns.partition(".")
        if not database:
            return await client.watch(pipeline, show_expanded_events=True, **options)
        if not collection:
            return await client[database].watch(pipeline, show_expanded_events=True, **options)
        return await client[database][collection].watch(pipeline, show_expanded_events=True, **options)

    async def live(self, client: Client) -> AsyncGenerator[tuple[str, str]]:
        """Kinds and data of server-sent events: event, skipped, fault, and begin when the stream is open.

        A stream that is invalidated or fails begins again.
        """
        pause = 1.0
        while True:
            try:
                async with aclosing(self._run(client)) as messages:
                    async for message in messages:
                        yield message
                pause = 1.0
            except OperationFailure as error:
                yield "fault", json.dumps({"error": in_short(error)})
                return
            except PyMongoError as error:
                yield "fault", json.dumps({"error": in_short(error)})
                await asyncio.sleep(pause)
                pause = min(pause * 2, 30.0)

    async def _run(self, client: Client) -> AsyncGenerator[tuple[str, str]]:
        """One stream, until it ends or is too fast."""
        async with await self.open(client, max_await_time_ms=_WAIT_MS, batch_size=_EVENTS_A_SECOND) as stream:
            yield "begin", json.dumps({"ns": self.ns})
            second, shown = int(time.monotonic()), 0
            while stream.alive:
                event = await stream.try_next()
                if int(time.monotonic()) != second:
                    second, shown = int(time.monotonic()), 0
                if event is None:
                    yield "idle", "{}"
                    continue
                shown += 1
                yield "event", shown_event(event)
                if shown >= _EVENTS_A_SECOND:
                    break
            else:
                return
        yield "skipped", json.dumps({"shown": shown})
        await asyncio.sleep(max(second + 1 - time.monotonic(), 0.0))

    async def between(self, client: Client, begin: float, end: float) -> tuple[list[str], bool]:
        """The first events of a range, and whether these are all. Moments are seconds since 1970.

        A batch without events is no end: the deployment may have looked through a part of the range only.
        """
        found: list[str] = []
        last = await _last_second(client, end)
        deadline = time.monotonic() + _RANGE_SECONDS
        start = Timestamp(int(begin), 0)
        async with await self.open(
            client, start_at_operation_time=start, max_await_time_ms=_RANGE_WAIT_MS
        ) as stream:
            while stream.alive and time.monotonic() < deadline:
                event = await stream.try_next()
                if event is None:
                    if _second_of(stream) >= last:
                        return found, True
                    continue
                if event["clusterTime"].time > end:
                    return found, True
                if len(found) == _RANGE_EVENTS:
                    return found, False
                found.append(shown_event(event))
        return found, False


async def _last_second(client: Client, end: float) -> float:
    """Up to where a range has to be read: events that are not there yet are no part of it."""
    now: Timestamp | None = (await client.admin.command("ping")).get("operationTime")
    return end if now is None else min(end, now.time)


def _second_of(stream: AsyncChangeStream[Event]) -> int:
    """Up to where a stream has read everything."""
    token = stream.resume_token
    return 0 if token is None else seconds_of(cluster_time_of(token["_data"]))


def shown_event(event: Event) -> str:
    """An event as relaxed Extended JSON; of a large one only what identifies it."""
    text = dumps(event, json_options=RELAXED_JSON_OPTIONS)
    if len(text) <= _LONGEST_EVENT:
        return text
    named = {name: event[name] for name in ("_id", "operationType", "clusterTime", "ns", "documentKey")}
    return dumps({**named, "tooLongToShow": len(text)}, json_options=RELAXED_JSON_OPTIONS)
