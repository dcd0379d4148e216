"""Commands that keep a server busy: each is small to send, and most would run for minutes."""

from collections.abc import Iterator
from typing import Any, Final

from bson import Int64, Regex

from attack.good_client import Raw

Document = dict[str, Any]
DATABASE: Final = "attack"
ITEMS: Final = 20_000
_BATCH: Final = 5_000


def prepare(connection: Raw) -> None:
    """Write the collections that the commands read."""

    def insert(collection: str, documents: list[Document]) -> None:
        for start in range(0, len(documents), _BATCH):
            some = documents[start : start + _BATCH]
            reply = connection.call({"insert": collection, "documents": some, "$db": DATABASE})
            assert reply["ok"] == 1, reply

    insert(
        "items",
        [
            {"_id": i, "a": i % 1000, "b": i % 7, "text": f"user-{i}@shipped", "list": list(range(10))}
            for i in range(ITEMS)
        ],
    )
    insert("chain", [{"_id": i, "next": i + 1} for i in range(ITEMS)])
    insert("texts", [{"_id": i, "text": "a" * 33 + "b"} for i in range(300)])
    insert("long", [{"_id": i, "text": "ab" * 500_000} for i in range(3)])
    insert("one", [{"_id": 1, "n": 1}])
    insert("numbers", [{"_id": 1, "list": list(range(1_000_000))}])
    insert("odd", [{"_id": i, "a": {"b": [{"c": i}, {"c": str(i)}]}, "d": i * 1.5} for i in range(ITEMS)])


def commands() -> Iterator[tuple[str, Document]]:
    """The name of each attack and its command."""
    yield from _expressions()
    yield from _stages()
    yield from _queries()
    yield from _writes()


def _aggregate(collection: str, *stages: Document, **options: Any) -> Document:
    return {"aggregate": collection, "pipeline": list(stages), "cursor": {}, **options, "$db": DATABASE}


def _project(expression: Any, collection: str = "one") -> Document:
    return _aggregate(collection, {"$project": {"r": expression}})


def _range(count: int) -> Document:
    return {"$range": [0, count]}


def _reduce(items: Any, within: Any, initial: Any = 0) -> Document:
    return {"$reduce": {"input": items, "initialValue": initial, "in": within}}


def _sum_of(items: Any) -> Document:
    return _reduce(items, {"$add": ["$$value", "$$this"]})


def _loops(depth: int, count: int = 3000) -> Document:
    """A sum of sums, which depends on the document, so that it is not computed once for all."""
    if depth == 0:
        return {"$add": ["$$value", "$$this", "$n"]}
    return _reduce(_range(count), {"$add": ["$$value", _loops(depth - 1, count)]})


_LOOP: Final = _loops(2)
_NUMBERS: Final = {"$unwind": "$list"}


