"""Operators that read or build arrays, without binding variables."""

from collections.abc import Callable, Iterable
from typing import Any, Final

from tailrace.bson.values import is_string
from tailrace.errors import CommandError
from tailrace.pacing import pieces, ticking
from tailrace.query.expressions.arguments import (
    Law,
    between,
    binary,
    parse_between,
    parse_exactly,
    unary,
    variadic,
)
from tailrace.query.expressions.numbers.number_types import int32_value
from tailrace.query.expressions.operands import compare, is_nullish, is_number, type_name
from tailrace.query.expressions.scope import (
    Constant,
    Environment,
    Expression,
    ExpressionScope,
    OperatorParser,
)
from tailrace.query.missing import MISSING
from tailrace.query.placed import elements_of
from tailrace.unused import freed_in_pieces

# MongoDB refuses a $range that would take more than 100 MB, 16 bytes a number.
_MAX_ELEMENTS: Final = 100 * 1024 * 1024 // 16
_EXCEEDED_MEMORY_LIMIT: Final = 146
_COPIED_AT_ONCE: Final = 20_000


def array_elem_at(array: Any, index: Any) -> Any:
    """The element at a position, from the end if negative; `MISSING` outside of the array."""
    if is_nullish(array) or is_nullish(index):
        return None
    if not isinstance(array, list):
        raise CommandError(
            28689, f"$arrayElemAt's first argument must be an array, but is {type_name(array)}"
        )
    position = _int32_argument("$arrayElemAt's second argument", index, not_number=28690, not_int32=28691)
    elements = elements_of(array)
    return elements[position] if -len(elements) <= position < len(elements) else MISSING


def _int32_argument(what: str, value: Any, *, not_number: int, not_int32: int) -> int:
    if not is_number(value):
        raise CommandError(not_number, f"{what} must be numeric, but is {type_name(value)}")
    number = int32_value(value)
    if number is None:
        raise CommandError(not_int32, f"{what} must be representable as a 32-bit integer, but is {value}")
    return number


def _end(name: str, position: int) -> OperatorParser:
    def apply(array: Any) -> Any:
        if is_nullish(array):
            return None
        if not isinstance(array, list):
            raise CommandError(28689, f"{name}'s argument must be an array, but is {type_name(array)}")
        return array[position] if array else MISSING

    return unary(apply)


def concat_arrays(arrays: Iterable[Any]) -> list[Any] | None:
    result: list[Any] = []
    for array in arrays:
        if is_nullish(array):
            return None
        if not isinstance(array, list):
            raise CommandError(28664, f"$concatArrays only supports arrays, not {type_name(array)}")
        if len(result) + len(array) > _MAX_ELEMENTS:
            raise CommandError(_EXCEEDED_MEMORY_LIMIT, "$concatArrays would exceed the memory limit")
        for piece in pieces(array, _COPIED_AT_ONCE):
            result += piece
    return freed_in_pieces(result)


def _parse_in(name: str, spec: Any, scope: ExpressionScope) -> Expression:
    needle, haystack = parse_exactly(2, name, spec, scope)
    string_key = scope.string_key

    def contains(env: Environment) -> bool:
        value, array = needle(env), haystack(env)
        if not isinstance(array, list):
            raise CommandError(
                40081, f"{name} requires an array as a second argument, found: {type_name(array)}"
            )
        return any(compare(value, item, string_key) == 0 for item in ticking(array))

    return contains


def _parse_index_of_array(name: str, spec: Any, scope: ExpressionScope) -> Expression:
    expressions = parse_between(2, 4, name, spec, scope)
    string_key = scope.string_key
    first, *others = expressions
    if isinstance(first, Constant) and not (is_nullish(first.value) or isinstance(first.value, list)):
        # MongoDB prepares a search in a constant array, unless the whole expression is constant.
        code = 40090 if all(isinstance(other, Constant) for other in others) else 50809
        raise CommandError(code, f"First operand of {name} must be an array, is {type_name(first.value)}")

    def find(env: Environment) -> int | None:
        array, value, *bounds = (expression(env) for expression in expressions)
        if is_nullish(array):
            return None
        if not isinstance(array, list):
            raise CommandError(
                40090, f"{name} requires an array as a first argument, found: {type_name(array)}"
            )
        start, end = search_bounds(name, bounds, len(array))
        for position in ticking(range(start, end)):
            if compare(array[position], value, string_key) == 0:
                return position
        return -1

    return find


def search_bounds(name: str, bounds: list[Any], length: int) -> tuple[int, int]:
    """The start and end of a search, from the optional arguments of the `$indexOf` operators."""
    numbers = []
    for role, bound in zip(("starting", "ending"), bounds, strict=False):
        number = int32_value(bound)
        if number is None:
            raise CommandError(40096, f"{name} requires an integral {role} index, found {type_name(bound)}")
        if number < 0:
            raise CommandError(40097, f"{name} requires a nonnegative {role} index, found: {number}")
        numbers.append(number)
    start = numbers[0] if numbers else 0
    end = numbers[1] if len(numbers) > 1 else length
    return start, min(end, length)


