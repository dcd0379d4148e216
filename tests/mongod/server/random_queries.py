"""Random filters, updates, expressions and pipelines, mostly invalid.

The names of operators and stages come from the server's own tables, so that new ones are included. Arguments
are sometimes valid and often not.
"""

import random
from typing import Any

from bson import (
    Binary,
    Code,
    DatetimeMS,
    Decimal128,
    Int64,
    MaxKey,
    MinKey,
    ObjectId,
    Regex,
    Timestamp,
)

from tailrace.bson.values import DBPointer, Symbol, Undefined
from tailrace.mongod.language.aggregation.accumulators import ACCUMULATORS
from tailrace.mongod.language.aggregation.stage_table import STAGES
from tailrace.query.expressions.operators import OPERATORS
from tailrace.query.match.operators import FIELD_OPERATORS, TOP_OPERATORS

Document = dict[str, Any]

UPDATE_OPERATORS = (
    "$set", "$unset", "$inc", "$mul", "$min", "$max", "$rename", "$setOnInsert", "$currentDate", "$bit",
    "$push", "$addToSet", "$pop", "$pull", "$pullAll", "$nothing",
)  # fmt: skip
WINDOW_OPERATORS = (
    "$rank", "$denseRank", "$documentNumber", "$shift", "$derivative", "$integral", "$expMovingAvg", "$locf",
    "$linearFill", "$covariancePop", "$minN",
)  # fmt: skip
SCALARS: tuple[Any, ...] = (
    None, True, False, 0, 1, 2, -1, 3, 255, 2**31 - 1, -(2**31), Int64(0), Int64(2**63 - 1),
    Int64(-(2**63)), 0.0, -0.0, 0.5, -1.5, 1e308, 5e-324, float("nan"), float("inf"), float("-inf"), "", "a",
    "b", "abc", "a.b", "ä€𝄞", "2024-02-30", "2024-01-01T00:00:00Z", "%Y-%m-%d", "day", "month",
    "Europe/Paris", "+02:00", "x" * 100, "1", "0x1F", "base64", "utf8", "long", "double", "array",
    "objectId", "little", Decimal128("0"), Decimal128("1.5"), Decimal128("NaN"), Decimal128("-Infinity"),
    Decimal128("1E+6144"),
    Decimal128("1E-6176"), ObjectId(b"abcdefghijkl"), DatetimeMS(0), DatetimeMS(1_700_000_000_000),
    DatetimeMS(2**63 - 1), DatetimeMS(-(2**63)), Timestamp(0, 0), Timestamp(1, 1),
    Timestamp(2**32 - 1, 2**32 - 1), Binary(b"", 0), b"abc", Binary(bytes(16), 4), Binary(b"x", 128),
    Binary(b"\x10\0ab", 9), Regex("a", ""), Regex("(", ""), Regex("^a", "im"), Code("f"), Code("f", {"a": 1}),
    Symbol("s"), Undefined(), MinKey(), MaxKey(), DBPointer("a.b", ObjectId(b"abcdefghijkl")),
)  # fmt: skip
PATHS = (
    "a", "b", "c", "a.b", "a.0", "b.0.c", "_id", "nested.x", "", ".", "a.", "a..b", "$a", "0", "a.$", "b.$[]",
    "b.$[e]", "b.$[e].c", "naïve", "tags", "a.b.c.d.e",
)  # fmt: skip
REFERENCES = (
    "$a", "$b", "$c", "$a.b", "$b.0", "$_id", "$$ROOT", "$$CURRENT.a", "$$NOW", "$$REMOVE", "$$this",
    "$$value", "$$v", "$missing", "$", "$$", "$tags",
)  # fmt: skip
PATTERNS = ("a", "^a", "(", "[a-", "(?i)a", "a{2,1}", "\\p{L}", "i", "imsx", "u", Regex("a"))
RANGES = ([-1, 1], ["unbounded", "current"], {"step": 1, "bounds": "full"}, [0, 9])
TOKENS: tuple[Any, ...] = (None, {}, {"_data": "82"}, {"_data": "8260C141F8"}, {"_data": 1})
ARGUMENT_NAMES = (
    "input", "in", "as", "cond", "initialValue", "vars", "if", "then", "else", "branches", "case", "default",
    "date", "dateString", "unit", "amount", "startDate", "endDate", "timezone", "format", "binSize",
    "startOfWeek", "year", "month", "day", "isoWeekYear", "hour", "to", "onError", "onNull", "field", "value",
    "chars", "find", "replacement", "regex", "options", "n", "sortBy", "output", "p", "method", "base",
    "byteOrder", "limit", "inputs", "defaults", "useLongestLength", "subtype", "string", "depth", "key",
)  # fmt: skip
STAGE_FIELDS = (
    "path", "includeArrayIndex", "preserveNullAndEmptyArrays", "from", "localField", "foreignField", "as",
    "let", "pipeline", "startWith", "connectFromField", "connectToField", "maxDepth", "depthField",
    "restrictSearchWithMatch", "coll", "groupBy", "boundaries", "buckets", "granularity", "output", "default",
    "into", "on", "whenMatched", "whenNotMatched", "db", "size", "newRoot", "field", "range", "step",
    "bounds", "partitionByFields", "partitionBy", "sortBy", "method", "value", "window", "documents", "unit",
)  # fmt: skip