def _expressions() -> Iterator[tuple[str, Document]]:
    yield "$reduce of 6.5 M, constant", _project(_sum_of(_range(6_500_000)))
    yield "$reduce 3000 x 3000, constant", _project(_reduce(_range(3000), _sum_of(_range(3000))))
    yield "$reduce 3000 x 3000", _project(_LOOP)
    yield "$reduce 3000 x 3000 x 3000", _project(_loops(3))
    yield (
        "$map of 1 M",
        _project({"$map": {"input": _range(1_000_000), "in": {"$multiply": ["$$this", "$n"]}}}),
    )
    yield (
        "$map 2000 x 2000",
        _project(
            {
                "$map": {
                    "input": _range(2000),
                    "as": "x",
                    "in": {"$map": {"input": _range(2000), "in": {"$add": ["$$x", "$$this", "$n"]}}},
                }
            }
        ),
    )
    yield (
        "$filter 3000 x 3000",
        _project(
            {
                "$filter": {
                    "input": _range(3000),
                    "as": "x",
                    "cond": {
                        "$eq": [
                            {
                                "$size": {
                                    "$filter": {"input": _range(3000), "cond": {"$gt": ["$$this", "$$x"]}}
                                }
                            },
                            "$n",
                        ]
                    },
                }
            }
        ),
    )
    yield "$map of 60 M numbers", _project({"$size": {"$map": {"input": _range(60_000_000), "in": "$n"}}})
    yield "$setUnion of 1 M", _project({"$size": {"$setUnion": ["$list", "$list"]}}, "numbers")
    yield "$setIntersection of 1 M", _project({"$setIntersection": ["$list", ["x"]]}, "numbers")
    yield "$setDifference of 1 M", _project({"$size": {"$setDifference": ["$list", [-1]]}}, "numbers")
    yield "$setEquals of 1 M", _project({"$setEquals": ["$list", "$list"]}, "numbers")
    yield (
        "$sortArray of 1 M",
        _project({"$size": {"$sortArray": {"input": "$list", "sortBy": -1}}}, "numbers"),
    )
    yield "$reverseArray of 1 M", _project({"$size": {"$reverseArray": "$list"}}, "numbers")
    yield (
        "$in of 1 M, 1000 times",
        _project(
            _reduce(_range(1000), {"$add": ["$$value", {"$cond": [{"$in": [-1, "$list"]}, 1, 0]}]}), "numbers"
        ),
    )
    yield (
        "$indexOfArray of 1 M, 1000 times",
        _project(_reduce(_range(1000), {"$add": ["$$value", {"$indexOfArray": ["$list", -1]}]}), "numbers"),
    )
    yield "$lt of 1 M", _project({"$lt": ["$list", {"$concatArrays": ["$list", [1]]}]}, "numbers")
    yield "all of 12 MB", _aggregate("numbers", {"$set": {"more": 1}})
    yield "$zip of 1 M", _project({"$size": {"$zip": {"inputs": ["$list", "$list"]}}}, "numbers")
    yield (
        "$concatArrays that grows",
        _project({"$size": _reduce(_range(20_000), {"$concatArrays": ["$$value", ["$$this", "$n"]]}, [])}),
    )
    yield (
        "$concat that grows",
        _project({"$strLenBytes": _reduce(_range(60_000), {"$concat": ["$$value", "abcdefghij"]}, "")}),
    )
    yield (
        "$mergeObjects that grows",
        _project(
            _reduce(
                _range(5_000),
                {"$mergeObjects": ["$$value", {"$arrayToObject": [[[{"$toString": "$$this"}, "$n"]]]}]},
                {},
            )
        ),
    )
    yield "$split of 1 MB", _project({"$size": {"$split": ["$text", "b"]}}, "long")
    yield (
        "$dateToString of 1 M",
        _aggregate(
            "numbers",
            _NUMBERS,
            {
                "$group": {
                    "_id": None,
                    "m": {"$max": {"$dateToString": {"date": {"$toDate": {"$toLong": "$list"}}}}},
                }
            },
        ),
    )
    yield (
        "$pow of decimals",
        _project(
            _reduce(
                _range(100_000),
                {"$add": ["$$value", {"$pow": [{"$toDecimal": "1.0000001"}, {"$add": ["$$this", "$n"]}]}]},
            )
        ),
    )
    yield (
        "$regexMatch that backtracks",
        _aggregate("texts", {"$project": {"r": {"$regexMatch": {"input": "$text", "regex": "^(a|aa)+$"}}}}),
    )
    yield (
        "$regexFindAll of 1 MB",
        _project({"$size": {"$regexFindAll": {"input": "$text", "regex": "a"}}}, "long"),
    )
    switch = {
        "$switch": {
            "branches": [{"case": {"$eq": ["$a", -i]}, "then": i} for i in range(1, 1000)],
            "default": 0,
        }
    }
    yield "$switch of 1000 branches", _aggregate("items", {"$group": {"_id": switch}})


