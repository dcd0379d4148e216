"""Commands with several faults: which one is reported, and what is left of the command."""

from itertools import permutations
from random import Random
from typing import Any, Final

from tests.oracle.comparison import Document
from tests.oracle.ddl.time_series import at

_SPECS: Final[list[Document]] = [
    {"key": {"b": "hashed"}, "name": "h", "unique": True},
    {"key": {"b": 1, "c": 1}, "name": "expires", "expireAfterSeconds": 5},
    {"key": {"z": 1}, "name": "other"},
    {"key": {"q": 1}, "name": "h"},
    {"key": {"$**": 1}, "name": "w", "sparse": True},
    {"key": {"p": 1}, "name": "p", "partialFilterExpression": {"$nor": [{"a": 1}]}},
    {"key": {"p": 1}, "name": "*"},
    {"key": {"p": 1}, "name": "p", "collation": {"locale": "xx"}},
    {"key": {"_id": 1}, "name": "id", "collation": {"locale": "fr"}},
    {"key": {"d": 1}, "name": "d"},
    {"key": {"x": "text"}, "name": "text"},
    {"key": {"y": "text"}, "name": "text 2"},
]
_FIELDS: Final[dict[str, list[Any]]] = {
    "unique": [True, "x"],
    "expireAfterSeconds": [5, "x"],
    "sparse": [True, "x"],
    "partialFilterExpression": [
        {"m": 1},
        3,
        {"$and": [{"$text": {"$search": "x"}}]},
        {"$or": [{"$expr": 1}]},
    ],
    "collation": [{"locale": "fr"}, {}, {"locale": "xx"}],
    "v": [7, 1],
    "unknown": [1],
    "name": ["n", "", None],
    "prepareUnique": [True, "x"],
    "hidden": [True, 3],
    "weights": [{"b": 1}, 3],
    "wildcardProjection": [{"a": 1}, {}],
    "clustered": [True, "x"],
}
_KEYS: Final[list[Document]] = [
    {"b": "hashed"}, {"b": "text"}, {"b": 1}, {"b": 0}, {"$x": 1}, {"m": 1}, {"m": "hashed"},
    {"t": "2dsphere"}, {"$**": 1}, {"_id": 1}, {},
]  # fmt: skip


def _shuffled(name: str, seed: int, count: int) -> list[Any]:
    """Specifications with several fields that are wrong, in any order."""
    choose = Random(seed)
    found: list[Any] = []
    for _ in range(count):
        spec: Document = {"key": choose.choice(_KEYS), "name": "n"}
        for field in choose.sample(list(_FIELDS), choose.choice((2, 2, 3))):
            spec[field] = choose.choice(_FIELDS[field])
        order = list(spec)
        choose.shuffle(order)
        found.append({"createIndexes": name, "indexes": [{field: spec[field] for field in order}]})
    return found


_Z: Final[Document] = {"createIndexes": "c", "indexes": [{"key": {"z": 1}, "name": "z"}]}

INDEX_FAULTS: Final[list[Any]] = [
    {"create": "capped", "capped": True, "size": 4096},
    {"createIndexes": "capped", "indexes": [{"key": {"a": 1}, "name": "i"}]},
    {"createIndexes": "capped", "indexes": [{"key": {"b": 1}, "name": "i", "expireAfterSeconds": 5}]},
    {"create": "view", "viewOn": "c"},
    *({"createIndexes": "view", "indexes": [spec]} for spec in _SPECS),
    {"createIndexes": "view", "indexes": [{"key": {"_id": 1}, "name": "i", "sparse": True}]},
    {"create": "french view", "viewOn": "c", "collation": {"locale": "fr"}},
    *(
        command
        for specs in permutations(_SPECS[:9:2], 2)
        for command in ({"createIndexes": "c", "indexes": list(specs)}, {"dropDatabase": 1})
    ),
    _Z,
    *({"createIndexes": "c", "indexes": list(specs)} for specs in permutations(_SPECS, 2)),
    {"dropIndexes": "c", "index": "*"},
    {"insert": "c", "documents": [{"_id": 1, "b": 2}]},
    _Z,
    {"createIndexes": "c", "indexes": [_SPECS[-3], _SPECS[-3]]},
    *({"createIndexes": "c", "indexes": list(specs)} for specs in permutations(_SPECS[:9], 2)),
    *_shuffled("c", 1, 150),
    *_shuffled("new", 2, 50),
    {"create": "ts", "timeseries": {"timeField": "t", "metaField": "m"}},
    *_shuffled("ts", 3, 100),
]

_FRENCH: Final[Document] = {"collation": {"locale": "fr"}}
_GRAPH: Final[Document] = {
    "from": "french view",
    "startWith": 1,
    "connectFromField": "a",
    "connectToField": "a",
    "as": "x",
}
_TARGETS: Final = ("view", "french view", "series", "french series")


def _aggregate(source: str, *stages: Document, **options: Any) -> Document:
    return {"aggregate": source, "pipeline": list(stages), "cursor": {}, **options}


def _naming(name: str) -> list[Document]:
    """Stages that name a collection or a view."""
    return [
        {"$out": name},
        {"$merge": name},
        {"$merge": {"into": name, "on": "a"}},
        {"$unionWith": name},
        {"$lookup": {"from": name, "pipeline": [], "as": "x"}},
        {"$lookup": {"from": "c", "pipeline": [{"$unionWith": name}], "as": "x"}},
    ]


OTHER_COLLATIONS: Final[list[Any]] = [
    {"insert": "c", "documents": [{"_id": 1, "a": 2}]},
    {"create": "french", **_FRENCH},
    {"create": "view", "viewOn": "c"},
    {"create": "french view", "viewOn": "c", **_FRENCH},
    {"create": "series", "timeseries": {"timeField": "t"}},
    {"create": "french series", "timeseries": {"timeField": "t"}, **_FRENCH},
    *(
        _aggregate(source, stage, **options)
        for source in ("c", "french", "french view", "none")
        for options in ({}, _FRENCH)
        for target in _TARGETS
        for stage in _naming(target)
    ),
    _aggregate("c", {"$facet": {"x": [{"$graphLookup": _GRAPH}]}}),
    _aggregate("c", {"$match": {"$unknown": 1}}, {"$out": "french view"}),
    _aggregate("c", {"$out": "french view"}, hint="unknown"),
]
"""Views and time series whose collation is not that of the command."""


def _measured(*batches: list[Any]) -> list[Document]:
    """Inserts of measurements, each in a bucket of its own."""
    found: list[Document] = []
    for number, values in enumerate((*batches, *batches)):
        documents = [
            {"_id": place, "t": at((number * 10 + place) * 3_600_000), "m": place, "x": value}
            for place, value in enumerate(values)
        ]
        found.append({"insert": "ts", "documents": documents, "ordered": number < len(batches)})
    return found


PARTLY_WRITTEN: Final[list[Any]] = [
    # Results before one that fails are in the temporary collection.
    {"insert": "c", "documents": [{"_id": number, "a": number // 3} for number in range(5)]},
    {"createIndexes": "out", "indexes": [{"key": {"a": 1}, "name": "a", "unique": True}]},
    _aggregate("c", {"$sort": {"_id": -1}}, {"$out": "out"}),
    # Measurements after one with an array in an indexed field.
    {"create": "ts", "timeseries": {"timeField": "t", "metaField": "m"}},
    {"createIndexes": "ts", "indexes": [{"key": {"x": 1}, "name": "x"}]},
    *_measured([1, [1], 2, 3], [[1, 2], 1], [1, 2, [1]], [1, 2]),
]
