# ruff: noqa: E501 - tables of cases
"""Expressions to compare: every operator with every type, every arity, and named arguments one by one."""

from collections.abc import Iterator
from typing import Any, Final

from bson import Binary, DatetimeMS, Decimal128, Int64, ObjectId, Regex, Timestamp

from tailrace.bson.values import Undefined
from tests.oracle.queries.values import NUMBERS, ONE_OF_EACH, VALUES, each

UNARY: Final = (
    "$abs", "$acos", "$acosh", "$asin", "$asinh", "$atan", "$atanh", "$ceil", "$cos", "$cosh",
    "$degreesToRadians", "$exp", "$floor", "$ln", "$log10", "$radiansToDegrees", "$sin", "$sinh", "$sqrt",
    "$tan", "$tanh", "$allElementsTrue", "$anyElementTrue", "$arrayToObject", "$objectToArray", "$avg", "$max",
    "$min", "$stdDevPop", "$stdDevSamp", "$sum", "$binarySize", "$bsonSize", "$dateToParts", "$dayOfMonth",
    "$dayOfWeek", "$dayOfYear", "$hour", "$isoDayOfWeek", "$isoWeek", "$isoWeekYear", "$millisecond", "$minute",
    "$month", "$second", "$week", "$year", "$tsSecond", "$tsIncrement", "$first", "$last", "$isArray",
    "$isNumber", "$mergeObjects", "$not", "$and", "$or", "$reverseArray", "$size", "$strLenBytes", "$strLenCP",
    "$toBool", "$toDate", "$toDecimal", "$toDouble", "$toInt", "$toLong", "$toLower", "$toObjectId", "$toString",
    "$toUpper", "$type", "$add", "$multiply", "$concat", "$concatArrays", "$setUnion", "$setIntersection",
    "$ifNull", "$round", "$trunc", "$toHashedIndexKey", "$literal", "$const", "$setEquals",
)  # fmt: skip
BINARY: Final = (
    "$add", "$subtract", "$multiply", "$divide", "$mod", "$pow", "$log", "$atan2", "$round", "$trunc", "$eq",
    "$ne", "$gt", "$gte", "$lt", "$lte", "$cmp", "$and", "$or", "$concat", "$concatArrays", "$arrayElemAt",
    "$in", "$indexOfArray", "$indexOfBytes", "$indexOfCP", "$range", "$setDifference", "$setEquals",
    "$setIntersection", "$setIsSubset", "$setUnion", "$slice", "$split", "$strcasecmp", "$ifNull",
    "$mergeObjects", "$sum", "$avg", "$max", "$min", "$stdDevPop", "$stdDevSamp",
)  # fmt: skip


def of_one_value() -> Iterator[tuple[Any, Any]]:
    """Each operator with each value: the expression, and the value of its field `v`."""
    for name in UNARY:
        for value in VALUES:
            yield {name: "$v"}, value
        yield {name: "$missing"}, 1
        yield {name: []}, 1
        yield {name: [1, 2, 3, 4]}, 1
        yield {name: ["$v"]}, [1, 2]
        for value in each(None, 1, "x", [], Undefined()):
            yield {name: {"$literal": value}}, 1


def of_two_values() -> Iterator[tuple[Any, Any, Any]]:
    """Each operator with pairs of values: the expression, and the values of its fields `v` and `w`."""
    for name in BINARY:
        for one in ONE_OF_EACH:
            for other in ONE_OF_EACH:
                yield {name: ["$v", "$w"]}, one, other
                yield {name: [{"$literal": one}, "$w"]}, one, other
                yield {name: ["$v", {"$literal": other}]}, one, other
            yield {name: ["$v", "$missing"]}, one, 0
            yield {name: ["$missing", "$v"]}, one, 0
            yield {name: [{"$literal": one}, "$missing"]}, one, 0
            yield {name: ["$missing", {"$literal": one}]}, one, 0
        if name in ("$add", "$subtract", "$multiply", "$divide", "$mod", "$pow", "$log", "$cmp", "$atan2"):
            for one in NUMBERS:
                for other in NUMBERS:
                    yield {name: ["$v", "$w"]}, one, other


