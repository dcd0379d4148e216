"""`$convert` and its short forms, `$type` and `$isNumber`."""

from typing import Any, Final

from tailrace.bson.compare import TYPE_CODES
from tailrace.bson.values import is_string
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.query.expressions.arguments import named_expressions, parse_list, unary
from tailrace.query.expressions.conversion.binary_conversions import BINARY_CONVERSIONS, BYTE_ORDERS, FORMATS
from tailrace.query.expressions.conversion.conversion_table import (
    CONVERSIONS,
    Conversion,
    ConversionOptions,
    failure,
    to_bool,
)
from tailrace.query.expressions.numbers.number_types import int32_value, integral_value
from tailrace.query.expressions.operands import is_nullish, is_number, type_name
from tailrace.query.expressions.scope import (
    Constant,
    Environment,
    Expression,
    ExpressionScope,
    OperatorParser,
)

_TYPE_CODES: Final = {**TYPE_CODES, 0: "missing"}
_TYPE_NAMES: Final = frozenset(_TYPE_CODES.values())
_BINARY_OPTIONS: Final = ("format", "base", "byteOrder")
_BASES: Final = (2, 8, 10, 16)
# Subtypes that BSON defines, and those that users may define.
_SUBTYPES: Final = frozenset({*range(10), *range(128, 256)})


def _conversion(source: str, target: str, scope: ExpressionScope) -> Conversion:
    if target == "bool":
        return to_bool
    found = CONVERSIONS.get(source, {}).get(target)
    if found is None and scope.dialect.converts_binary:
        found = BINARY_CONVERSIONS.get((source, target))
    if found is None:
        raise failure(f"Unsupported conversion from {source} to {target}")
    return found


def _parse_convert(name: str, spec: Any, scope: ExpressionScope) -> Expression:
    code = int(ErrorCode.FailedToParse)
    named = named_expressions(
        name,
        spec,
        scope,
        required={"input": code, "to": code},
        optional=(*(_BINARY_OPTIONS if scope.dialect.converts_binary else ()), "onError", "onNull"),
        not_object=code,
        unknown=code,
    )
    null = Constant(None)
    source, to = named["input"], named["to"]
    base, chosen_format = named.get("base", null), named.get("format", null)
    byte_order = named.get("byteOrder", null)
    on_null, on_error = named.get("onNull", null), named.get("onError")

    def apply(env: Environment) -> Any:
        value, target = source(env), to(env)
        target_type, subtype = ("", 0) if is_nullish(target) else _checked_target(name, target, scope)
        options = ConversionOptions(
            _checked_base(name, base(env)),
            _checked_format(name, chosen_format(env)),
            _checked_byte_order(name, byte_order(env)),
            subtype,
        )
        if is_nullish(value):
            return on_null(env)
        if not target_type:
            return None
        try:
            return _conversion(type_name(value), target_type, scope)(value, options)
        except CommandError as error:
            if on_error is None or error.code != ErrorCode.ConversionFailure:
                raise
            return on_error(env)

    return apply


def _checked_target(name: str, target: Any, scope: ExpressionScope) -> tuple[str, int]:
    """Type and binary subtype of ``to``: a name, a number, or ``{type, subtype}``."""
    if isinstance(target, dict) and scope.dialect.converts_binary:
        if "type" not in target or not target.keys() <= {"type", "subtype"}:
            raise CommandError(
                ErrorCode.FailedToParse, f"{name}'s 'to' takes 'type' and 'subtype' in a document"
            )
        return _checked_type(name, target["type"]), _checked_subtype(name, target.get("subtype", 0))
    return _checked_type(name, target), 0


def _checked_type(name: str, target: Any) -> str:
    if is_string(target):
        if target not in _TYPE_NAMES:
            raise CommandError(ErrorCode.BadValue, f"Unknown type name: {target}")
        return target
    number = integral_value(target)
    if number not in _TYPE_CODES:
        raise CommandError(
            ErrorCode.FailedToParse,
            f"{name}'s 'to' must be a type's name or number, but is {type_name(target)}",
        )
    return _TYPE_CODES[number]


def _checked_subtype(name: str, subtype: Any) -> int:
    if not is_number(subtype):
        raise CommandError(4341108, f"{name}'s binary subtype must be numeric, but is {type_name(subtype)}")
    number = int32_value(subtype)
    if number is None:
        raise CommandError(4341106, f"{name}'s binary subtype must be an integer, but is {subtype}")
    if number not in _SUBTYPES:
        raise CommandError(4341107, f"{name} found an invalid binary subtype: {subtype}")
    return number


def _checked_base(name: str, base: Any) -> int | None:
    if is_nullish(base):
        return None
    number = int32_value(base)
    if number is None:
        raise CommandError(3501300, f"{name}: 'base' must be an integer, but is {base}")
    if number not in _BASES:
        raise CommandError(3501301, f"{name}: 'base' must be one of {_BASES}, but is {number}")
    return number


def _checked_format(name: str, value: Any) -> str | None:
    if is_nullish(value):
        return None
    if not is_string(value):
        raise CommandError(4341114, f"{name}: 'format' must be a string, but is {type_name(value)}")
    if value not in FORMATS:
        raise CommandError(4341125, f"{name}: 'format' must be one of {FORMATS}, but is '{value}'")
    return value


def _checked_byte_order(name: str, value: Any) -> str:
    if is_nullish(value):
        return BYTE_ORDERS[0]
    if not is_string(value):
        raise CommandError(9130001, f"{name}: 'byteOrder' must be a string, but is {type_name(value)}")
    if value not in BYTE_ORDERS:
        raise CommandError(9130002, f"{name}: 'byteOrder' must be 'little' or 'big', but is '{value}'")
    return value


def _shorthand(target: str, options: ConversionOptions = ConversionOptions()) -> OperatorParser:  # noqa: B008 - frozen
    def parse(name: str, spec: Any, scope: ExpressionScope) -> Expression:
        expressions = parse_list(spec, scope)
        if len(expressions) != 1:
            raise CommandError(50723, f"{name} requires a single argument, got {len(expressions)}")
        (source,) = expressions

        def apply(env: Environment) -> Any:
            value = source(env)
            return None if is_nullish(value) else _conversion(type_name(value), target, scope)(value, options)

        return apply

    return parse


OPERATORS: Final[dict[str, OperatorParser]] = {
    "$convert": _parse_convert,
    "$isNumber": unary(is_number),
    "$toBool": _shorthand("bool"),
    "$toDate": _shorthand("date"),
    "$toDecimal": _shorthand("decimal"),
    "$toDouble": _shorthand("double"),
    "$toInt": _shorthand("int"),
    "$toLong": _shorthand("long"),
    "$toObjectId": _shorthand("objectId"),
    "$toString": _shorthand("string", ConversionOptions(format="auto")),
    "$toUUID": _shorthand("binData", ConversionOptions(format="uuid", subtype=4)),
    "$type": unary(type_name),
}
