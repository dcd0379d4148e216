"""A replica set in a few seconds: `python -m tailrace.testing.demo`, which is what `make run` does.

Starts `tailrace serve`, writes a shop's day with PyMongo, prints the events of a change stream with their
tokens, kills the server, starts it again on the same data and resumes; then reads the oplog over the wire and
replays it. The exit code is 0 only if all three give the same events.
"""

import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import bson
from bson import Decimal128
from pymongo import MongoClient
from pymongo.change_stream import ChangeStream
from pymongo.client_session import ClientSession
from pymongo.database import Database

from tailrace.bsonio import extjson
from tailrace.cli.main import main as tailrace
from tailrace.testing.event_lines import event_line, shortened

Document = dict[str, Any]

_EXPANDED: Final = '{"showExpandedEvents": true}'
_DAY: Final = datetime(2026, 1, 5, 9, 30, tzinfo=UTC)
_LAST: Final = "drop"


def main(arguments: Sequence[str] = ()) -> int:
    """Run the tour; the exit code."""
    with TemporaryDirectory(prefix="tailrace-demo-") as made:
        folder = Path(arguments[0]) if arguments else Path(made)
        with serving(folder) as (server, uri):
            events = _live(uri)
            print("\nThe server is killed (SIGKILL) and started again on the same data.\n")
            server.kill()
        with serving(folder) as (_, uri):
            resumed = _resumed(uri, events[2])
            oplog = _dump_oplog(uri, folder)
        replayed = _replayed(oplog, folder)
    if resumed != events[3:] or replayed != events:
        print("\nThe runs differ, and must not: this is a fault in Tailrace.", file=sys.stderr)
        return 1
    print(f"\nLive, resumed and replayed, the {len(events)} events are the same.")
    return 0


@contextmanager
def serving(folder: Path) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """`tailrace serve` as a process of its own, and its address; ended by SIGTERM."""
    command = ["serve", "--no-spark", "--port", "0", "--data", str(folder / "data"), "--log-level", "warning"]
    print(f"$ tailrace {shlex.join(command)}", flush=True)
    process = subprocess.Popen(
        [sys.executable, "-m", "tailrace", *command], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        ready = process.stdout.readline().strip()
        print(ready, flush=True)
        if not ready.startswith("ready "):
            raise SystemExit("the server did not start; what it said is above")
        yield process, ready.removeprefix("ready ")
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _live(uri: str) -> list[Document]:
    print("\nA shop takes orders; a change stream on the database shows each change and its resume token.\n")
    with MongoClient[Document](uri) as client:
        shop = client.shop
        with shop.watch(show_expanded_events=True) as stream:
            _take_orders(client, shop)
            events = []
            for event in _until_last(stream):
                events.append(event)
                print(event_line(event))
                print(shortened(f"    {event['_id']['_data']}"))
    return events


def _take_orders(client: MongoClient[Document], shop: Database[Document]) -> None:
    orders = shop.create_collection("orders", changeStreamPreAndPostImages={"enabled": True})
    stock = shop.stock
    stock.insert_many([{"_id": "teapot", "qty": 12}, {"_id": "kettle", "qty": 3}])
    orders.insert_one(_order(1, "Ada", "teapot", "19.90"))
    orders.insert_one(_order(2, "Grace", "kettle", "59.80"))
    orders.update_one({"_id": 1}, {"$set": {"status": "paid", "address.city": "Bath"}})
    orders.update_one({"_id": 1}, {"$push": {"items": "cup"}, "$unset": {"note": ""}})

    def buy(session: ClientSession) -> None:
        orders.insert_one(_order(3, "Alan", "teapot", "39.80"), session=session)
        stock.update_one({"_id": "teapot"}, {"$inc": {"qty": -2}}, session=session)

    with client.start_session() as session:
        session.with_transaction(buy)
    orders.create_index("customer")
    orders.delete_one({"_id": 2})
    orders.rename("orders2026")
    stock.drop()


def _order(number: int, customer: str, item: str, total: str) -> Document:
    return {
        "_id": number,
        "customer": customer,
        "items": [item],
        "total": Decimal128(total),
        "placed": _DAY,
        "note": "leave at the door",
    }


def _until_last(stream: ChangeStream[Document]) -> Iterator[Document]:
    for event in stream:
        yield event
        if event["operationType"] == _LAST:
            return


def _resumed(uri: str, event: Document) -> list[Document]:
    print(f"\nResumed after the {event['operationType']} of {event.get('documentKey')}:\n")
    with MongoClient[Document](uri) as client:
        started = time.perf_counter()
        with client.shop.watch(resume_after=event["_id"], show_expanded_events=True) as stream:
            events = list(_until_last(stream))
        took = time.perf_counter() - started
    print(f"  {len(events)} events in {took * 1000:.0f} ms, from {events[0]['operationType']} to {_LAST}\n")
    return events


def _dump_oplog(uri: str, folder: Path) -> Path:
    """The oplog as a file, as `mongodump` would write it."""
    path = folder / "oplog.bson"
    with MongoClient[Document](uri) as client, path.open("wb") as file:
        batches: Iterable[Any] = client.local["oplog.rs"].find_raw_batches()
        for batch in batches:
            file.write(batch)
    print(f"The oplog, read over the wire: {path.name}, {path.stat().st_size:,} bytes.\n")
    return path


def _replayed(oplog: Path, folder: Path) -> list[Document]:
    out = folder / "events.jsonl"
    command = ["replay", str(oplog), "--ns", "shop", "--options", _EXPANDED, "--out", str(out)]
    print(f"$ tailrace {shlex.join(command)}", flush=True)
    if tailrace(command):
        raise SystemExit("the replay failed; what it said is above")
    return [_as_driver(line) for line in out.read_text().splitlines()]


def _as_driver(line: str) -> Document:
    """A line of Extended JSON as PyMongo would decode the event."""
    return bson.decode(extjson.loads(line))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
