"""Processor time for a document, from BSON to columns, beside other ways; and of JSON in the history.

One process. PyMongoArrow takes part where it is installed, with an older PyArrow.
"""

import gc
import io
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from random import Random
from time import process_time
from typing import Any

import bson
import pyarrow as pa
import pyarrow.parquet as pq
from bson import json_util

from tailrace.bson.documents import encode
from tailrace.events.change_event import ChangeEvent
from tailrace.events.stages.lookups import Lookups
from tailrace.events.stages.parts import DeploymentPart
from tailrace.lake.bulk.raw_entries import RawEntries
from tailrace.lake.bulk.rows import BulkRows
from tailrace.lake.columns.column_types import Layout
from tailrace.lake.columns.convert import convert
from tailrace.lake.columns.decoded import bson_to_json
from tailrace.lake.columns.fit import fit
from tailrace.lake.columns.given import parse_schema
from tests.support.bulk import BulkMix, generate_bulk

DOCUMENTS = 20_000
ROUNDS = 3


def order(number: int, random: Random) -> dict[str, Any]:
    return {
        "_id": bson.ObjectId(random.randbytes(12)),
        "customer": f"customer {random.randrange(5000)}",
        "amount": random.random() * 100,
        "count": number,
        "total": bson.Int64(number * 10**9),
        "at": datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=number),
        "paid": random.random() < 0.5,
        "address": {
            "street": f"street {number}",
            "city": "Berlin",
            "geo": {"lat": random.random(), "lon": 13.4},
        },
        "lines": [
            {"sku": f"s{line}", "qty": line, "price": line * 0.5} for line in range(random.randrange(1, 4))
        ],
        "tags": ["new", "web"],
    }


def loose(number: int, random: Random) -> dict[str, Any]:
    """A document with some of many fields, some of several types."""
    chosen = random.sample(range(40), 12)
    values: list[Any] = [number, random.random(), f"text {number}", True, None, [number], {"a": number}]
    return {"_id": number} | {f"field {name}": values[(name + random.randrange(2)) % 7] for name in chosen}


def least(work: Callable[[], Any]) -> float:
    """Microseconds of processor time for a document."""
    found = []
    for _ in range(ROUNDS):
        gc.collect()
        began = process_time()
        work()
        found.append(process_time() - began)
    return min(found) / DOCUMENTS * 1e6


def pymongoarrow(raws: list[bytes]) -> Callable[[], Any] | None:
    if find_spec("pymongoarrow") is None:
        return None
    from pymongoarrow.context import PyMongoArrowContext

    whole = b"".join(raws)

    def work() -> None:
        context = PyMongoArrowContext(None, codec_options=bson.CodecOptions())
        context.process_bson_stream(whole)
        context.finish()

    return work


def columns_of_documents(name: str, make: Callable[[int, Random], dict[str, Any]]) -> None:
    random = Random(7)
    raws = [encode(make(number, random)) for number in range(DOCUMENTS)]
    column = pa.array(raws, pa.binary())
    layout = convert(column, Layout()).layout
    schema = parse_schema("_id json, customer string, amount double, address struct<city: string>")
    ways: dict[str, Callable[[], Any] | None] = {
        "convert": lambda: convert(column, layout),
        "fit, a schema of four fields": lambda: fit(column, schema),
        "PyMongo's decode alone": lambda: [*map(bson.decode, raws)],
        "PyMongoArrow, inferred": pymongoarrow(raws),
        "bson_to_json": lambda: bson_to_json(column),
        "PyMongo's json_util": lambda: [json_util.dumps(bson.decode(raw)) for raw in raws],
    }
    print(f"columns: {DOCUMENTS:,} {name}, {len(b''.join(raws)) / DOCUMENTS:.0f} bytes each, processor time")
    for way, work in ways.items():
        shown = "not installed" if work is None else f"{least(work):6.2f} µs a document"
        print(f"  {way:<34}{shown}", flush=True)


def json_in_the_history() -> None:
    """What a column of JSON beside the events would cost each writer, and what it would save readers."""
    part = DeploymentPart("", Lookups(), marks_end=True)

    def events_of(_: str, raws: Any) -> list[ChangeEvent]:
        return part.events_of([*map(part.read, raws)]).items

    entries = RawEntries.of([*generate_bulk(seed=7, count=DOCUMENTS, mix=BulkMix(collections=4))])
    rows = BulkRows(events_of, marks_end=True)
    batch = rows.batch({"": entries})
    decoded = bson_to_json(batch.column("event"))
    scale = DOCUMENTS / batch.num_rows
    plain = pa.Table.from_batches([batch])
    more = plain.append_column("event_json", decoded)
    print(f"columns: JSON beside the events of a history, {batch.num_rows:,} rows, processor time")
    print(f"  {'rows of the history':<34}{least(lambda: rows.batch({'': entries})) * scale:6.2f} µs a row")
    print(f"  {'their JSON':<34}{least(lambda: bson_to_json(batch.column('event'))) * scale:6.2f} µs a row")
    for name, table in (("a file", plain), ("a file with JSON", more)):
        sizes: list[int] = []

        def write(table: pa.Table = table, sizes: list[int] = sizes) -> None:
            target = io.BytesIO()
            pq.write_table(table, target, compression="zstd", row_group_size=16_384)
            sizes.append(target.tell())

        spent = least(write) * scale
        print(f"  {name:<34}{spent:6.2f} µs a row, {sizes[0] / table.num_rows:6.1f} bytes a row", flush=True)


def main() -> None:
    columns_of_documents("orders, alike", order)
    columns_of_documents("loose documents", loose)
    json_in_the_history()
