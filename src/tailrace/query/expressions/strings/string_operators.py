"""String operators. Those with ``Bytes`` in their name count UTF-8 bytes, those with ``CP`` code points.

Upper and lower case are those of ASCII; collations have no effect.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from tailrace.bson.values import is_string
from tailrace.errors import CommandError
from tailrace.pacing import spend
from tailrace.query.expressions.arguments import (
    Law,
    between,
    binary,
    exactly,
    named_expressions,
    unary,
    variadic,
)
from tailrace.query.expressions.arrays.array_operators import search_bounds
from tailrace.query.expressions.numbers.number_types import int32_value, real
from tailrace.query.expressions.operands import is_nullish, is_number, type_name
from tailrace.query.expressions.scope import Environment, Expression, ExpressionScope, OperatorParser
from tailrace.query.expressions.strings.text import coerced_text
from tailrace.unused import freed_in_pieces

_WHITESPACE: Final = "\0\t\n\v\f\r \u00a0\u1680" + "".join(chr(code) for code in range(0x2000, 0x200B))
_UTF8_CONTINUATION: Final = 0x80
_MAX_LENGTH: Final = 64 << 20
_TOO_LONG: Final = 13548
_COPIED_IN_A_STEP: Final = 16 * 1024


def concat(values: Iterable[Any]) -> str | None:
    texts: list[str] = []
    for value in values:
        if is_nullish(value):
            return None
        if not is_string(value):
            raise CommandError(16702, f"$concat only supports strings, not {type_name(value)}")
        texts.append(value)
    length = sum(map(len, texts))
    _check_length(length)
    if length > _COPIED_IN_A_STEP:
        spend(length // _COPIED_IN_A_STEP)
    return "".join(texts)


def _check_length(length: int) -> None:
    """Refuse a text that exceeds MongoDB's limit."""
    if length > _MAX_LENGTH:
        reason = f"a text of {length} characters would be past the limit of 64MB"
        raise CommandError(_TOO_LONG, reason)


def _case(change: Callable[[bytes], bytes]) -> OperatorParser:
    return unary(lambda value: change(coerced_text(value).encode()).decode())


def compare_ignoring_case(left: Any, right: Any) -> int:
    """-1, 0 or 1."""
    first, second = coerced_text(left).encode().upper(), coerced_text(right).encode().upper()
    return (first > second) - (first < second)


def _index_of(
    name: str, encode: Callable[[str], Any], not_string: int, token_not_string: int
) -> OperatorParser:
    def apply(text: Any, token: Any, *bounds: Any) -> int | None:
        if is_nullish(text):
            return None
        if not is_string(text):
            raise CommandError(
                not_string, f"{name} requires a string as the first argument, found: {type_name(text)}"
            )
        if not is_string(token):
            raise CommandError(
                token_not_string,
                f"{name} requires a string as the second argument, found: {type_name(token)}",
            )
        units = encode(text)
        start, end = search_bounds(name, list(bounds), len(units))
        if name == "$indexOfCP" and start == end < len(units):
            return -1
        return int(units.find(encode(token), start, end))

    return between(2, 4, apply)


def _length(name: str, encode: Callable[[str], Any], code: int) -> OperatorParser:
    def apply(value: Any) -> int:
        if not is_string(value):
            raise CommandError(code, f"{name} requires a string argument, found: {type_name(value)}")
        return len(encode(value))

    return unary(apply)


def substring_bytes(text: Any, start: Any, length: Any) -> str:
    """``length`` bytes from a position, or the rest if it is negative; code points are never cut."""
    data = coerced_text(text).encode()
    for operand, code, role in ((start, 16034, "starting index"), (length, 16035, "length")):
        if not is_number(operand):
            raise CommandError(
                code, f"$substrBytes: {role} must be a numeric type (is BSON type {type_name(operand)})"
            )
    first, count = int(real(start)), int(real(length))
    if first < 0:
        raise CommandError(50752, f"$substrBytes: starting index must be non-negative (got: {first})")
    end = len(data) if count < 0 else min(first + count, len(data))
    if _inside_code_point(data, first):
        raise CommandError(28656, "$substrBytes: Invalid range, starting index is a UTF-8 continuation byte")
    if _inside_code_point(data, end):
        raise CommandError(
            28657, "$substrBytes: Invalid range, ending index is in the middle of a UTF-8 character"
        )
    return data[first:end].decode()


def _inside_code_point(data: bytes, position: int) -> bool:
    return position < len(data) and data[position] & 0xC0 == _UTF8_CONTINUATION


