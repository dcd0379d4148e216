"""The matching rules of the unified format.

Numbers of different types match if their values are equal. Only a document at the root may have more fields
than expected; `$$` operators allow other values.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from bson import Binary, Code, DBRef, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp

from tailrace.spectest.outcome import Mismatch, Unsupported

MISSING: Final = object()

_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "double": (float,),
    "string": (str,),
    "object": (Mapping,),
    "array": (list,),
    "binData": (bytes, Binary, UUID),
    "objectId": (ObjectId,),
    "bool": (bool,),
    "date": (datetime,),
    "null": (type(None),),
    "regex": (Regex,),
    "dbPointer": (DBRef,),
    "javascript": (Code,),
    "int": (int,),
    "long": (int, Int64),
    "timestamp": (Timestamp,),
    "decimal": (Decimal128,),
    "minKey": (MinKey,),
    "maxKey": (MaxKey,),
}


def check_unified(expected: Any, actual: Any, place: str = "it", *, is_root: bool = True) -> None:
    """Raise `Mismatch` unless ``actual`` matches ``expected``.

    >>> check_unified({"a": {"$$exists": True}, "b": {"c": 1}}, {"a": 0, "b": {"c": 1.0}, "d": 3})
    >>> check_unified({"b": {"c": 1}}, {"b": {"c": 1, "d": 2}})
    Traceback (most recent call last):
    tailrace.spectest.outcome.Mismatch: it.b.d is not expected
    """
    if _is_operator(expected):
        ((operator, operand),) = expected.items()
        _check_operator(operator, operand, actual, place, is_root=is_root)
    elif actual is MISSING:
        raise Mismatch(f"{place} is missing")
    elif isinstance(expected, Mapping):
        _check_document(expected, actual, place, is_root=is_root)
    elif isinstance(expected, list):
        if not isinstance(actual, Sequence) or isinstance(actual, str | bytes):
            raise Mismatch(f"{place} is {actual!r}, not an array")
        if len(actual) != len(expected):
            raise Mismatch(f"{place} has {len(actual)} elements, not {len(expected)}")
        for index, (wanted, found) in enumerate(zip(expected, actual, strict=True)):
            check_unified(wanted, found, f"{place}[{index}]", is_root=False)
    elif isinstance(expected, bool) != isinstance(actual, bool) or expected != actual:
        raise Mismatch(f"{place} is {actual!r}, not {expected!r}")


def _is_operator(expected: Any) -> bool:
    return isinstance(expected, Mapping) and len(expected) == 1 and next(iter(expected)).startswith("$$")


def _check_document(expected: Mapping[str, Any], actual: Any, place: str, *, is_root: bool) -> None:
    if not isinstance(actual, Mapping):
        raise Mismatch(f"{place} is {actual!r}, not a document")
    for name, value in expected.items():
        check_unified(value, actual.get(name, MISSING), f"{place}.{name}", is_root=False)
    if not is_root:
        for name in actual:
            if name not in expected:
                raise Mismatch(f"{place}.{name} is not expected")


def _check_operator(operator: str, operand: Any, actual: Any, place: str, *, is_root: bool) -> None:
    match operator:
        case "$$exists":
            if operand and actual is MISSING:
                raise Mismatch(f"{place} is missing")
            if not operand and actual is not MISSING:
                raise Mismatch(f"{place} is {actual!r}, and should not be there")
        case "$$unsetOrMatches":
            if actual is not MISSING and actual is not None:
                check_unified(operand, actual, place, is_root=is_root)
        case "$$type":
            names = [operand] if isinstance(operand, str) else operand
            if actual is MISSING or not any(_is_of_type(actual, name) for name in names):
                raise Mismatch(f"{place} is not of type {' or '.join(names)}")
        case _:
            raise Unsupported(f"the operator {operator} is not known")


def _is_of_type(actual: Any, name: str) -> bool:
    if name not in _TYPES:
        raise Unsupported(f"the type {name} is not known")
    if isinstance(actual, bool) and name != "bool":
        return False
    return isinstance(actual, _TYPES[name])