_DATE: Final = DatetimeMS(1582934523456)
_ZONES: Final = (
    "UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "+05:30", "-0330", "+07", "GMT", "EST", "Nope/Nope",
    "", "+25:00", "+1", "Etc/GMT+5", "europe/berlin", 5, None,
)  # fmt: skip
_UNITS: Final = (
    "year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond", "years", "", 5, None, "$missing",
)  # fmt: skip
_FORMATS: Final = (
    "%Y-%m-%d %H:%M:%S.%L", "%G-W%V-%u", "%j %U %w", "%z %Z", "%%", "%", "%q", "", "abc", "%Y%m%dT%H%M%S%LZ",
    5, None, "%d/%m/%Y", "%Y-%m-%dT%H:%M:%S%z", "%e",
)  # fmt: skip
_DATE_TEXTS: Final = (
    "2020-02-29", "2020-02-29T01:02:03", "2020-02-29T01:02:03Z", "2020-02-29T01:02:03.4567+05:30", "2020-02-30",
    "20200229", "2020-060", "2020-W09-6", "Feb 29 2020", "29 February 2020 10:00 pm", "tomorrow", "", "x", "12:30",
    "2020-02-29 01:02:03 Europe/Berlin", "1/2/2020", "2020/01/02", "@1500000000", "2020-02-29T24:00:00Z",
    "2020-13-01", "0001-01-01", "9999-12-31T23:59:59.999Z", "2020-02-29T01:02:03 EST", 5, None, "2020-06-15",
)  # fmt: skip