def make_range(start: Any, end: Any, step: Any = 1) -> list[int]:
    """The integers from one up to but not including another."""
    first = _int32_argument("$range's starting value", start, not_number=34443, not_int32=34444)
    last = _int32_argument("$range's ending value", end, not_number=34445, not_int32=34446)
    stride = _int32_argument("$range's step value", step, not_number=34447, not_int32=34448)
    if stride == 0:
        raise CommandError(34449, "$range requires a non-zero step value")
    numbers = range(first, last, stride)
    if len(numbers) > _MAX_ELEMENTS:
        raise CommandError(
            _EXCEEDED_MEMORY_LIMIT, f"$range would exceed the memory limit: {len(numbers)} numbers"
        )
    found: list[int] = freed_in_pieces([], len(numbers))
    for piece in pieces(numbers, _COPIED_AT_ONCE):
        found += piece
    return found


def reverse_array(array: Any) -> list[Any] | None:
    if is_nullish(array):
        return None
    if not isinstance(array, list):
        raise CommandError(
            34435, f"The argument to $reverseArray must be an array, but was of type: {type_name(array)}"
        )
    return freed_in_pieces(array[::-1])


def size(array: Any) -> int:
    if not isinstance(array, list):
        raise CommandError(
            17124, f"The argument to $size must be an array. Currently is of type: {type_name(array)}"
        )
    return len(elements_of(array))


def slice_array(array: Any, second: Any, *third: Any) -> list[Any] | None:
    """``[array, n]``: the first n, or the last if negative; ``[array, position, n]``: n from a position."""
    if is_nullish(array) or is_nullish(second):
        return None
    if not isinstance(array, list):
        raise CommandError(
            28724, f"First argument to $slice must be an array, but is of type: {type_name(array)}"
        )
    position = _int32_argument("Second argument to $slice", second, not_number=28725, not_int32=28726)
    if not third:
        return array[:position] if position >= 0 else array[position:]
    start = max(len(array) + position, 0) if position < 0 else position
    if is_nullish(third[0]):
        return None
    count = _int32_argument("Third argument to $slice", third[0], not_number=28727, not_int32=28728)
    if count <= 0:
        raise CommandError(28729, f"Third argument to $slice must be positive: {count}")
    return array[start : start + count]


def array_to_object(array: Any) -> dict[str, Any] | None:
    """A document from ``[key, value]`` pairs or ``{k, v}`` documents; of equal keys the last one is used."""
    if is_nullish(array):
        return None
    if not isinstance(array, list):
        raise CommandError(40386, f"$arrayToObject requires an array input, found: {type_name(array)}")
    if not array:
        return {}
    read: Callable[[Any], tuple[str, Any]]
    if isinstance(array[0], list):
        read = _read_pair
    elif isinstance(array[0], dict):
        read = _read_entry
    else:
        raise CommandError(40398, f"Unrecognised input type format for $arrayToObject: {type_name(array[0])}")
    return dict(read(item) for item in ticking(array))


def _read_pair(item: Any) -> tuple[str, Any]:
    if not isinstance(item, list):
        raise CommandError(
            40396,
            f"$arrayToObject requires a consistent input format, expected array, found: {type_name(item)}",
        )
    if len(item) != 2:
        raise CommandError(
            40397, f"$arrayToObject requires an array of size 2 arrays, found size: {len(item)}"
        )
    return _checked_key(item[0], not_string=40395, has_null_byte=4940400), item[1]


def _read_entry(item: Any) -> tuple[str, Any]:
    if not isinstance(item, dict):
        raise CommandError(
            40391,
            f"$arrayToObject requires a consistent input format, expected object, found: {type_name(item)}",
        )
    if len(item) != 2:
        raise CommandError(
            40392, f"$arrayToObject requires documents of 'k' and 'v', found {len(item)} fields"
        )
    if "k" not in item or "v" not in item:
        raise CommandError(40393, f"$arrayToObject requires the fields 'k' and 'v', found: {', '.join(item)}")
    return _checked_key(item["k"], not_string=40394, has_null_byte=4940401), item["v"]


def _checked_key(key: Any, *, not_string: int, has_null_byte: int) -> str:
    if not is_string(key):
        raise CommandError(
            not_string, f"$arrayToObject requires a key of type string, found: {type_name(key)}"
        )
    if "\0" in key:
        raise CommandError(has_null_byte, "Key field cannot contain an embedded null byte")
    return key


def object_to_array(document: Any) -> list[dict[str, Any]] | None:
    """The fields of a document as ``{k, v}``."""
    if is_nullish(document):
        return None
    if not isinstance(document, dict):
        raise CommandError(40390, f"$objectToArray requires a document input, found: {type_name(document)}")
    return [{"k": key, "v": value} for key, value in ticking(list(document.items()))]


OPERATORS: Final[dict[str, OperatorParser]] = {
    "$arrayElemAt": binary(array_elem_at),
    "$arrayToObject": unary(array_to_object),
    "$concatArrays": variadic(concat_arrays, Law.ASSOCIATIVE),
    "$first": _end("$first", 0),
    "$in": _parse_in,
    "$indexOfArray": _parse_index_of_array,
    "$isArray": unary(lambda value: isinstance(value, list)),
    "$last": _end("$last", -1),
    "$objectToArray": unary(object_to_array),
    "$range": between(2, 3, make_range),
    "$reverseArray": unary(reverse_array),
    "$size": unary(size),
    "$slice": between(2, 3, slice_array),
}