def substring_code_points(text: Any, start: Any, length: Any) -> str:
    characters = coerced_text(text)
    first = _code_point_count("starting index", start, not_number=34450, not_int32=34451)
    count = _code_point_count("length", length, not_number=34452, not_int32=34453)
    for number, code, role in ((count, 34454, "length"), (first, 34455, "starting index")):
        if number < 0:
            raise CommandError(code, f"$substrCP: {role} must be a nonnegative integer, found: {number}")
    return characters[first : first + count]


def _code_point_count(role: str, value: Any, *, not_number: int, not_int32: int) -> int:
    if not is_number(value):
        raise CommandError(
            not_number, f"$substrCP: {role} must be a numeric type (is BSON type {type_name(value)})"
        )
    number = int32_value(value)
    if number is None:
        raise CommandError(
            not_int32, f"$substrCP: {role} cannot be represented as a 32-bit integral value: {value}"
        )
    return number


def split(text: Any, separator: Any) -> list[str] | None:
    if is_nullish(text) or is_nullish(separator):
        return None
    for operand, code, role in ((text, 40085, "first"), (separator, 40086, "second")):
        if not is_string(operand):
            raise CommandError(
                code,
                f"$split requires an expression that evaluates to a string as a {role} argument, "
                f"found: {type_name(operand)}",
            )
    if not separator:
        raise CommandError(40087, "$split requires a non-empty separator")
    parts: list[str] = text.split(separator)
    return freed_in_pieces(parts)


def _trim(strip: Callable[[str, str], str]) -> OperatorParser:
    def parse(name: str, spec: Any, scope: ExpressionScope) -> Expression:
        named = named_expressions(
            name, spec, scope, required={"input": 50695}, optional=("chars",), not_object=50696, unknown=50694
        )
        source, chars = named["input"], named.get("chars", scope.parse(_WHITESPACE))

        def apply(env: Environment) -> str | None:
            text = source(env)
            if is_nullish(text):
                return None
            if not is_string(text):
                raise CommandError(50699, f"{name} requires its input to be a string, got {type_name(text)}")
            unwanted = chars(env)
            if is_nullish(unwanted):
                return None
            if not is_string(unwanted):
                raise CommandError(
                    50700, f"{name} requires 'chars' to be a string, got {type_name(unwanted)}"
                )
            return strip(text, unwanted)

        return apply

    return parse


def _replace(limit: int) -> OperatorParser:
    codes = {"input": 51746, "find": 51745, "replacement": 51744}

    def parse(name: str, spec: Any, scope: ExpressionScope) -> Expression:
        required = {"input": 51749, "find": 51748, "replacement": 51747}
        named = named_expressions(name, spec, scope, required=required, not_object=51751, unknown=51750)

        def apply(env: Environment) -> str | None:
            values = {key: named[key](env) for key in codes}
            for key, code in codes.items():
                if not is_nullish(values[key]) and not is_string(values[key]):
                    raise CommandError(
                        code, f"{name} requires that '{key}' be a string, found: {type_name(values[key])}"
                    )
            if any(is_nullish(value) for value in values.values()):
                return None
            text, find, replacement = values.values()
            if len(replacement) > len(find):
                times = min(text.count(find), limit) if limit > 0 else text.count(find)
                _check_length(len(text) + times * (len(replacement) - len(find)))
            return str(text).replace(find, replacement, limit)

        return apply

    return parse


OPERATORS: Final[dict[str, OperatorParser]] = {
    "$concat": variadic(concat, Law.ASSOCIATIVE),
    "$indexOfBytes": _index_of("$indexOfBytes", str.encode, 40091, 40092),
    "$indexOfCP": _index_of("$indexOfCP", str, 40093, 40094),
    "$ltrim": _trim(str.lstrip),
    "$replaceAll": _replace(-1),
    "$replaceOne": _replace(1),
    "$rtrim": _trim(str.rstrip),
    "$split": binary(split),
    "$strLenBytes": _length("$strLenBytes", str.encode, 34473),
    "$strLenCP": _length("$strLenCP", str, 34471),
    "$strcasecmp": binary(compare_ignoring_case),
    "$substr": exactly(3, substring_bytes),
    "$substrBytes": exactly(3, substring_bytes),
    "$substrCP": exactly(3, substring_code_points),
    "$toLower": _case(bytes.lower),
    "$toUpper": _case(bytes.upper),
    "$trim": _trim(str.strip),
}