def with_dates() -> Iterator[Any]:
    """Dates with time zones, units, formats and texts, over a document with a date `d`."""
    unit: Any
    for zone in _ZONES:
        for name in each("$hour", "$dayOfMonth", "$isoWeek", "$dayOfYear", "$dayOfWeek"):
            yield {name: {"date": "$d", "timezone": zone}}
        yield {"$dateToParts": {"date": "$d", "timezone": zone}}
        yield {"$dateToParts": {"date": "$d", "timezone": zone, "iso8601": True}}
        yield {"$dateToString": {"date": "$d", "timezone": zone, "format": "%Y-%m-%dT%H:%M:%S.%L%z %Z"}}
        yield {"$dateToString": {"date": "$d", "timezone": zone}}
        yield {"$dateFromParts": {"year": 2020, "month": 7, "day": 31, "hour": 25, "timezone": zone}}
        yield {"$dateFromString": {"dateString": "2020-07-01T10:00:00", "timezone": zone}}
        yield {"$dateFromString": {"dateString": "2020-07-01T10:00:00Z", "timezone": zone}}
        for unit in _UNITS[:9]:
            yield {"$dateAdd": {"startDate": "$d", "unit": unit, "amount": 5, "timezone": zone}}
            yield {"$dateTrunc": {"date": "$d", "unit": unit, "binSize": 2, "timezone": zone}}
            yield {"$dateDiff": {"startDate": "$d", "endDate": "$e", "unit": unit, "timezone": zone}}
    for unit in _UNITS:
        for amount in each(0, 1, -1, Int64(10), 1.0, 1.5, "x", None, Decimal128("3"), Int64(2**62), 10**9):
            yield {"$dateAdd": {"startDate": "$d", "unit": unit, "amount": amount}}
            yield {"$dateSubtract": {"startDate": "$d", "unit": unit, "amount": amount}}
            yield {"$dateTrunc": {"date": "$d", "unit": unit, "binSize": amount}}
            yield {"$dateTrunc": {"date": "$early", "unit": unit, "binSize": amount}}
        for start in each("mon", "Sunday", "FRI", "x", 5, None, "$missing"):
            yield {"$dateTrunc": {"date": "$d", "unit": unit, "startOfWeek": start}}
            yield {"$dateDiff": {"startDate": "$d", "endDate": "$e", "unit": unit, "startOfWeek": start}}
        yield {"$dateDiff": {"startDate": "$e", "endDate": "$d", "unit": unit}}
        yield {"$dateDiff": {"startDate": "$early", "endDate": "$late", "unit": unit}}
        yield {"$dateDiff": {"startDate": "$t", "endDate": "$o", "unit": unit}}
    for layout in _FORMATS:
        for date in each("$d", "$early", "$late", "$t", "$o", "$s", "$missing", None):
            yield {"$dateToString": {"date": date, "format": layout}}
            yield {"$dateToString": {"date": date, "format": layout, "onNull": "none"}}
        for text in _DATE_TEXTS:
            yield {"$dateFromString": {"dateString": text, "format": layout}}
    for text in _DATE_TEXTS:
        yield {"$dateFromString": {"dateString": text}}
        yield {"$dateFromString": {"dateString": text, "onError": "bad", "onNull": "none"}}
        yield {"$dateFromString": {"dateString": text, "timezone": "America/New_York"}}
        yield {"$toDate": text}
    for name, bad in (
        ("year", 0),
        ("year", 10000),
        ("month", 13),
        ("month", -5),
        ("month", 40000),
        ("day", 0),
    ):
        yield {"$dateFromParts": {"year": 2020, name: bad}}
    for value in ONE_OF_EACH:
        yield {"$dateFromParts": {"year": {"$literal": value}}}
        yield {"$dateFromParts": {"year": 2020, "millisecond": {"$literal": value}}}
        yield {"$dateFromParts": {"isoWeekYear": 2020, "isoWeek": {"$literal": value}}}
        yield {"$dateToParts": {"date": "$d", "iso8601": {"$literal": value}}}
        yield {"$dateDiff": {"startDate": {"$literal": value}, "endDate": "$e", "unit": "day"}}
        yield {"$dateAdd": {"startDate": {"$literal": value}, "amount": 1, "unit": "day"}}
        yield {"$dateTrunc": {"date": {"$literal": value}, "unit": "day"}}
        yield {"$dateToString": {"date": {"$literal": value}}}
        yield {"$dateFromString": {"dateString": {"$literal": value}}}
        for name in each(
            "$dateAdd",
            "$dateSubtract",
            "$dateDiff",
            "$dateTrunc",
            "$dateToString",
            "$dateFromString",
        ):
            yield {name: {"$literal": value}}
            yield {name: value} if not isinstance(value, str) else {name: []}
    for name in each("$dateAdd", "$dateSubtract", "$dateDiff", "$dateTrunc", "$dateToString", "$dateFromString",
                 "$dateFromParts", "$dateToParts"):  # fmt: skip
        yield {name: {}}
        yield {name: {"nope": 1}}
        yield {name: {"date": "$d"}}
        yield {name: {"startDate": "$d", "unit": "day"}}
        yield {name: {"startDate": "$d", "amount": 1}}
        yield {name: {"date": "$d", "unit": "day", "nope": 1}}
    yield {"$dateFromParts": {"year": 2020, "isoWeek": 5}}
    yield {"$dateFromParts": {"isoWeekYear": 2020, "isoWeek": 53, "isoDayOfWeek": 8, "hour": -1}}
    yield {"$dateFromParts": {"isoWeekYear": 2020, "isoDayOfWeek": 0}}
    for one in each(
        "$d", "$early", "$t", "$o", 5, 2.5, Decimal128("1.5"), Int64(2**62), "x", None, "$missing"
    ):
        for other in each("$d", "$late", 5, 2.5, Decimal128("1.5"), Int64(-(2**62)), "x", None, "$missing"):
            yield {"$add": [one, other]}
            yield {"$subtract": [one, other]}
            yield {"$add": [one, other, 1]}


DATED: Final = {
    "_id": 1, "d": _DATE, "e": DatetimeMS(1_700_000_000_000), "early": DatetimeMS(-62135596800000),
    "late": DatetimeMS(253402300799999), "t": Timestamp(1_600_000_000, 3), "s": "2020-02-29",
    "o": ObjectId("507f1f77bcf86cd799439011"),
}  # fmt: skip


