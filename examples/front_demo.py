"""Tailrace in front of a MongoDB of your own: `python -m examples.front_demo URI`, or `make run SOURCE=URI`.

Starts `tailrace serve --source URI`, which writes nothing to the deployment, and prints the deployment's
changes of the last ten minutes, of less if its oplog is shorter, or the next ones. Then it resumes after the
first of them, through Tailrace and on the deployment itself. The exit code is 0 only if all three show the
same events.

A password is the variable TAILRACE_PASSWORD.
"""

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from bson import Timestamp
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from examples.demo import serving
from examples.event_lines import event_line, shortened

Document = dict[str, Any]
_PAST_SECONDS: Final = (600, 60, 5)
"""How far back to look; a short oplog, or a new deployment, does not have ten minutes."""
_WAIT_SECONDS: Final = 30.0
_MOST: Final = 8
_FORGOTTEN: Final = 286


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 1:
        print("Name your deployment: make run SOURCE=mongodb://HOST:PORT/?replicaSet=NAME", file=sys.stderr)
        return 2
    (uri,) = arguments
    with (
        TemporaryDirectory(prefix="tailrace-demo-") as made,
        serving(Path(made), "--source", uri, "--no-spark") as (_, served),
        MongoClient[Document](served) as front,
        MongoClient[Document](uri, password=os.environ.get("TAILRACE_PASSWORD")) as source,
    ):
        shown = front.admin.command("serverStatus")["source"]
        print(f"\nTailrace serves the change streams of {shown['address']}, MongoDB {shown['version']}.")
        events = _recent(front) or _next_ones(front)
        if not events:
            print("\nNothing was changed. Write something to your deployment, and run this again.")
            return 0
        after = {"resume_after": events[0]["_id"]}
        resumed = [_taken(client, len(events) - 1, **after) for client in (front, source)]
    if resumed != [events[1:], events[1:]]:
        print("\nThe streams differ, which is a bug in Tailrace; please report it.", file=sys.stderr)
        return 1
    same = f"the same {len(events) - 1}"
    print(f"\nResumed after the first one, through Tailrace and on the deployment: {same}.")
    print("With --history DIR streams resume when the oplog has forgotten them: docs/in-front.md.")
    return 0


def _recent(front: MongoClient[Document]) -> list[Document]:
    for seconds in _PAST_SECONDS:
        start = Timestamp(int(time.time()) - seconds, 1)
        try:
            found = _taken(front, _MOST, start_at_operation_time=start)
        except OperationFailure as error:
            if error.code != _FORGOTTEN:
                raise
            print(f"\nThe oplog does not go back for {seconds} seconds.")
        else:
            print(f"\nChanges of the last {seconds} seconds, up to {_MOST}, and their resume tokens:\n")
            return _printed(found)
    return []


def _next_ones(front: MongoClient[Document]) -> list[Document]:
    print(f"There are none. The next ones, for {_WAIT_SECONDS:.0f} seconds:\n", flush=True)
    return _printed(_taken(front, _MOST, seconds=_WAIT_SECONDS))


def _taken(client: MongoClient[Document], most: int, seconds: float = 2.0, **start: Any) -> list[Document]:
    """The first events of the deployment's stream, as many as come in time."""
    found: list[Document] = []
    end = time.monotonic() + seconds
    with client.watch(max_await_time_ms=200, **start) as stream:
        while len(found) < most and time.monotonic() < end:
            event = stream.try_next()
            if event is not None:
                found.append(dict(event))
    return found


def _printed(events: list[Document]) -> list[Document]:
    for event in events:
        print(event_line(event))
        print(shortened(f"    {event['_id']['_data']}"))
    return events


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
