"""A tour of the whole system in a minute: `python -m examples.demo`, or `make run`.

Starts `tailrace serve` with its Spark pipeline, writes the orders of a shop with PyMongo, and prints the
events of a change stream with their tokens. Then a factory writes until the oplog no longer has the shop's
entries, the server is killed and started again, and the stream resumes from the history. The oplog, saved
before that, is replayed. The exit code is 0 only if all three give the same events.
"""

import shlex
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from bson import Decimal128, Timestamp
from pymongo import MongoClient
from pymongo.change_stream import ChangeStream
from pymongo.client_session import ClientSession
from pymongo.database import Database

from examples.event_lines import event_line, parse_line, run_tailrace, shortened
from examples.pipeline_patience import check_pipeline
from tailrace import HistoryTable, missing_for_spark

Document = dict[str, Any]

EXPANDED: Final = '{"showExpandedEvents": true}'
_DAY: Final = datetime(2026, 1, 5, 9, 30, tzinfo=UTC)
LAST: Final = "drop"
_SMALL: Final = ("--oplog-size", "1")
_PAUSE_SECONDS: Final = 0.05


def main(arguments: Sequence[str] = ()) -> int:
    missing = missing_for_spark()
    if missing is not None:
        print(f"The tour needs Spark. {missing}", file=sys.stderr)
        return 1
    with TemporaryDirectory(prefix="tailrace-demo-") as made:
        folder = Path(arguments[0]) if arguments else Path(made)
        with serving(folder, *_SMALL) as (server, uri):
            events = _live(uri)
            oplog = _dump_oplog(uri, folder)
            _forget(uri, events[-1]["clusterTime"])
            print("\nThe server is killed (SIGKILL) and started again on the same data.\n")
            server.kill()
        with serving(folder, *_SMALL) as (_, uri):
            resumed = _resumed(uri, events[2])
        _show_history(folder)
        replayed = _replayed(oplog, folder)
    if resumed != events[3:] or replayed != events:
        print("\nThe runs differ, which is a bug in Tailrace; please report it.", file=sys.stderr)
        return 1
    print(f"\nLive, resumed from the history and replayed, the {len(events)} events are the same.")
    return 0


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """Run `tailrace serve` as a process; yield it and its connection string, and end it with SIGTERM."""
    command = ["serve", "--port", "0", "--data", str(folder / "data"), *options]
    print(f"$ tailrace {shlex.join(command)}", flush=True)
    process = subprocess.Popen(
        [sys.executable, "-m", "tailrace", *command, "--log-level", "warning"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        ready = process.stdout.readline().strip()
        print(ready, flush=True)
        if not ready.startswith("ready "):
            raise SystemExit("the server did not start; its error is above")
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
            for event in until_last(stream):
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


def until_last(stream: ChangeStream[Document]) -> Iterator[Document]:
    """The events of a stream up to the drop, the last event of both tours."""
    for event in stream:
        yield event
        if event["operationType"] == LAST:
            return


def _forget(uri: str, last: Timestamp) -> None:
    """Write until the oplog has no entries up to ``last``: it removes what the history contains."""
    print(
        "A factory writes until the oplog of 1 MB no longer has the shop's entries. An entry is removed only"
    )
    print("after the Spark pipeline has written it to the history; the pipeline needs a moment to start.\n")
    started = time.monotonic()
    written = 0
    with MongoClient[Document](uri) as client:
        oplog = client.local["oplog.rs"]
        while True:
            oldest = oplog.find_one(sort=[("$natural", 1)])
            if oldest is not None and oldest["ts"] > last:
                break
            check_pipeline(client, started)
            readings = [{"machine": number % 7, "at": _DAY, "trace": bytes(200)} for number in range(100)]
            client.factory.readings.insert_many(readings)
            written += len(readings)
            time.sleep(_PAUSE_SECONDS)
        history = client.admin.command("serverStatus")["history"]
    took = time.monotonic() - started
    print(f"  {written:,} readings later ({took:.0f} s) the oplog begins after the shop's last event;")
    print(f"  the history has {history['events']:,} events and lags by {history['lagSeconds']} s")


def _resumed(uri: str, event: Document) -> list[Document]:
    print(f"\nResumed after the {event['operationType']} of {event.get('documentKey')}, from the history:\n")
    with MongoClient[Document](uri) as client:
        started = time.perf_counter()
        with client.shop.watch(resume_after=event["_id"], show_expanded_events=True) as stream:
            events = list(until_last(stream))
        took = time.perf_counter() - started
    print(f"  {len(events)} events in {took * 1000:.0f} ms, from {events[0]['operationType']} to {LAST}\n")
    return events


def _show_history(folder: Path) -> None:
    """Count the rows of the table by plain columns."""
    table = HistoryTable.open(folder / "data" / "history")
    found: Counter[tuple[str, str]] = Counter()
    for batch in table.read(0, columns=["db", "operation"]):
        found.update(zip(batch["db"].to_pylist(), batch["operation"].to_pylist(), strict=True))
    print(f"The history is a Delta table, {len(table.files)} files of Parquet, {table.size:,} bytes:\n")
    for (database, operation), number in sorted(found.items()):
        print(f"  {database or '-':<9} {operation:<16} {number:>9,}")
    print()


def _dump_oplog(uri: str, folder: Path) -> Path:
    """Save the oplog as a file, in the format of `mongodump`."""
    path = folder / "oplog.bson"
    with MongoClient[Document](uri) as client, path.open("wb") as file:
        batches: Iterable[Any] = client.local["oplog.rs"].find_raw_batches()
        for batch in batches:
            file.write(batch)
    print(f"\nThe oplog is saved, read over the wire: {path.name}, {path.stat().st_size:,} bytes.\n")
    return path


def _replayed(oplog: Path, folder: Path) -> list[Document]:
    out = folder / "events.jsonl"
    if run_tailrace("replay", oplog, "--ns", "shop", "--options", EXPANDED, "--out", out):
        raise SystemExit("the replay failed; its error is above")
    return [parse_line(line) for line in out.read_text().splitlines()]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