def with_texts() -> Iterator[Any]:
    """Texts, regular expressions and conversions."""
    texts = ("", "abc", "aXbXc", "日本語", "é\U0001d11eé", "aaa", "a\nb", None, 5)
    for text in texts:
        literal = {"$literal": text}
        for find in each("", "a", "X", "本", "aa", None, 5, "語"):
            yield {"$split": [literal, find]}
            for name in each("$indexOfBytes", "$indexOfCP"):
                yield {name: [literal, find]}
                for start in each(0, 1, 2, -1, 10, 1.0, 1.5, "x", None):
                    yield {name: [literal, find, start]}
                    yield {name: [literal, find, start, 2]}
                    yield {name: [literal, find, 0, start]}
            for name in each("$replaceOne", "$replaceAll"):
                yield {name: {"input": literal, "find": find, "replacement": "-"}}
                yield {name: {"input": literal, "find": find, "replacement": find}}
            for name in each("$trim", "$ltrim", "$rtrim"):
                yield {name: {"input": literal}}
                yield {name: {"input": literal, "chars": find}}
        for name in each("$substr", "$substrBytes", "$substrCP"):
            for start in each(0, 1, 2, -1, 10, 1.0, 1.5, "x", None, Int64(1), Decimal128("1")):
                for count in each(0, 1, 2, -1, 100, "x", None, 1.5):
                    yield {name: [literal, start, count]}
        for regex in each("", "a", "^A", "(a)(b)?(c)", "(?<n>a)", "[", "本", "$", "\\w+", None, 5, Regex("A", "i"),
                      Regex("b", "mx")):  # fmt: skip
            for name in each("$regexFind", "$regexFindAll", "$regexMatch"):
                yield {name: {"input": literal, "regex": regex}}
                for options in each("i", "imsx", "q", "", None, 5, "g", "u"):
                    yield {name: {"input": literal, "regex": regex, "options": options}}
    for name in each(
        "$regexFind",
        "$regexFindAll",
        "$regexMatch",
        "$replaceOne",
        "$replaceAll",
        "$trim",
        "$split",
    ):
        for spec in each({}, {"nope": 1}, {"input": "a"}, {"regex": "a"}, {"input": "a", "regex": "a", "x": 1}, [], 5,
                     "x", {"input": "a", "find": "a"}, {"input": 5}, {"find": "a", "replacement": "b"}):  # fmt: skip
            yield {name: spec}
    for value in VALUES:
        if isinstance(value, bytes):
            continue  # binary data converts since 8.0
        for kind in each("double", "string", "objectId", "bool", "date", "int", "long", "decimal", "array",
                     "object", "nope", 1, 2, 16, 18.0, 1.5, -1, 127, None, True):  # fmt: skip
            yield {"$convert": {"input": {"$literal": value}, "to": kind, "onError": "bad", "onNull": "none"}}
        yield {"$convert": {"input": {"$literal": value}, "to": "string"}}
        if value != 5:
            yield {"$convert": {"input": 5, "to": {"$literal": value}}}
    for spec in each({}, {"input": 1}, {"to": 1}, {"input": 1, "to": "int", "x": 1}, 5, [], "x"):
        yield {"$convert": spec}
    for text in each("1", "-1", "+1", " 1", "1 ", "1.0", "1e3", "0x10", "-0x10", "nan", "NaN", "inf", "Infinity", "-Infinity",
                 "9223372036854775807", "9223372036854775808", "2147483648", ".5", "5.", "1_000", "1,5", "٣",
                 "1E400", "1E-400", "0b1", "true", "0.1234567890123456789012345678901234567"):  # fmt: skip
        for name in each("$toInt", "$toLong", "$toDouble", "$toDecimal", "$toBool", "$toObjectId", "$toDate"):
            yield {name: text}
    for name in each("$strcasecmp", "$toLower", "$toUpper", "$strLenCP", "$strLenBytes"):
        for text in each("ÉÀ", "ß", "ǅ", "İ", "ΑΣ", "\U00010400"):
            yield {name: [text, "É"] if name == "$strcasecmp" else text}


