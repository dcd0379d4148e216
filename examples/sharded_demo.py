"""A tour of a sharded cluster: `python -m examples.sharded_demo 3`, or `make run SHARDS=3`.

Starts `tailrace serve --shards N` with its Spark pipeline. Clients write through a router to collections that
are spread over the shards; a change stream prints the events of all shards in one order, each with its shard.
Then the pipeline's history and a replay of the shards' saved oplogs have to show the same events.
"""

import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from bson import Timestamp
from pymongo import MongoClient
from pymongo.client_session import ClientSession

from examples.demo import EXPANDED, LAST, serving, until_last
from examples.event_lines import event_line, parse_line, run_tailrace, shortened
from examples.pipeline_patience import check_pipeline
from tailrace import HistoryTable, missing_for_spark

Document = dict[str, Any]

_CUSTOMERS: Final = ("Ada", "Grace", "Alan", "Edsger", "Barbara", "Donald", "Tony", "Leslie", "Niklaus")
_PAUSE_SECONDS: Final = 0.1


def main(arguments: Sequence[str]) -> int:
    """Run the tour; the arguments are the number of shards and, optionally, a folder."""
    shards, *folders = arguments
    missing = missing_for_spark()
    if missing is not None:
        print(f"The tour needs Spark. {missing}", file=sys.stderr)
        return 1
    with TemporaryDirectory(prefix="tailrace-demo-") as made:
        folder = Path(folders[0]) if folders else Path(made)
        with serving(folder, "--shards", shards) as (_, uri), MongoClient[Document](uri) as client:
            events = _live(client)
            oplogs = _save_oplogs(client, folder)
            held = _held(client, folder, events)
        replayed = _replayed(oplogs, folder)
    if replayed != events or held != [event["_id"]["_data"] for event in events]:
        print("\nThe runs differ, which is a bug in Tailrace; please report it.", file=sys.stderr)
        return 1
    print(f"\nFrom the router, in the history and replayed, the {len(events)} events are the same.")
    return 0


def _live(client: MongoClient[Document]) -> list[Document]:
    print(
        "\nOrders are spread over the shards by customer, stock by its id. One change stream on the database,"
    )
    print("through the router, shows all events in one order: here each with its shard and its token.\n")
    client.admin.command("enableSharding", "shop")
    client.admin.command("shardCollection", "shop.orders", key={"customer": "hashed"})
    client.admin.command("shardCollection", "shop.stock", key={"_id": "hashed"})
    with client.shop.watch(show_expanded_events=True) as stream:
        _take_orders(client)
        events = list(until_last(stream))
    places = _places(client)
    for event in events:
        shard = places.get(event["clusterTime"], "-")
        print(shortened(f"  {shard}{event_line(event)}"))
        print(shortened(f"    {event['_id']['_data']}"))
    counts = Counter(places.get(event["clusterTime"], "-") for event in events)
    shown = ", ".join(f"{count} from {shard}" for shard, count in sorted(counts.items()))
    print(f"\n{len(events)} events: {shown}. Their tokens ascend:", tokens_ascend(events))
    return events


def _take_orders(client: MongoClient[Document]) -> None:
    shop = client.shop
    shop.stock.insert_many([{"_id": name, "qty": 10} for name in ("teapot", "kettle", "cup", "saucer")])
    for number, customer in enumerate(_CUSTOMERS):
        shop.orders.insert_one({"_id": number, "customer": customer, "item": "teapot"})

    def buy(session: ClientSession) -> None:
        shop.orders.update_many({}, {"$set": {"status": "paid"}}, session=session)
        shop.stock.update_one({"_id": "teapot"}, {"$inc": {"qty": -len(_CUSTOMERS)}}, session=session)

    with client.start_session() as session:
        session.with_transaction(buy)
    shop.orders.delete_one({"customer": "Alan"})
    shop.stock.drop()


def tokens_ascend(events: Sequence[Mapping[str, Any]]) -> str:
    """Whether each event's token is greater than the one before."""
    tokens = [event["_id"]["_data"] for event in events]
    return "yes" if tokens == sorted(set(tokens)) else "no"


def _shards(client: MongoClient[Document]) -> dict[str, str]:
    """The connection strings of the shards by name."""
    listed = client.admin.command("listShards")["shards"]
    return {shard["_id"]: f"mongodb://{shard['host'].partition('/')[2]}/" for shard in listed}


def _places(client: MongoClient[Document]) -> dict[Timestamp, str]:
    """The shard of each cluster time; no two shards of this cluster share one."""
    places: dict[Timestamp, str] = {}
    for name, uri in _shards(client).items():
        with MongoClient[Document](uri) as shard:
            places |= {entry["ts"]: name for entry in shard.local["oplog.rs"].find({}, {"ts": 1})}
    return places


def _save_oplogs(client: MongoClient[Document], folder: Path) -> dict[str, Path]:
    """Save the shards' oplogs as files, in the format of `mongodump`."""
    paths = {}
    for name, uri in _shards(client).items():
        paths[name] = folder / f"{name}.bson"
        with MongoClient[Document](uri) as shard, paths[name].open("wb") as file:
            batches: Any = shard.local["oplog.rs"].find_raw_batches()
            for batch in batches:
                file.write(batch)
    return paths


def _held(client: MongoClient[Document], folder: Path, events: Sequence[Mapping[str, Any]]) -> list[str]:
    """Wait until the history has the events; return their tokens there."""
    print("\nThe Spark pipeline reads the oplog of every shard and writes one history; it needs a moment.\n")
    path = folder / "data" / "history"
    last = events[-1]["clusterTime"]
    started = time.monotonic()
    while not HistoryTable.exists(path) or HistoryTable.open(path).through < last.time << 32 | last.inc:
        check_pipeline(client, started)
        time.sleep(_PAUSE_SECONDS)
    table = HistoryTable.open(path)
    rows: Counter[tuple[str, str]] = Counter()
    tokens = []
    wanted = {event["_id"]["_data"] for event in events}
    for batch in table.read(0, columns=["db", "operation", "shard", "token"]):
        columns = (batch[name].to_pylist() for name in ("db", "operation", "shard", "token"))
        for database, operation, shard, token in zip(*columns, strict=True):
            if database == "shop" and operation is not None:
                rows[shard, operation] += 1
            if token in wanted:
                tokens.append(token)
    for (shard, operation), number in sorted(rows.items()):
        print(f"  {shard:<9} {operation:<16} {number:>5,}")
    return tokens


def _replayed(oplogs: Mapping[str, Path], folder: Path) -> list[Document]:
    out = folder / "events.jsonl"
    sources = [text for name, path in oplogs.items() for text in ("--shard", f"{name}={path}")]
    print()
    if run_tailrace("replay", *sources, "--ns", "shop", "--options", EXPANDED, "--out", out):
        raise SystemExit("the replay failed; its error is above")
    events = [parse_line(line) for line in out.read_text().splitlines()]
    first = next(number for number, event in enumerate(events) if event["operationType"] == "insert")
    last = next(number for number, event in enumerate(events) if event["operationType"] == LAST)
    return events[first : last + 1]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["3"]))
