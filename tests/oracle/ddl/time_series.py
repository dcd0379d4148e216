"""Time series: their commands, and the buckets of ordinary inserts."""

from typing import Any, Final

from bson import DatetimeMS

from tests.oracle.comparison import Document

START: Final = 1_700_000_000_000


def at(milliseconds: int) -> DatetimeMS:
    return DatetimeMS(START + milliseconds)


def inserted(*documents: Document, name: str = "ts") -> Document:
    return {"insert": name, "documents": list(documents)}


def indexed(key: Document, **options: Any) -> Document:
    return {"createIndexes": "ts", "indexes": [{"key": key, "name": "_".join(key), **options}]}


_OPTIONS: Final[list[Document]] = [
    {"timeField": "t", "granularity": "x"},
    {"timeField": "t", "bucketMaxSpanSeconds": 3600},
    {"timeField": "t", "granularity": "hours", "bucketMaxSpanSeconds": 2592000},
    {"timeField": "t", "metaField": "t"},
    {"timeField": "t", "metaField": "_id"},
    {"timeField": "a.b"},
    {"timeField": 5},
    {"timeField": "t", "metaField": "a.b"},
    {"timeField": "t", "x": 1},
    {},
    {"timeField": "t", "granularity": "minutes"},
    {"timeField": "t", "metaField": 5},
]
_WITH: Final[list[Document]] = [
    {"capped": True, "size": 100},
    {"validator": {}},
    {"validationLevel": "off"},
    {"collation": {"locale": "fr"}},
    {"expireAfterSeconds": 5},
    {"expireAfterSeconds": -5},
    {"clusteredIndex": {"key": {"_id": 1}, "unique": True}},
    {"idIndex": {"key": {"_id": 1}, "name": "_id_"}},
    {"changeStreamPreAndPostImages": {"enabled": True}},
    {"viewOn": "x"},
]


def _collated(options: Document) -> list[Document]:
    """Indexes with every collation on a series with one or none."""
    found: list[Document] = [{"create": "ts", "timeseries": {"timeField": "t", "metaField": "m"}, **options}]
    collations: list[Document] = [
        {},
        *({"collation": {"locale": name}} for name in ("fr", "simple")),
        {"collation": {"locale": "de", "strength": 1}, "hidden": True},
    ]
    for key in ({"b": 1}, {"m": 1}, {"m.x": 1, "b": -1}, {"g": "2dsphere"}):
        for number, more in enumerate(collations):
            name = f"{'_'.join(key)}{number}"
            found.append({"createIndexes": "ts", "indexes": [{"key": key, **more, "name": name}]})
    partial = {"partialFilterExpression": {"m.q": 1}, "collation": {"locale": "fr"}}
    listed = [{"listIndexes": name, "cursor": {"batchSize": 100}} for name in ("ts", "system.buckets.ts")]
    return [*found, indexed({"m.p": 1}, **partial), *listed, {"drop": "ts"}]


def _hidden(created: Document) -> list[Document]:
    """An index that collMod hides and shows."""
    name = created["indexes"][0]["name"]
    found = [created]
    for hidden in (True, False, False, True):
        change = {"collMod": "ts", "index": {"name": name, "hidden": hidden}}
        found += [change, {"listIndexes": "ts"}]
    return [*found, created]


TIME_SERIES: Final[list[Any]] = [
    {"create": "ts", "timeseries": {"timeField": "t", "metaField": "m"}},
    {"listCollections": 1},
    {"listCollections": 1, "nameOnly": True},
    {"listCollections": 1, "filter": {"type": "timeseries"}},
    {"listIndexes": "ts"},
    {"listIndexes": "system.buckets.ts"},
    {"create": "ts"},
    {"create": "ts", "timeseries": {"timeField": "t", "metaField": "m"}},
    {"create": "ts", "viewOn": "x"},
    {"create": "v", "viewOn": "ts"},
    indexed({"m": 1}),
    indexed({"m.a": 1, "t": -1}),
    indexed({"v": 1}),
    indexed({"v": -1, "m": 1}),
    indexed({"t": 1}, hidden=True),
    indexed({"g": "2dsphere"}),
    indexed({"m.g": "2dsphere"}),
    indexed({"m.h": "hashed"}),
    indexed({"u": 1}, unique=True),
    indexed({"s": 1}, sparse=True),
    indexed({"m.s": 1}, sparse=True),
    indexed({"t": -1}, expireAfterSeconds=5),
    indexed({"m.x": "text"}),
    indexed({"m.$**": 1}),
    indexed({"t": "hashed"}),
    indexed({"v": "2d"}),
    indexed({"m.p": 1}, partialFilterExpression={"m.q": 1}),
    {"createIndexes": "ts", "indexes": [{"key": {"_id": 1}, "name": "_id_"}]},
    {"listIndexes": "ts", "cursor": {"batchSize": 100}},
    {"listIndexes": "system.buckets.ts", "cursor": {"batchSize": 100}},
    {"dropIndexes": "ts", "index": {"v": 1}},
    {"dropIndexes": "ts", "index": "m"},
    {"dropIndexes": "ts", "index": "nope"},
    {"collMod": "ts", "index": {"name": "t", "hidden": False}},
    {"collMod": "ts", "index": {"keyPattern": {"v": -1, "m": 1}, "hidden": True}},
    {"dropIndexes": "ts", "index": "*"},
    {"collMod": "ts"},
    {"collMod": "ts", "timeseries": {"granularity": "seconds"}},
    {"collMod": "ts", "timeseries": {"granularity": "minutes"}},
    {"collMod": "ts", "timeseries": {"granularity": "seconds"}},
    {"collMod": "ts", "timeseries": {"granularity": "x"}},
    {"collMod": "ts", "timeseries": {}},
    {"collMod": "ts", "expireAfterSeconds": 100},
    {"listCollections": 1},
    {"collMod": "ts", "expireAfterSeconds": "off"},
    {"collMod": "ts", "validator": {}},
    {"collMod": "ts", "changeStreamPreAndPostImages": {"enabled": True}},
    {"collMod": "ts", "viewOn": "x", "pipeline": []},
    {"convertToCapped": "ts", "size": 1000},
    {"aggregate": "ts", "pipeline": [{"$changeStream": {}}], "cursor": {}},
    ({"renameCollection": "{a}.ts", "to": "{a}.tt"}, "admin"),
    ({"renameCollection": "{a}.system.buckets.ts", "to": "{a}.tt"}, "admin"),
    {"drop": "ts"},
    {"drop": "ts"},
    {"listCollections": 1},
    {"create": "t2", "timeseries": {"timeField": "t"}},
    {"drop": "system.buckets.t2"},
    {"drop": "t2"},
    *(case for options in _OPTIONS for case in ({"create": "n", "timeseries": options}, {"drop": "n"})),
    *(
        case
        for options in _WITH
        for case in ({"create": "n", "timeseries": {"timeField": "t"}, **options}, {"drop": "n"})
    ),
    {"create": "last", "timeseries": {"timeField": "t"}},
    {"dropDatabase": 1},
    *(
        case
        for collation in ({}, {"collation": {"locale": "fr"}}, {"collation": {"locale": "en", "strength": 2}})
        for case in _collated(collation)
    ),
    {"create": "ts", "timeseries": {"timeField": "t", "metaField": "m"}},
    *(
        case
        for hidden in ({}, {"hidden": True}, {"hidden": False})
        for case in _hidden(indexed({f"h{len(hidden)}{hidden.get('hidden')}": 1}, **hidden))
    ),
]