def _stages() -> Iterator[tuple[str, Document]]:
    for name, key in (("by _id", "_id"), ("without an index", "next")):
        yield (
            f"$graphLookup of a chain {name}",
            _aggregate(
                "chain",
                {"$limit": 1},
                {
                    "$graphLookup": {
                        "from": "chain",
                        "startWith": "$next",
                        "connectFromField": "next" if key == "_id" else "_id",
                        "connectToField": key,
                        "as": "found",
                    }
                },
                {"$project": {"n": {"$size": "$found"}}},
            ),
        )
    window = {"documents": ["unbounded", "current"]}
    yield (
        "$setWindowFields with $push",
        _aggregate(
            "items",
            {
                "$setWindowFields": {
                    "sortBy": {"_id": 1},
                    "output": {"all": {"$push": "$a", "window": window}},
                }
            },
            {"$group": {"_id": None, "n": {"$sum": {"$size": "$all"}}}},
        ),
    )
    yield (
        "$setWindowFields with a range",
        _aggregate(
            "items",
            {
                "$setWindowFields": {
                    "sortBy": {"a": 1},
                    "output": {"r": {"$sum": "$b", "window": {"range": [-500, 500]}}},
                }
            },
            {"$group": {"_id": "$r"}},
        ),
    )
    yield (
        "$lookup with $expr, uncorrelated",
        _aggregate(
            "items",
            {
                "$lookup": {
                    "from": "items",
                    "let": {"a": "$a"},
                    "pipeline": [{"$match": {"$expr": {"$eq": ["$b", {"$add": ["$$a", 9]}]}}}],
                    "as": "found",
                }
            },
            {"$group": {"_id": {"$size": "$found"}}},
        ),
    )
    yield (
        "$lookup, cartesian",
        _aggregate(
            "items",
            {"$limit": 2000},
            {"$lookup": {"from": "items", "localField": "b", "foreignField": "b", "as": "found"}},
            {"$group": {"_id": {"$size": "$found"}}},
        ),
    )
    inner = {"from": "items", "pipeline": [{"$limit": 200}], "as": "inner"}
    yield (
        "$lookup in $lookup",
        _aggregate(
            "items",
            {"$lookup": {"from": "items", "pipeline": [{"$limit": 200}, {"$lookup": inner}], "as": "found"}},
            {"$group": {"_id": {"$size": "$found"}}},
        ),
    )
    yield "$sort of 1 M", _aggregate("numbers", _NUMBERS, {"$sort": {"list": -1}}, {"$skip": 999_999})
    yield "$group of 1 M", _aggregate("numbers", _NUMBERS, {"$group": {"_id": "$list"}}, {"$skip": 999_999})
    yield (
        "$group by 1 M numbers",
        _aggregate("numbers", *[{"$unionWith": "numbers"}] * 9, {"$group": {"_id": "$list"}}),
    )
    yield (
        "$group with $push of 1 M",
        _aggregate("numbers", _NUMBERS, {"$group": {"_id": None, "n": {"$push": "$list"}}}),
    )
    yield (
        "$group with $addToSet of 1 M",
        _aggregate("numbers", _NUMBERS, {"$group": {"_id": None, "n": {"$addToSet": "$list"}}}),
    )
    facets = {f"f{i}": [{"$group": {"_id": f"${'ab'[i % 2]}"}}] for i in range(40)}
    yield "$facet of 40", _aggregate("items", {"$facet": facets})
    yield (
        "$densify of 400 k",
        _aggregate(
            "one",
            {"$densify": {"field": "n", "range": {"step": 1, "bounds": [0, 400_000]}}},
            {"$group": {"_id": None, "n": {"$sum": "$n"}}},
        ),
    )
    yield (
        "$bucketAuto of 1 M",
        _aggregate("numbers", _NUMBERS, {"$bucketAuto": {"groupBy": "$list", "buckets": 1000}}),
    )
    yield (
        "$unwind of $unwind of $unwind",
        _aggregate(
            "one",
            {"$project": {"x": _range(1000), "y": _range(1000), "z": _range(1000)}},
            {"$unwind": "$x"},
            {"$unwind": "$y"},
            {"$unwind": "$z"},
            {"$group": {"_id": None, "n": {"$sum": 1}}},
        ),
    )
    yield (
        "$unionWith 50 times",
        _aggregate("items", *[{"$unionWith": "items"}] * 50, {"$group": {"_id": "$a"}}),
    )
    yield (
        "1000 stages",
        _aggregate("items", *[{"$addFields": {"a": {"$add": ["$a", 1]}}}] * 1000, {"$skip": ITEMS}),
    )
    yield (
        "$redact of nested documents",
        _aggregate(
            "odd",
            *[{"$redact": {"$cond": [{"$eq": ["$c", -1]}, "$$PRUNE", "$$DESCEND"]}}] * 50,
            {"$skip": ITEMS},
        ),
    )
    yield "$sample of all", _aggregate("items", {"$sample": {"size": ITEMS}}, {"$skip": ITEMS - 1})
    yield (
        "$sort with a collation",
        _aggregate("items", {"$sort": {"text": -1}}, {"$skip": ITEMS - 1}, collation={"locale": "en"}),
    )


