"""The streaming reader of `format("tailrace")`, called as Spark calls it: offsets, micro-batches, restarts.

The reader is plain Python, so these tests need no Java: every micro-batch is planned by a new reader, as if
the query had been killed and started again in between.
"""

import random
from pathlib import Path

import pytest
from bson import encode
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows
from pyspark.sql.types import BinaryType, LongType, StringType, StructType

from tailrace.bson import extjson
from tailrace.errors import CommandError
from tailrace.events.scope import Scope, ScopeKind
from tailrace.pipeline.options.event_options import read_options
from tailrace.spark.change_stream_source import ChangeStreamStreamReader
from tailrace.spark.dataframes import option_values
from tailrace.testing.replica_set import ReplicaSet
from tests.laws.law_seeds import BASE_SEED
from tests.spark.micro_batches import events_between
from tests.support.choices import any_stream
from tests.support.history import History, dump
from tests.support.seeds import check_histories
from tests.support.streams import Stream, token_of

EVENTS = StructType().add("token", StringType()).add("clusterTime", LongType()).add("event", BinaryType())
AS_EVENTS = {"output": "event", "documentsAs": "bson"}
SEEDS = range(BASE_SEED + 100, BASE_SEED + 112)


def reader_of(values: dict[str, str]) -> ChangeStreamStreamReader:
    return ChangeStreamStreamReader(read_options(values | AS_EVENTS), EVENTS)


def all_batches(values: dict[str, str], limit: ReadLimit) -> list[list[bytes]]:
    """Return the events of every micro-batch until there are no more."""
    offset = reader_of(values).initialOffset()
    batches: list[list[bytes]] = []
    while True:
        reader = reader_of(values)
        end = reader.latestOffset(offset, limit)
        if end == offset:
            return batches
        events = events_between(reader, offset, end)
        assert events_between(reader_of(values), offset, end) == events
        batches.append(events)
        offset = end


def values_of(stream: Stream, path: Path) -> dict[str, str]:
    scope = None if stream.scope.kind is ScopeKind.CLUSTER else stream.scope
    values = option_values(str(path), scope, stream.spec, stream.pipeline)
    return values | ({"rawData": "true"} if stream.raw_data else {})


@pytest.mark.slow
def test_micro_batches_show_the_events_of_the_whole_oplog(tmp_path: Path) -> None:
    path = tmp_path / "oplog.bson"

    def law(history: History) -> None:
        rng = random.Random(history.seed)
        path.write_bytes(dump(history.entries))
        any_one = any_stream(history, rng)
        # The files contain no images and no current documents.
        spec = {name: value for name, value in any_one.spec.items() if not name.startswith("fullDocument")}
        stream = Stream(history, any_one.scope, spec, raw_data=any_one.raw_data)
        events = stream.events()
        limit = rng.choice((ReadMaxRows(1), ReadMaxRows(7), ReadAllAvailable()))
        batches = all_batches(values_of(stream, path), limit)
        assert [event for batch in batches for event in batch] == events
        if events:
            resumed = stream.after(token_of(rng.choice(events)))
            batches = all_batches(values_of(resumed, path), ReadMaxRows(3))
            assert [event for batch in batches for event in batch] == resumed.events()

    check_histories(SEEDS, law)


def test_limits_of_micro_batches_and_where_a_stream_starts(tmp_path: Path) -> None:
    with ReplicaSet() as source:
        numbers = source.client().shop.numbers
        values = {"uri": source.uri, "ns": "shop.numbers"}
        live = reader_of(values)
        start = live.initialOffset()
        for number in range(6):
            numbers.insert_one({"_id": number})
        limited = reader_of({**values, "maxEntriesPerTrigger": "2", "startingOffsets": "earliest"})
        limit = limited.getDefaultReadLimit()
        assert isinstance(limit, ReadMaxRows)
        # By default a stream of a deployment starts now.
        assert len(events_between(live, start, live.latestOffset(start, ReadAllAvailable()))) == 6
        sizes = []
        offset = limited.initialOffset()
        while (end := limited.latestOffset(offset, limit)) != offset:
            sizes.append(len(events_between(limited, offset, end)))
            offset = end
        assert sum(sizes) == 6
        assert max(sizes) <= 2
        target = reader_of(values)
        target.prepareForTriggerAvailableNow()
        numbers.insert_one({"_id": "later"})
        assert len(events_between(target, start, target.latestOffset(start, ReadAllAvailable()))) == 6
        for reader in (live, limited, target):
            reader.stop()


def test_lost_history_is_an_error_unless_data_loss_is_allowed(tmp_path: Path) -> None:
    with ReplicaSet() as source:
        numbers = source.client().shop.numbers
        numbers.insert_one({"_id": 1})
        values = {"uri": source.uri, "ns": "shop.numbers"}
        reader = reader_of(values)
        start = reader.initialOffset()
        for number in (2, 3, 4):
            numbers.insert_one({"_id": number})
        source.truncate_oplog()
        numbers.insert_one({"_id": 5})
        end = reader.latestOffset(start, ReadAllAvailable())
        with pytest.raises(CommandError) as lost:
            reader.partitions(start, end)
        assert lost.value.code == 286
        lenient = reader_of({**values, "failOnDataLoss": "false"})
        assert len(events_between(lenient, start, lenient.latestOffset(start, ReadAllAvailable()))) == 2
        named = extjson.dumps_canonical(encode({"startAtOperationTime": source.oplog()[0]["ts"]}))
        assert reader_of({**values, "options": named}).initialOffset()["ended"] is False
        for each in (reader, lenient):
            each.stop()


def test_scopes_by_option() -> None:
    base = {"uri": "mongodb://host/shop?w=1"}
    assert read_options(base).scope == Scope.parse_ns("shop")
    assert read_options({**base, "collection": "orders"}).scope == Scope.parse_ns("shop.orders")
    assert read_options({**base, "collection": "*"}).scope == Scope.parse_ns("shop")
    several = read_options({**base, "collection": "a, b"})
    assert several.scope == Scope.parse_ns("shop")
    assert several.pipeline == ({"$match": {"ns.coll": {"$in": ["a", "b"]}}},)
    assert read_options({"uri": "mongodb://host"}).scope == Scope.cluster()