def with_arrays() -> Iterator[Any]:
    """Arrays, documents, variables and conditions, over a document with values under short names."""
    arrays = ("$a", "$n", "$docs", "$mixed", "$none", "$missing", "$five", "$nested")
    for array in arrays:
        for index in each(0, 1, -1, 5, -5, 1.0, 1.5, "x", None, Int64(2**40), "$missing", Decimal128("1")):
            yield {"$arrayElemAt": [array, index]}
            yield {"$slice": [array, index]}
            for count in each(1, 2, 0, -1, "x", None, 1.5):
                yield {"$slice": [array, index, count]}
            yield {"$indexOfArray": [array, index]}
            yield {"$indexOfArray": [array, 2, index]}
            yield {"$indexOfArray": [array, 2, 0, index]}
            yield {"$in": [index, array]}
            for name in each("$firstN", "$lastN", "$maxN", "$minN"):
                yield {name: {"input": array, "n": index}}
        for sort in each(
            1,
            -1,
            0,
            2,
            {"k": 1},
            {"k": -1, "v": 1},
            {},
            "x",
            None,
            {"k": 5},
            {"a.b": 1},
            1.0,
            True,
        ):
            yield {"$sortArray": {"input": array, "sortBy": sort}}
        yield {"$map": {"input": array, "in": "$$this"}}
        yield {"$map": {"input": array, "as": "x", "in": ["$$x", "$five"]}}
        yield {"$map": {"input": array, "as": "x", "in": "$$x.k"}}
        yield {"$filter": {"input": array, "cond": {"$gt": ["$$this", 1]}}}
        for limit in each(1, 0, -1, 1.0, 1.5, "x", None, "$missing", Int64(2**40)):
            yield {"$filter": {"input": array, "cond": True, "limit": limit}}
        yield {
            "$reduce": {"input": array, "initialValue": [], "in": {"$concatArrays": ["$$value", ["$$this"]]}}
        }
        yield {"$reduce": {"input": array, "initialValue": 0, "in": {"$add": ["$$value", 1]}}}
        for other in arrays:
            for name in each("$setUnion", "$setIntersection", "$setDifference", "$setEquals", "$setIsSubset",
                         "$concatArrays", "$zip"):  # fmt: skip
                pair = [array, other]
                yield {name: {"inputs": pair} if name == "$zip" else pair}
            yield {"$zip": {"inputs": [array, other], "useLongestLength": True}}
            yield {"$zip": {"inputs": [array, other], "useLongestLength": True, "defaults": [0, "d"]}}
            yield {"$mergeObjects": [array, other]}
        for path in each(f"{array}.k", f"{array}.0", f"{array}.k.z", f"{array}.0.k"):
            yield path
            yield {"$type": path}
            yield [path]
            yield {"x": path}
            yield {"$ifNull": [path, "d"]}
            yield {"$ifNull": [path, "$missing", "$five"]}
    for spec in each({}, 5, [], "x", {"input": [1]}, {"in": 1}, {"input": "$a", "in": "$$nope"},
                 {"input": "$a", "as": "X", "in": 1}, {"input": "$a", "as": "1x", "in": 1},
                 {"input": "$a", "as": "", "in": 1}, {"input": "$a", "in": 1, "nope": 1},
                 {"input": "$a", "cond": 1, "nope": 1}, {"input": "$a", "initialValue": 1},
                 {"inputs": []}, {"inputs": 5}, {"inputs": ["$a"], "defaults": [1]},
                 {"inputs": ["$a"], "useLongestLength": 1}, {"input": "$a", "sortBy": 1, "x": 1}, {"n": 1},
                 {"input": "$a"}, {"vars": {}, "in": 1}, {"vars": 5, "in": 1}, {"vars": {"x": 1}},
                 {"vars": {"X": 1}, "in": 1}, {"vars": {"x": 1}, "in": "$$x", "y": 1}, {"branches": []},
                 {"branches": [{}]}, {"branches": [{"case": 1}]}, {"branches": [{"then": 1}]}, {"branches": 5},
                 {"branches": [{"case": False, "then": 1}]}, {"branches": [{"case": 1, "then": 1, "x": 1}]},
                 {"branches": [{"case": 1, "then": 1}], "default": 2, "x": 1}, {"if": 1}, {"if": 1, "then": 1},
                 {"if": 1, "then": 1, "else": 1, "x": 1}, {"then": 1, "else": 1}, {"field": "a"},
                 {"field": 5, "input": "$doc"}, {"field": "$five", "input": "$doc"}, {"input": "$doc"},
                 {"field": "a", "input": "$doc", "value": 1}, {"field": "a", "input": 5, "value": 1},
                 {"field": "a.b", "input": "$doc", "value": "$$REMOVE"}, {"field": "k", "input": "$missing"},
                 {"field": {"$literal": "$x"}, "input": "$doc"}, {"field": {"$concat": ["k"]}, "input": "$doc"},
                 {"field": "k", "input": None}, {"field": "k", "input": 5}, {"field": None, "input": "$doc"}):  # fmt: skip
        for name in each("$map", "$filter", "$reduce", "$zip", "$sortArray", "$firstN", "$let", "$switch", "$cond",
                     "$getField", "$setField", "$unsetField", "$maxN"):  # fmt: skip
            yield {name: spec}
    for start in each(0, 1, -3, 1.0, 1.5, "x", None, Int64(2**40)):
        for end in each(3, -3, 1.5, None, 0):
            yield {"$range": [start, end]}
            for step in each(1, -1, 2, 0, 1.5, "x", None):
                yield {"$range": [start, end, step]}
    for spec in each(["$a"], "$a", "$docs", "$pairs", "$kv", [["a", 1], ["a", 2]], [[["a", 1]]], [[1, 2]], [["a"]],
                 [[{"k": "a"}]], [[{"k": "a", "v": 1, "x": 1}]], [[{"v": 1, "k": "z"}]], [[{"k": 1, "v": 1}]],
                 [[["a", 1], {"k": "b", "v": 1}]], [[{"k": "b", "v": 1}, ["a", 1]]], [[["a\0b", 1]]],
                 [{"$literal": []}], None, 5, [[{"k": "", "v": 1}]]):  # fmt: skip
        yield {"$arrayToObject": spec}
    for value in ONE_OF_EACH:
        literal = {"$literal": value}
        yield {"$cond": [literal, 1, 2]}
        yield {"$cond": {"if": literal, "then": "$missing", "else": "$five"}}
        yield {"$switch": {"branches": [{"case": literal, "then": 1}], "default": 2}}
        yield {"$switch": {"branches": [{"case": literal, "then": 1}]}}
        yield {"$let": {"vars": {"x": literal}, "in": {"$type": "$$x"}}}
        yield {"$mergeObjects": ["$doc", literal]}
        yield {"$objectToArray": literal}
        yield {"$getField": {"field": "k", "input": literal}}
        yield {"$setField": {"field": "k", "input": "$doc", "value": literal}}
        yield {"$setField": {"field": "k", "input": literal, "value": 1}}
        yield {"$not": [literal]}
        yield {"$and": [literal, "$five"]}
        yield {"$or": [literal, "$none"]}
        yield {"$size": literal}
        yield (
            {"$rand": value if not isinstance(value, str) else {}} if value not in ([], {}) else {"$rand": 1}
        )
        yield {"$bsonSize": literal}
        yield {"$meta": value}
        yield {"$sampleRate": value}
        yield literal
        yield {"k": literal, "n": {"m": literal}}
        yield [literal, "$missing", "$$REMOVE"]
    for name in each(
        "$ifNull",
        "$cond",
        "$let",
        "$literal",
        "$mergeObjects",
        "$not",
        "$and",
        "$or",
        "$eq",
        "$in",
        "$slice",
    ):
        for count in range(5):
            yield {name: ["$five"] * count}
    for path in each("$$ROOT.doc", "$$CURRENT.five", "$$NOPE", "$$nope", "$$REMOVE", "$$", "$", "$a.", "$.a", "$a..b", "$a.$b",
                 "$$ROOT.", "$$NOW.x", "$a\0b", "$$ROOT.a.k", "$$KEEP", "$$DESCEND", "$$USER_ROLES",
                 "$$JS_SCOPE", "$$IS_MR", "$$CLUSTER_TIME.x"):  # fmt: skip
        yield path
        yield {"x": path}
        yield {"$type": path}
    for spec in each({"$add": 1, "x": 1}, {"x": 1, "$add": 1}, {"a.b": 1}, {"": 1}, {"x": {"$nope": 1}}, {"$": 1},
                 {"a": {}, "b": []}, [], [[]], {}, {"$literal": {"$x": 1}}, {"x": {"y": "$missing"}}):  # fmt: skip
        yield spec
    for where in each(
        "textScore",
        "indexKey",
        "recordId",
        "sortKey",
        "randVal",
        "searchScore",
        "geoNearDistance",
        "nope",
        5,
    ):
        yield {"$meta": where}
    yield {"$binarySize": Binary(b"abc", 5)}


NAMED: Final = {
    "_id": 1, "a": [1, 2, 3, 2], "n": [[1, 2], [3]], "docs": [{"k": 2, "v": 1}, {"k": 1, "v": 2}, {"v": 0}],
    "mixed": [1, "a", None, 2.5, {"k": [1]}, [1]], "none": None, "five": 5, "doc": {"k": 1, "a.b": 2, "$x": 3},
    "nested": {"k": {"z": [1, {"z": 2}]}, "0": "zero"}, "pairs": [["x", 1], ["y", 2]],
    "kv": [{"k": "x", "v": 1}, {"k": "y", "v": None}],
}  # fmt: skip