def _queries() -> Iterator[tuple[str, Document]]:
    def find(collection: str, condition: Any, **options: Any) -> Document:
        return {"find": collection, "filter": condition, **options, "$db": DATABASE}

    yield "find with $expr", find("one", {"$expr": {"$gt": [_LOOP, 0]}})
    yield "find with $in of 500 k", find("items", {"a": {"$in": list(range(-500_000, 0))}})
    yield "find with $in of 500 k by _id", find("items", {"_id": {"$in": list(range(-500_000, 0))}})
    yield "find with a pattern that backtracks", find("texts", {"text": Regex("^(a|aa)+$")})
    yield "find with patterns on 1 MB", find("long", {"text": Regex("(ab)*c")})
    yield "find with 5000 $or", find("items", {"$or": [{"a": -i, "b": i} for i in range(5000)]})
    yield "find with nested $elemMatch", find("odd", {"a.b": {"$elemMatch": {"c": {"$regex": "(x+x+)+y"}}}})
    schema = {"properties": {f"p{i}": {"type": "string"} for i in range(500)} | {"a": {"minimum": 5000}}}
    yield "find with $jsonSchema", find("items", {"$jsonSchema": schema})
    yield "find with sort and skip", find("items", {}, sort={"text": -1}, skip=ITEMS - 1)
    yield "count with $expr", {"count": "items", "query": {"$expr": {"$gt": [_loops(1), 0]}}, "$db": DATABASE}
    yield (
        "distinct with $expr",
        {
            "distinct": "items",
            "key": "a",
            "query": {"$expr": {"$gt": [_loops(1), 0]}},
            "$db": DATABASE,
        },
    )
    yield "validate", {"validate": "items", "full": True, "$db": DATABASE}
    yield (
        "explain with executionStats",
        {
            "explain": {"find": "items", "filter": {"$expr": {"$gt": [_loops(1), 0]}}},
            "verbosity": "executionStats",
            "$db": DATABASE,
        },
    )


def _writes() -> Iterator[tuple[str, Document]]:
    def update(condition: Document, change: Any, *, multi: bool, collection: str = "items") -> Document:
        statement = {"q": condition, "u": change, "multi": multi}
        return {"update": collection, "updates": [statement], "$db": DATABASE}

    yield (
        "update with a pipeline, one document",
        update({}, [{"$set": {"r": _LOOP}}], multi=False, collection="one"),
    )
    yield "update with a pipeline, all documents", update({}, [{"$set": {"r": _loops(1)}}], multi=True)
    yield (
        "update with $expr in the filter",
        update({"$expr": {"$lt": [_loops(1), 0]}}, {"$set": {"r": 1}}, multi=True),
    )
    yield "update of all documents", update({}, {"$inc": {"counter": 1}}, multi=True)
    yield (
        "findAndModify with a pipeline",
        {
            "findAndModify": "one",
            "query": {},
            "update": [{"$set": {"r": _LOOP}}],
            "$db": DATABASE,
        },
    )
    yield (
        "delete with $expr in the filter",
        {
            "delete": "items",
            "deletes": [{"q": {"$expr": {"$lt": [_loops(1), 0]}}, "limit": 0}],
            "$db": DATABASE,
        },
    )
    yield (
        "createIndexes on 20,000 arrays",
        {
            "createIndexes": "items",
            "indexes": [{"key": {"list": 1, "text": 1}, "name": "list_text"}],
            "$db": DATABASE,
        },
    )
    yield "$out of 200 k", _aggregate("items", _NUMBERS, {"$project": {"_id": 0}}, {"$out": "copied"})
    yield "$merge of 200 k", _aggregate("items", _NUMBERS, {"$project": {"_id": 0}}, {"$merge": "merged"})
    yield (
        "insert of 40,000 documents",
        {
            "insert": "many",
            "documents": [{"_id": Int64(i), "text": "x" * 100} for i in range(40_000)],
            "$db": DATABASE,
        },
    )
