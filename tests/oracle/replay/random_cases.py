"""Random streams: a scope, options, and a pipeline of stages that fit the workload's events."""

import random
from collections.abc import Callable, Sequence
from typing import Any, Final

from bson import DatetimeMS, MaxKey, MinKey, Regex, Timestamp

from tailrace.bson import documents as bsondocs
from tests.oracle.replay.stream_case import Document, StreamCase
from tests.oracle.replay.written_cases import SPLIT
from tests.support.choices import any_filter
from tests.support.client_workload import COLLECTIONS, RENAMED
from tests.support.documents import DocumentMaker

_FLAGS: Final = ("showExpandedEvents", "showSystemEvents", "showMigrationEvents", "showRawUpdateDescription")
_PATHS: Final = (
    "_id", "_id._data", "operationType", "clusterTime", "wallTime", "ns", "ns.db", "ns.coll", "to",
    "to.coll", "documentKey", "documentKey._id", "fullDocument", "fullDocument._id",
    "fullDocument.a", "fullDocument.qty", "fullDocument.tags", "fullDocument.nested",
    "fullDocument.nested.a", "fullDocument.rows", "fullDocument.rows.k", "fullDocument.rows.0.v",
    "fullDocument.list", "fullDocumentBeforeChange", "fullDocumentBeforeChange._id",
    "fullDocumentBeforeChange.a", "fullDocumentBeforeChange.b", "updateDescription",
    "updateDescription.updatedFields", "updateDescription.updatedFields.a",
    "updateDescription.updatedFields.rows", "updateDescription.removedFields",
    "updateDescription.truncatedArrays", "updateDescription.truncatedArrays.field",
    "updateDescription.disambiguatedPaths", "rawUpdateDescription.diff", "operationDescription",
    "operationDescription.indexes", "operationDescription.idIndex.name", "collectionUUID",
    "stateBeforeChange", "lsid", "lsid.id", "txnNumber", "missing", "missing.too",
    "_id.x", "operationType.x", "ns.x", "ns.coll.x", "to.db", "to.x", "documentKey.x", "documentKey._id.a",
    "fullDocument.0", "fullDocument.a.b", "fullDocument.nested.0", "updateDescription.x",
    "updateDescription.updatedFields.nested.a", "updateDescription.removedFields.0", "nsType", "splitEvent",
    "fromMigrate", "operationDescription.key", "",
)  # fmt: skip
_TYPES: Final = (
    "insert", "update", "replace", "delete", "drop", "rename", "create", "dropDatabase",
    "invalidate", "modify", "createIndexes", "dropIndexes",
)  # fmt: skip
_BSON_TYPES: Final = (
    "double", "string", "object", "array", "binData", "undefined", "objectId", "bool", "date",
    "null", "regex", "int", "timestamp", "long", "decimal", "number", "missing", "symbol", "minKey",
)  # fmt: skip


