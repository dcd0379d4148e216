"""Measurements and their buckets beside the real server; each measurement here begins a bucket."""

from typing import Any, Final

from bson import DatetimeMS, Decimal128, Int64

from tests.oracle.comparison import Document
from tests.oracle.ddl import comparing
from tests.oracle.twins import Twins

DATABASE: Final = "time_series_buckets"
START: Final = 1_700_000_000_000
HOUR: Final = 3_600_000


def inserted(*documents: Document) -> Document:
    return {"insert": "ts", "documents": list(documents)}


def updated(query: Any, change: Any, **options: Any) -> Document:
    return {"update": "ts", "updates": [{"q": query, "u": change, "multi": True, **options}]}


def deleted(query: Any, limit: int = 0) -> Document:
    return {"delete": "ts", "deletes": [{"q": query, "limit": limit}]}


def test_buckets_of_single_measurements(twins: Twins) -> None:
    began = twins.operation_time()
    values: list[Any] = [1, 2.5, "x", None, [1, {"a": 2}], {"b": {"c": 1}}, Int64(3), Decimal128("4"), True]
    commands: list[Document] = []
    for number, granularity in enumerate(("seconds", "minutes", "hours")):
        series = {"timeField": "t", "metaField": "m", "granularity": granularity}
        commands.append({"create": "ts", "timeseries": series})
        for place, value in enumerate(values):
            time = DatetimeMS(START + (place * 1000 + number) * HOUR + 12_345)
            commands.append(inserted({"t": time, "m": place, "v": value}))
            commands.append(inserted({"_id": place, "v": value, "t": time, "m": {"n": place}}))
            commands.append(inserted({"t": time, "w": value}))
        commands += [
            {"find": "ts", "filter": {"m": 0}},
            {"find": "system.buckets.ts", "filter": {"meta": 99}},
            updated({"m": 0}, {"$set": {"m": "z"}}),
            updated({"m.n": 1}, {"$set": {"m.o": 1}}),
            updated({"m": 0}, {"$set": {"v": 1}}),
            updated({"v": 1}, {"$set": {"m": 1}}),
            updated({"m": 1}, {"m": 1}),
            updated({"m": 1}, {"$set": {"m": 1}}, upsert=True),
            {"update": "ts", "updates": [{"q": {"m": 1}, "u": {"$set": {"m": 2}}}]},
            deleted({"m": 2}),
            deleted({"v": 1}),
            deleted({"m": 3}, 1),
            deleted({"$expr": {"$eq": ["$v", 1]}}),
            deleted({"$or": [{"m": 4}, {"m.n": 4}]}),
            deleted({}),
            {"drop": "ts"},
        ]
    different = []
    for command in commands:
        found = comparing.run(twins, command, DATABASE)
        if found:
            different.append(f"{command}: {found[0]}")
    assert not different, "\n".join(different)
    _, entries = comparing.oplog_differences(twins, began)
    assert not entries, "\n".join(entries)
    for options in (comparing.SYSTEM, comparing.EXPANDED, {}):
        _, events = comparing.event_differences(twins, began, options, DATABASE)
        assert not events, "\n".join(events)
