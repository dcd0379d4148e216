"""Many rows converted together give what each of them gives alone."""

import random
from typing import Any

import pyarrow as pa
import pytest
from bson import Binary, DatetimeMS, Int64, ObjectId, Timestamp
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
    VariantType,
)

from tailrace.bson import documents
from tailrace.bson import raw as rawbson
from tailrace.errors import BsonError, CommandError
from tailrace.events.layout.token import document_of_text
from tailrace.events.stages.stage import VerbatimRow
from tailrace.lake.bulk.kernel import VARIABLE
from tailrace.pipeline.rows.schema import Documents, FaultMode, Output, RowLayout
from tailrace.pipeline.streams.event_block import EventBlock
from tailrace.spark.row_batches import RowBatches
from tests.lake.bulk_comparison import KERNELS
from tests.laws.law_seeds import BASE_SEED
from tests.support.documents import DocumentMaker

TYPES: dict[Documents, DataType] = {
    Documents.VARIANT: VariantType(),
    Documents.JSON: StringType(),
    Documents.BSON: BinaryType(),
}


@pytest.fixture(autouse=True, params=KERNELS)
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, request.param)


def schema_of(shown: Documents) -> StructType:
    document = TYPES[shown]
    description = StructType().add("updatedFields", document).add("removedFields", ArrayType(StringType()))
    return (
        StructType()
        .add("token", StringType())
        .add("operationType", StringType())
        .add("clusterTime", LongType())
        .add("wallTime", TimestampType())
        .add("ns", StructType().add("db", StringType()).add("coll", StringType()))
        .add("collectionUUID", StringType())
        .add("fullDocument", document)
        .add("updateDescription", description)
        .add("other", document)
    )


class EventMaker:
    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._maker = DocumentMaker(self._rng)

    def _document(self) -> dict[str, Any]:
        """Mostly documents of a few shapes, sometimes any."""
        rng = self._rng
        if rng.random() < 0.2:
            return self._maker.document(depth=3)
        size = rng.choice((0, 5, 62, 63, 64, 200, 70_000 if rng.random() < 0.05 else 30))
        text = "x" * size + rng.choice(("", "", "é", '"', "\n", "\x7f"))
        document: dict[str, Any] = {
            "_id": ObjectId(rng.randbytes(12)), "text": text, "number": rng.choice((1.5, 2, Int64(1) << 40)),
            "at": DatetimeMS(rng.choice((0, 1_700_000_000_000, 1_700_000_000_000, 1 << 50))),
            "nested": {"b": rng.random() < 0.5, "a": None, "double": rng.choice((0.1, float("inf"), -0.0))},
            "list": [{"n": number, "t": Timestamp(3, number)} for number in range(rng.randrange(3))],
        }  # fmt: skip
        if rng.random() < 0.3:
            document["more"] = rng.choice((Binary(b"12", 0), {}, [], "", Timestamp(1, 2), Int64(-5)))
        return document

    def event(self, number: int, *, other: bool) -> bytes:
        rng = self._rng
        event: dict[str, Any] = {
            "_id": documents.decode(document_of_text(b"%08X" % number)),
            "operationType": rng.choice(("insert", "update")), "clusterTime": Timestamp(1 << 31, number),
            "wallTime": DatetimeMS(number), "fullDocument": self._document(),
            "ns": {"db": "shop", "coll": "orders"},
        }  # fmt: skip
        if rng.random() < 0.3:
            event["collectionUUID"] = Binary(bytes(range(16)), 4)
        if event["operationType"] == "update":
            removed = rng.choice(([], [], ["a", "b"]))
            event["updateDescription"] = {"updatedFields": self._document(), "removedFields": removed}
        if other and rng.random() < 0.1:
            event["extra"] = number
        return documents.encode(event)


def in_bulk_and_alone(
    events: list[bytes], schema: StructType, layout: RowLayout
) -> tuple[pa.Table, pa.Table]:
    rows = [VerbatimRow(raw, number) for number, raw in enumerate(events)]
    batches = RowBatches(schema, layout)
    together = pa.Table.from_batches([batches.batch(EventBlock.of(rows))])
    return together, pa.Table.from_batches([batches.batch([row]) for row in rows])


@pytest.mark.parametrize("shown", Documents)
def test_many_rows_are_converted_as_each_alone(shown: Documents) -> None:
    for seed in range(BASE_SEED, BASE_SEED + 6):
        maker = EventMaker(seed)
        events = [maker.event(number, other=seed % 2 > 0) for number in range(300)]
        layout = RowLayout(documents=shown)
        together, alone = in_bulk_and_alone(events, schema_of(shown), layout)
        assert together.combine_chunks() == alone.combine_chunks(), f"seed {seed}"
        schema = StructType().add("token", StringType()).add("clusterTime", LongType())
        whole = RowLayout(documents=shown, output=Output.EVENT)
        together, alone = in_bulk_and_alone(events, schema.add("event", TYPES[shown]), whole)
        assert together.combine_chunks() == alone.combine_chunks(), f"seed {seed}"


def test_damaged_values_have_the_same_errors() -> None:
    maker = EventMaker(BASE_SEED)
    events = [maker.event(number, other=False) for number in range(100)]
    named = rawbson.document(rawbson.element(rawbson.STRING, b"t", b"\3\0\0\0\xff\xfe\0"))
    broken = rawbson.document(rawbson.element(rawbson.STRING, b"t", b"\xff\0\0\0ab\0"))
    for damaged in (named, broken):
        token = rawbson.element(rawbson.DOCUMENT, b"_id", document_of_text(b"FF"))
        event = rawbson.document(token, rawbson.element(rawbson.DOCUMENT, b"fullDocument", damaged))
        schema = StructType().add("fullDocument", StringType())
        with pytest.raises(BsonError):
            in_bulk_and_alone([*events, event], schema, RowLayout(documents=Documents.JSON))


def test_values_that_do_not_fit_are_found_in_many_rows() -> None:
    numbers = [{"n": number if number != 70 else "seventy"} for number in range(100)]
    events = [
        documents.encode({"_id": {"_data": f"{place:04X}"}, "fullDocument": document})
        for place, document in enumerate(numbers)
    ]
    schema = StructType().add("fullDocument", StructType().add("n", IntegerType()))
    rows = [VerbatimRow(raw, number) for number, raw in enumerate(events)]
    with pytest.raises(
        CommandError, match=r"the event 0046 does not fit the schema: fullDocument.n is a string"
    ):
        RowBatches(schema, RowLayout()).batch(EventBlock.of(rows))
    dropped = RowBatches(schema, RowLayout(mode=FaultMode.DROPMALFORMED)).batch(EventBlock.of(rows))
    assert [value["n"] for value in dropped.column(0).to_pylist()] == [n for n in range(100) if n != 70]


def test_a_changelog_of_rows_without_events_has_their_types() -> None:
    kinds = ("insert", "update", "delete", "drop")
    events = [
        documents.encode({"_id": {"_data": "00"}, "operationType": kind, "clusterTime": Timestamp(1, 1)})
        for kind in kinds
    ]
    schema = StructType().add("operationType", StringType()).add("_change_type", StringType())
    rows = [VerbatimRow(raw, 1 << 32 | 1) for raw in events]
    batch = RowBatches(schema, RowLayout(changelog=True)).batch(EventBlock.of(rows))
    changes = ["insert", "update_postimage", "delete", None]
    assert batch.to_pylist() == [
        {"operationType": kind, "_change_type": change} for kind, change in zip(kinds, changes, strict=True)
    ]