class CaseMaker:
    """Makes streams over a workload, given some of its events."""

    _paths: tuple[str, ...] = _PATHS
    """The paths that conditions and expressions use; the last one is only for projections."""

    def __init__(
        self, rng: random.Random, start: Timestamp, databases: Sequence[str], events: Sequence[bytes]
    ) -> None:
        self._rng = rng
        self._start = start
        self._databases = databases
        self._events = events
        self._values = DocumentMaker(rng)
        self._stages: tuple[Callable[[], Document], ...] = (
            self._match,
            self._match,
            self._match,
            self._project,
            self._set,
            self._unset,
            self._replace,
            self._redact,
        )

    def make(self) -> StreamCase:
        rng = self._rng
        options: Document = {flag: True for flag in _FLAGS if rng.random() < 0.3}
        if rng.random() < 0.6:
            options["fullDocument"] = rng.choice(
                ("updateLookup", "updateLookup", "whenAvailable", "required")
            )
        if rng.random() < 0.4:
            options["fullDocumentBeforeChange"] = rng.choice(("whenAvailable", "whenAvailable", "required"))
        kind = rng.randrange(4)
        database = rng.choice(self._databases) if kind >= 2 else None
        collection = rng.choice((*COLLECTIONS, *RENAMED)) if kind == 3 else None
        stages = [rng.choice(self._stages)() for _ in range(rng.choice((1, 1, 1, 2, 2, 3)))]
        if rng.random() < 0.2:
            stages += self._renaming()
        if rng.random() < 0.1:
            stages.append(SPLIT)
        collation: Document | None = None
        if rng.random() < 0.1:
            collation = {"locale": rng.choice(("en", "simple")), "strength": rng.choice((1, 2, 3))}
        start = {"startAtOperationTime": self._start}
        return StreamCase(database, collection, {**options, **start}, stages, collation)

    @property
    def _top(self) -> tuple[str, ...]:
        return tuple(path for path in self._paths if path and "." not in path and path != "_id")

    # -- stages ---------------------------------------------------------------------------------------

    def _match(self) -> Document:
        rng = self._rng
        if rng.random() < 0.3:
            return {"$match": any_filter(self._events, rng)}
        return {"$match": self._condition(2)}

    def _project(self) -> Document:
        rng = self._rng
        if rng.random() < 0.4:
            return {"$project": dict.fromkeys(self._some_paths(), 0)}
        shown: Document = dict.fromkeys(self._some_paths(), 1)
        for number in range(rng.randrange(3)):
            shown[f"made{number}"] = self._expression(2)
        return {"$project": shown or {"ns": 1}}

    def _set(self) -> Document:
        rng = self._rng
        made = {path: self._expression(2) for path in self._some_paths()}
        made = made or {rng.choice(self._top): self._expression(1)}
        return {rng.choice(("$set", "$addFields")): made}

    def _unset(self) -> Document:
        return {"$unset": self._some_paths() or "ns"}

    def _replace(self) -> Document:
        rng = self._rng
        root: Any = {
            "_id": "$_id",
            **{f"f{number}": self._expression(2) for number in range(rng.randrange(3))},
        }
        if rng.random() < 0.5:
            root = {
                "$mergeObjects": [
                    root,
                    "$$ROOT",
                    {path: self._expression(1) for path in self._some_paths()[:1]},
                ]
            }
        return {"$replaceWith": root} if rng.random() < 0.5 else {"$replaceRoot": {"newRoot": root}}

    def _redact(self) -> Document:
        kept, pruned = self._rng.sample(("$$KEEP", "$$PRUNE", "$$DESCEND"), 2)
        return {"$redact": {"$cond": [self._expression(2), kept, pruned]}}

    def _renaming(self) -> list[Document]:
        """A stage that gives fields another name, and a condition on one of the new names."""
        rng = self._rng
        sources = [path for path in rng.sample(self._paths[:-1], 3) if path != "_id"]
        names = dict(zip(("one", "two.three", "ns"), sources, strict=False))
        made = {name: f"${path}" for name, path in names.items()}
        stage = rng.choice(
            (
                {"$project": made},
                {"$project": {**made, "fullDocument": 1}},
                {"$set": made},
                {"$replaceWith": {"_id": "$_id", **{name.replace(".", ""): v for name, v in made.items()}}},
            )
        )
        name, path = rng.choice(list(names.items()))
        name = rng.choice((name, f"{name}.a", name.partition(".")[0], "operationType"))
        return [stage, {"$match": {name: self._predicate(path, 1)}}]

    def _some_paths(self) -> list[str]:
        """Paths of which none is within another."""
        found: list[str] = []
        for path in self._rng.sample(self._paths, self._rng.randrange(1, 5)):
            taken = any(
                path == other or path.startswith(f"{other}.") or other.startswith(f"{path}.")
                for other in found
            )
            if path and not taken and path.partition(".")[0] != "_id" and not path.endswith(".0.v"):
                found.append(path)
        return found

    # -- conditions of $match -------------------------------------------------------------------------

    def _condition(self, depth: int) -> Document:
        rng = self._rng
        roll = rng.random()
        if depth and roll < 0.25:
            parts = [self._condition(depth - 1) for _ in range(rng.randrange(1, 4))]
            return {rng.choice(("$and", "$or", "$nor")): parts}
        if roll < 0.4:
            return {"$expr": self._expression(2)}
        if roll < 0.45:
            return self._rare_condition()
        path = rng.choice(self._paths[:-1])
        return {path: self._predicate(path, depth)}

    def _rare_condition(self) -> Document:
        rng = self._rng
        path, other = (rng.choice(self._paths[:-1]) for _ in range(2))
        top, _, below = path.partition(".")
        kind = {"bsonType": rng.choice(_BSON_TYPES[:15])}
        inner = {"properties": {below: kind}} if below and "." not in below else kind
        conditions: tuple[Document, ...] = (
            {"$jsonSchema": {"properties": {top: inner}}},
            {"$jsonSchema": {"required": [top]}},
            {"$alwaysTrue": 1},
            {"$alwaysFalse": 1},
            {"$comment": "x", path: {"$exists": True}},
            {"$expr": rng.choice((True, 0, None, "$missing", f"${path}", "text"))},
            {"$expr": {"$eq": [f"${path}", f"${other}"]}},
            {path: self._value_at(path), other: {"$ne": self._value_at(other)}},
            {"$and": [{path: {"$gte": MinKey()}}, {path: {"$lt": MaxKey()}}]},
            {"$nor": [{path: {"$exists": False}}, {other: None}]},
        )
        return rng.choice(conditions)

    def _predicate(self, path: str, depth: int) -> Any:
        rng = self._rng
        value = self._value_at(path)
        kinds: tuple[Callable[[], Any], ...] = (
            lambda: {"$eq": value},
            lambda: {"$ne": value},
            lambda: {"$gt": value},
            lambda: {"$gte": value},
            lambda: {"$lt": value},
            lambda: {"$lte": value},
            lambda: {"$in": [value, self._value_at(path), None]},
            lambda: {"$nin": [value]},
            lambda: {"$exists": rng.random() < 0.5},
            lambda: None,
            lambda: {"$type": rng.choice(_BSON_TYPES[:-3])},
            lambda: {"$not": {"$gt": value}},
            lambda: {"$not": {"$eq": value}},
            lambda: {"$size": rng.randrange(3)},
            lambda: Regex("^[aios]", "i"),
            lambda: {"$elemMatch": {"$gte": value}},
            lambda: {"$mod": [2, 1]},
            lambda: {"$all": [value]},
            lambda: {"$not": Regex("e")},
            lambda: {"$in": [Regex("^o"), value]},
            lambda: {"$bitsAllSet": 1},
            lambda: {"$elemMatch": {"k": {"$lt": 2}}},
            lambda: {"$gt": value, "$exists": True},
            lambda: {"$type": rng.sample(_BSON_TYPES[:15], 2)},
            lambda: {rng.choice(("$bitsAnySet", "$bitsAllClear", "$bitsAnyClear")): [0, 3]},
            lambda: {"$regex": "O", "$options": rng.choice(("", "i", "x", "s"))},
            lambda: {"$nin": [Regex("^u"), None, value]},
            lambda: {rng.choice(("$in", "$nin", "$all")): []},
            lambda: {"$gte": None, "$ne": value},
            lambda: {"$lte": None},
            lambda: {"$not": {"$elemMatch": {"$lt": value}}},
            lambda: {"$elemMatch": {"$not": {"$gt": value}}},
            lambda: {"$not": {"$in": [value, None]}},
            lambda: {"$not": {"$exists": rng.random() < 0.5}},
            lambda: {"$not": {"$type": rng.choice(_BSON_TYPES[:15])}},
            lambda: {rng.choice(("$gt", "$lte", "$ne", "$eq")): rng.choice((MinKey(), MaxKey(), {}, []))},
        )
        return rng.choice(kinds)()

    def _value_at(self, path: str) -> Any:
        """A value that an event has there, or another."""
        rng = self._rng
        if self._events and rng.random() < 0.7:
            value: Any = bsondocs.decode(rng.choice(self._events))
            for name in path.split("."):
                value = value.get(name) if isinstance(value, dict) else None
            if value is not None:
                return value
        if path == "operationType":
            return rng.choice(_TYPES)
        return self._values.value(1)

    # -- expressions ----------------------------------------------------------------------------------

    def _expression(self, depth: int) -> Any:
        rng = self._rng
        if not depth or rng.random() < 0.25:
            return self._operand()
        inner = self._expression
        path = rng.choice(self._paths[:-1])
        array = {"$cond": [{"$isArray": f"${path}"}, f"${path}", []]}
        kinds: tuple[Callable[[], Any], ...] = (
            lambda: {
                rng.choice(("$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$cmp")): [
                    f"${path}",
                    inner(depth - 1),
                ]
            },
            lambda: {rng.choice(("$and", "$or")): [inner(depth - 1), inner(depth - 1)]},
            lambda: {"$not": [inner(depth - 1)]},
            lambda: {"$cond": [inner(depth - 1), inner(depth - 1), inner(depth - 1)]},
            lambda: {"$ifNull": [f"${path}", inner(depth - 1)]},
            lambda: {"$type": inner(depth - 1)},
            lambda: {"$in": [inner(depth - 1), array]},
            lambda: {"$in": ["$operationType", rng.sample(_TYPES, 3)]},
            lambda: {"$size": array},
            lambda: {"$isArray": inner(depth - 1)},
            lambda: {"$isNumber": inner(depth - 1)},
            lambda: {"$concat": ["$operationType", "-", {"$ifNull": ["$ns.coll", "none"]}]},
            lambda: {"$toUpper": {"$ifNull": ["$ns.coll", "none"]}},
            lambda: {"$strLenCP": "$operationType"},
            lambda: {"$mergeObjects": ["$documentKey", {"x": inner(depth - 1)}]},
            lambda: {"$objectToArray": "$documentKey"},
            lambda: {"$map": {"input": array, "in": {"v": "$$this"}}},
            lambda: {"$filter": {"input": array, "cond": {"$gt": ["$$this", inner(0)]}}},
            lambda: {"$reduce": {"input": array, "initialValue": 0, "in": {"$add": ["$$value", 1]}}},
            lambda: {"$slice": [array, 2]},
            lambda: {"$arrayElemAt": [array, rng.choice((0, -1, 5))]},
            lambda: {"$switch": {"branches": [{"case": inner(depth - 1), "then": 1}], "default": inner(0)}},
            lambda: {
                "$getField": {
                    "field": {"$literal": rng.choice(("a", "a.b", "$x", ""))},
                    "input": "$fullDocument",
                }
            },
            lambda: {"$literal": self._values.value(1)},
            lambda: {"a": inner(depth - 1), "b": f"${path}"},
            lambda: [inner(depth - 1), f"${path}"],
            lambda: {"$let": {"vars": {"v": inner(depth - 1)}, "in": ["$$v", "$$v"]}},
            lambda: {"$dateToString": {"date": "$wallTime", "format": "%Y"}},
            lambda: {
                "$convert": {
                    "input": f"${path}",
                    "to": rng.choice(("string", "int", "bool", "double")),
                    "onError": "bad",
                    "onNull": "none",
                }
            },
            lambda: {"$add": [1, inner(depth - 1)]},
            lambda: {"$setUnion": [array, [1]]},
            lambda: {"$concatArrays": [array, [inner(0)]]},
            lambda: {"$tsSecond": "$clusterTime"},
            lambda: {"$bsonSize": "$$ROOT"},
            lambda: {"$regexMatch": {"input": "$operationType", "regex": "^[iu]"}},
            lambda: {"$setDifference": [array, [inner(0), 1]]},
            lambda: {"$setEquals": [array, array]},
            lambda: {"$anyElementTrue": [array]},
            lambda: {"$sortArray": {"input": array, "sortBy": rng.choice((1, -1, {"k": 1}))}},
            lambda: {"$zip": {"inputs": [array, [1, 2]], "useLongestLength": True}},
            lambda: {"$unsetField": {"field": "a", "input": "$fullDocument"}},
            lambda: {"$setField": {"field": "ns", "input": "$documentKey", "value": inner(depth - 1)}},
            lambda: {"$indexOfArray": [array, inner(0)]},
            lambda: {rng.choice(("$sum", "$avg", "$max", "$min")): [f"${path}", inner(0)]},
            lambda: {rng.choice(("$first", "$last", "$reverseArray")): array},
            lambda: {"$regexFind": {"input": "$ns.coll", "regex": Regex("([a-r])(s)?"), "options": "i"}},
            lambda: {"$split": ["$ns.coll", "e"]},
            lambda: {"$replaceAll": {"input": "$operationType", "find": "e", "replacement": "$ns.coll"}},
            lambda: {"$dateTrunc": {"date": DatetimeMS(10**12), "unit": "week", "binSize": 2}},
            lambda: {"$maxN": {"n": 2, "input": array}},
            lambda: {"$arrayToObject": {"$objectToArray": "$documentKey"}},
            lambda: {"$cmp": [inner(depth - 1), inner(depth - 1)]},
            lambda: {"$switch": {"branches": [{"case": inner(depth - 1), "then": inner(0)}]}},
            lambda: {"$let": {"vars": {"v": f"${path}"}, "in": {"$ifNull": ["$$v.a", "$$v", "none"]}}},
            lambda: {rng.choice(("$toInt", "$toDouble", "$toDecimal", "$toBool", "$toString")): inner(0)},
            lambda: {rng.choice(("$abs", "$ceil", "$round", "$sqrt")): inner(0)},
            lambda: {rng.choice(("$subtract", "$multiply", "$divide", "$mod")): [inner(0), inner(0)]},
        )
        return rng.choice(kinds)()

    def _operand(self) -> Any:
        rng = self._rng
        roll = rng.random()
        if roll < 0.6:
            return f"${rng.choice(self._paths[:-1])}"
        if roll < 0.65:
            return "$$REMOVE"
        if roll < 0.7:
            return "$$ROOT.ns"
        return {"$literal": self._values.scalar()}