class RandomQueries:
    """Generates queries from one random generator."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def value(self, depth: int = 2) -> Any:
        """Any BSON value."""
        rng = self._rng
        roll = rng.random()
        if depth <= 0 or roll < 0.6:
            return rng.choice(SCALARS)
        if roll < 0.8:
            return [self.value(depth - 1) for _ in range(rng.randrange(4))]
        return {rng.choice(PATHS): self.value(depth - 1) for _ in range(rng.randrange(3))}

    def document(self) -> Document:
        """A document with fields that the queries use."""
        return {name: self.value(3) for name in ("a", "b", "c", "nested", "tags") if self._rng.random() < 0.8}

    # -- filters --------------------------------------------------------------------------------------

    def filter(self, depth: int = 2) -> Any:
        """A filter, or another value in its place."""
        rng = self._rng
        if rng.random() < 0.03:
            return self.value()
        made: Document = {}
        for _ in range(rng.choice((1, 1, 1, 2))):
            if rng.random() < 0.25:
                name = rng.choice(list(TOP_OPERATORS))
                made[name] = self._top_argument(name, depth)
            else:
                made[rng.choice(PATHS)] = self._condition(depth)
        return made

    def _top_argument(self, name: str, depth: int) -> Any:
        rng = self._rng
        if rng.random() < 0.1 or depth <= 0:
            return self.value()
        if name == "$expr":
            return self.expression()
        if name == "$jsonSchema":
            return self._schema(depth)
        return [self.filter(depth - 1) for _ in range(rng.randrange(3))]

    def _condition(self, depth: int) -> Any:
        rng = self._rng
        if rng.random() < 0.15:
            return self.value()
        return {
            name: self._field_argument(name, depth)
            for name in rng.sample(list(FIELD_OPERATORS), rng.choice((1, 1, 2)))
        }

    def _field_argument(self, name: str, depth: int) -> Any:
        rng = self._rng
        if rng.random() < 0.15 or depth <= 0:
            return self.value()
        if name in ("$in", "$nin", "$all"):
            return [self.value() for _ in range(rng.randrange(4))]
        if name in ("$not", "$elemMatch"):
            return self._condition(depth - 1) if rng.random() < 0.7 else self.filter(depth - 1)
        if name == "$mod":
            return [rng.choice(SCALARS), rng.choice(SCALARS)]
        if name in ("$regex", "$options"):
            return rng.choice(PATTERNS)
        if name == "$type":
            return rng.choice(("string", "number", 2, -1, 127, ["array", 3], [], "nothing", 0.5))
        return rng.choice(SCALARS)

    def _schema(self, depth: int) -> Document:
        rng = self._rng
        keywords: Document = {
            "bsonType": rng.choice(("object", ["int", "string"], "nothing", 1)),
            "type": rng.choice(("object", "array", 5)),
            "required": rng.choice((["a"], [], ["a", "a"], "a")),
            "properties": {"a": self._schema(depth - 1)} if depth > 0 else {},
            "minimum": rng.choice(SCALARS),
            "exclusiveMinimum": rng.choice((True, 1)),
            "maxLength": rng.choice((1, -1, 1.5, "x")),
            "pattern": rng.choice(("a", "(", 1)),
            "items": self._schema(depth - 1) if depth > 0 else [],
            "uniqueItems": rng.choice((True, "x")),
            "enum": [self.value()],
            "additionalProperties": rng.choice((False, {}, 1)),
            "patternProperties": rng.choice(({"^a": {}}, {"(": {}}, 1)),
            "dependencies": rng.choice(({"a": ["b"]}, {"a": {}}, {"a": []})),
            "multipleOf": rng.choice((2, 0, -1, 0.5, Decimal128("NaN"))),
        }
        return {name: keywords[name] for name in rng.sample(list(keywords), rng.randrange(1, 4))}

    # -- expressions ----------------------------------------------------------------------------------

    def expression(self, depth: int = 2) -> Any:
        rng = self._rng
        roll = rng.random()
        if depth <= 0 or roll < 0.35:
            return rng.choice(REFERENCES) if rng.random() < 0.6 else rng.choice(SCALARS)
        if roll < 0.42:
            return [self.expression(depth - 1) for _ in range(rng.randrange(3))]
        if roll < 0.47:
            return {rng.choice(PATHS): self.expression(depth - 1)}
        return {rng.choice(list(OPERATORS)): self._operands(depth - 1)}

    def _operands(self, depth: int) -> Any:
        rng = self._rng
        roll = rng.random()
        if roll < 0.25:
            return self.expression(depth)
        if roll < 0.65:
            return [self.expression(depth) for _ in range(rng.choice((0, 1, 2, 2, 2, 3, 4)))]
        return {name: self._named(name, depth) for name in rng.sample(ARGUMENT_NAMES, rng.randrange(1, 6))}

    def _named(self, name: str, depth: int) -> Any:
        rng = self._rng
        if name == "vars":
            return {"v": self.expression(depth)}
        if name == "as":
            return rng.choice(("v", "this", "V", "", 1))
        if name == "branches":
            return [{"case": self.expression(depth), "then": self.expression(depth)}]
        if name == "sortBy":
            return rng.choice(({"a": 1}, {"a": -1, "b": 1}, 1, -1, {"a": 0}, {}))
        return self.expression(depth)

    def accumulator(self) -> Document:
        """A field of `$group` or a similar stage."""
        rng = self._rng
        return {rng.choice(list(ACCUMULATORS)): self._operands(1)}

    # -- pipelines --------------------------------------------------------------------------------------

    def pipeline(self, depth: int = 2) -> list[Any]:
        """Up to four stages."""
        return [self.stage(depth) for _ in range(self._rng.randrange(1, 5))]

    def stage(self, depth: int = 2) -> Any:
        """A stage; most have roughly the right form."""
        rng = self._rng
        name = rng.choice(list(STAGES))
        if rng.random() < 0.05:
            return rng.choice((self.value(), {}, {"$nothing": 1}, {name: self.value()}))
        return {name: self._stage_argument(name, depth)}

    def _stage_argument(self, name: str, depth: int) -> Any:
        rng = self._rng
        if name == "$match":
            return self.filter()
        if name in ("$project", "$addFields", "$set"):
            names = rng.sample(PATHS, rng.randrange(1, 3))
            return {name: rng.choice((0, 1, self.expression())) for name in names}
        if name == "$group":
            fields = {rng.choice(("x", "y")): self.accumulator() for _ in range(rng.randrange(3))}
            return {"_id": self.expression(), **fields}
        if name in ("$replaceRoot", "$replaceWith", "$redact", "$sortByCount"):
            return {"newRoot": self.expression()} if name == "$replaceRoot" else self.expression()
        if name == "$sort":
            return {path: rng.choice((1, -1, 0, {"$meta": "x"}, True)) for path in rng.sample(PATHS, 2)}
        if name in ("$limit", "$skip", "$count", "$unset", "$unwind"):
            return rng.choice((1, 2, 0, -1, "a", "$a", "$b", ["a", "b"], {"path": "$a"}, rng.choice(SCALARS)))
        if name == "$sample":
            return {"size": rng.choice((1, 3, 0, -1, 1.5, "x"))}
        if name == "$facet" and depth > 0:
            return {"x": self.pipeline(depth - 1), "y": self.pipeline(depth - 1)}
        if name == "$unionWith" and depth > 0:
            return rng.choice(("c", {"coll": "c", "pipeline": self.pipeline(depth - 1)}))
        if name == "$documents":
            return [self.document()]
        if name == "$changeStream":
            return self.stream_options()
        chosen = rng.sample(STAGE_FIELDS, rng.randrange(8))
        return {field: self._stage_field(field, depth) for field in chosen}

    def _stage_field(self, field: str, depth: int) -> Any:
        rng = self._rng
        if field in ("from", "coll", "into"):
            return rng.choice(("c", "d", "", "$x", {"db": "fuzz", "coll": "d"}))
        if field == "pipeline" and depth > 0:
            return self.pipeline(depth - 1)
        if field == "output":
            window = {"window": rng.choice(({"documents": [-1, 1]}, {"range": ["unbounded", 0]}, {}))}
            made = {rng.choice((*WINDOW_OPERATORS, *ACCUMULATORS)): self._operands(1)}
            filled = rng.choice(({"method": "linear"}, {"value": self.expression()}))
            return {"o": rng.choice((made, made | window, filled))}
        if field == "sortBy":
            return rng.choice(({"a": 1}, {"a": -1, "b": 1}, {}, 1))
        if field == "let":
            return {"v": self.expression()}
        if field in ("documents", "bounds", "range"):
            return rng.choice((*RANGES, self.value()))
        return rng.choice((self.expression(1), rng.choice(PATHS), [rng.choice(PATHS)], rng.choice(SCALARS)))

    def stream_options(self) -> Any:
        """The options of `$changeStream`."""
        rng = self._rng
        options: Document = {
            "fullDocument": rng.choice(("updateLookup", "required", "whenAvailable", "default", "x", 1)),
            "fullDocumentBeforeChange": rng.choice(("off", "required", "whenAvailable", 1)),
            "resumeAfter": rng.choice((*TOKENS, self.value())),
            "startAfter": rng.choice(({"_data": ""}, {"_data": "zz"}, {"_data": "82" * 400})),
            "startAtOperationTime": rng.choice((Timestamp(1, 1), Timestamp(2**32 - 1, 1), 1)),
            "showExpandedEvents": rng.choice((True, False, 1)),
            "showRawUpdateDescription": rng.choice((True, "x")),
            "allChangesForCluster": rng.choice((True, False)),
            "showSystemEvents": True,
            "supportedEvents": rng.choice((["a"], [], ["a", "a"], 1)),
            "nothing": 1,
        }
        return {name: options[name] for name in rng.sample(list(options), rng.randrange(3))}

    # -- updates ----------------------------------------------------------------------------------------

    def update(self) -> Any:
        """Modifiers, a pipeline, a replacement, or something invalid."""
        rng = self._rng
        roll = rng.random()
        if roll < 0.03:
            return self.value()
        if roll < 0.1:
            return self.document()
        if roll < 0.25:
            names = ("$set", "$unset", "$replaceWith", "$project", "$addFields")
            return [{rng.choice(names): self._stage_argument(rng.choice(names), 1)} for _ in range(2)]
        return {
            name: {rng.choice(PATHS): self._change(name) for _ in range(rng.choice((1, 1, 2)))}
            for name in rng.sample(UPDATE_OPERATORS, rng.choice((1, 1, 2)))
        }

    def _change(self, operator: str) -> Any:
        rng = self._rng
        if operator in ("$push", "$addToSet") and rng.random() < 0.6:
            modifiers: Document = {
                "$each": rng.choice(([1, 2], [], [self.value()], 1)),
                "$slice": rng.choice((1, -1, 0, 1.5, "x", Int64(2**63 - 1), Int64(-(2**63)))),
                "$position": rng.choice((0, -1, 100, "x", 0.5, Int64(2**63 - 1))),
                "$sort": rng.choice((1, -1, {"a": 1}, {"": 1}, {"a.b": -1}, 0, "x", {})),
                "$nothing": 1,
            }
            return {name: modifiers[name] for name in rng.sample(list(modifiers), rng.randrange(1, 5))}
        if operator == "$pull":
            return rng.choice((self.value(), self._condition(1), self.filter(1)))
        if operator == "$bit":
            return {rng.choice(("and", "or", "xor", "not")): rng.choice(SCALARS)}
        if operator == "$rename":
            return rng.choice((*PATHS, 1))
        if operator == "$currentDate":
            return rng.choice((True, False, {"$type": "timestamp"}, {"$type": "x"}, 1))
        return self.value()
