"""BSON order: a total order over values of all types.

Values are compared by the bracket of their type first, then within the bracket:

    MinKey < undefined < null < numbers < string, symbol < object < array < BinData < ObjectId < bool
    < date < Timestamp < regex < DBPointer < code < code with scope < MaxKey

Numbers of all four types share one order by exact mathematical value, with NaN lowest. `sort_key` turns a
value into a tuple whose order in Python is BSON order, so sorting has the speed of tuples; `compare` has
shortcuts for the frequent cases.

Strings are compared by code point, which is the order of their UTF-8 bytes. ``string_key`` is the key
function of a collation, used for strings at any depth, but never for field names.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from bson import Binary, Code, DatetimeMS, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp

from tailrace.bson.decimal128 import exact
from tailrace.bson.raw import OLD_BINARY_SUBTYPE
from tailrace.bson.values import DBPointer, Symbol, Undefined
from tailrace.pacing import STEPS, tick, ticking
from tailrace.unused import freed_in_pieces

StringKey: TypeAlias = Callable[[str], Any] | None
"""The function that makes the sort key of a string; None to compare code points"""
SortKey: TypeAlias = tuple[Any, ...]

_NAN: Final = (0,)
_MANY: Final = 1000
"""Keys that are hashed or compared in one step."""
_REGEX_FLAGS: Final = ((2, "i"), (4, "l"), (8, "m"), (16, "s"), (32, "u"), (64, "x"))


class _TypeOrder(NamedTuple):
    bracket: int
    name: str
    rank: Callable[[Any, StringKey], Any]
    """The key of a value within its bracket"""


def _same(_value: Any, _string_key: StringKey) -> Any:
    return 0


def _itself(value: Any, _string_key: StringKey) -> Any:
    return value


def _rank_float(value: float, _string_key: StringKey) -> Any:
    return (1, value) if value == value else _NAN


def _rank_int(value: int, _string_key: StringKey) -> Any:
    return 1, value


def _rank_decimal(value: Decimal128, _string_key: StringKey) -> Any:
    number = exact(value.bid)
    return _NAN if number is None else (1, number)


def _rank_string(value: str, string_key: StringKey) -> Any:
    return value if string_key is None else string_key(value)


def _rank_symbol(value: Symbol, string_key: StringKey) -> Any:
    return _rank_string(value.text, string_key)


def _rank_object(value: Mapping[str, Any], string_key: StringKey) -> Any:
    fields = []
    for name, item in value.items() if len(value) <= STEPS else ticking(list(value.items())):
        order = _order_of(item)
        fields.append((order.bracket, name, order.rank(item, string_key)))
    return tuple(fields) if len(fields) <= _MANY else _Long(fields)


def _rank_array(value: list[Any] | tuple[Any, ...], string_key: StringKey) -> Any:
    if len(value) <= STEPS:
        return tuple([sort_key(item, string_key) for item in value])
    keys = [sort_key(item, string_key) for item in ticking(value)]
    return tuple(keys) if len(keys) <= _MANY else _Long(keys)


class _Long:
    """The keys of many elements: like a tuple, but hashed only once, and with ticks, as it is compared."""

    __slots__ = ("_hash", "_keys")

    def __init__(self, keys: list[Any]) -> None:
        self._keys = freed_in_pieces(keys)
        self._hash: int | None = None

    def __hash__(self) -> int:
        if self._hash is None:
            keys = self._keys
            self._hash = hash(tuple([hash(tuple(keys[start:end])) for start, end in _spans(len(keys))]))
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Long) or len(self._keys) != len(other._keys):
            return False
        return self._order(other) == 0

    def _order(self, other: "_Long | tuple[Any, ...]") -> int:
        keys = self._keys
        others = other._keys if isinstance(other, _Long) else list(other)
        for start, end in _spans(max(len(keys), len(others))):
            some, other_some = keys[start:end], others[start:end]
            if some != other_some:
                return -1 if some < other_some else 1
        return 0

    def __lt__(self, other: "_Long | tuple[Any, ...]") -> bool:
        return self._order(other) < 0

    def __le__(self, other: "_Long | tuple[Any, ...]") -> bool:
        return self._order(other) <= 0

    def __gt__(self, other: "_Long | tuple[Any, ...]") -> bool:
        return self._order(other) > 0

    def __ge__(self, other: "_Long | tuple[Any, ...]") -> bool:
        return self._order(other) >= 0


def _spans(length: int) -> Iterator[tuple[int, int]]:
    for start in range(0, length, _MANY):
        tick()
        yield start, start + _MANY


def _rank_bytes(value: bytes, _string_key: StringKey) -> Any:
    return len(value), 0, value


def _rank_binary(value: Binary, _string_key: StringKey) -> Any:
    # BSON counts the second length field inside the payload of subtype 2; PyMongo hides it.
    hidden = 4 if value.subtype == OLD_BINARY_SUBTYPE else 0
    return len(value) + hidden, value.subtype, bytes(value)


def _rank_date(value: DatetimeMS, _string_key: StringKey) -> Any:
    return int(value)


def _rank_object_id(value: ObjectId, _string_key: StringKey) -> Any:
    return value.binary


def _rank_timestamp(value: Timestamp, _string_key: StringKey) -> Any:
    return value.time, value.inc


def _rank_regex(value: Regex[Any], _string_key: StringKey) -> Any:
    pattern = value.pattern
    text = pattern.decode() if isinstance(pattern, bytes) else pattern
    return text, "".join([letter for flag, letter in _REGEX_FLAGS if value.flags & flag])


def _rank_db_pointer(value: DBPointer, _string_key: StringKey) -> Any:
    namespace = value.namespace.encode()
    return len(namespace), namespace, value.id.binary


def _rank_code(value: Code, string_key: StringKey) -> Any:
    if value.scope is None:
        return str(value)
    return str(value), _rank_object(value.scope, string_key)


_CODE: Final = _TypeOrder(60, "javascript", _rank_code)
_CODE_WITH_SCOPE: Final = _TypeOrder(65, "javascriptWithScope", _rank_code)

# The numbers of the brackets are the ones MongoDB uses; only their order matters.
_ORDERS: Final[dict[type, _TypeOrder]] = {
    MinKey: _TypeOrder(-1, "minKey", _same),
    Undefined: _TypeOrder(0, "undefined", _same),
    type(None): _TypeOrder(5, "null", _same),
    int: _TypeOrder(10, "int", _rank_int),
    Int64: _TypeOrder(10, "long", _rank_int),
    float: _TypeOrder(10, "double", _rank_float),
    Decimal128: _TypeOrder(10, "decimal", _rank_decimal),
    str: _TypeOrder(15, "string", _rank_string),
    Symbol: _TypeOrder(15, "symbol", _rank_symbol),
    dict: _TypeOrder(20, "object", _rank_object),
    list: _TypeOrder(25, "array", _rank_array),
    tuple: _TypeOrder(25, "array", _rank_array),
    bytes: _TypeOrder(30, "binData", _rank_bytes),
    Binary: _TypeOrder(30, "binData", _rank_binary),
    ObjectId: _TypeOrder(35, "objectId", _rank_object_id),
    bool: _TypeOrder(40, "bool", _itself),
    DatetimeMS: _TypeOrder(45, "date", _rank_date),
    Timestamp: _TypeOrder(47, "timestamp", _rank_timestamp),
    Regex: _TypeOrder(50, "regex", _rank_regex),
    DBPointer: _TypeOrder(55, "dbPointer", _rank_db_pointer),
    Code: _CODE,
    MaxKey: _TypeOrder(127, "maxKey", _same),
}

_REAL: Final = frozenset({int, Int64, float})
# Types whose own order is BSON's, when both sides have the same one.
_NATIVE: Final = frozenset({bool, ObjectId, Timestamp})


def _order_of(value: Any) -> _TypeOrder:
    order = _ORDERS.get(type(value))
    if order is None:
        order = _order_of_subclass(type(value))
    return _CODE_WITH_SCOPE if order is _CODE and value.scope is not None else order


def _order_of_subclass(kind: type) -> _TypeOrder:
    for base in kind.__mro__:
        if base in _ORDERS:
            return _ORDERS[base]
    if issubclass(kind, Mapping):
        return _ORDERS[dict]
    raise TypeError(f"a {kind.__name__} has no place in the order of BSON values")


def sort_key(value: Any, string_key: StringKey = None) -> SortKey:
    """A tuple that orders like the value; equal values have equal keys.

    >>> sorted(["a", 2, None, 1.5, {"a": 1}, Int64(1)], key=sort_key)
    [None, 1, 1.5, 2, 'a', {'a': 1}]
    """
    order = _order_of(value)
    return order.bracket, order.rank(value, string_key)


def compare(a: Any, b: Any, string_key: StringKey = None) -> int:
    """-1, 0 or 1 as ``a`` sorts before, equals or sorts after ``b``.

    >>> compare(1, 1.0), compare(2**53 + 1, 2.0**53), compare("a", 7), compare(float("nan"), -1)
    (0, 1, 1, -1)
    """
    kind, other = type(a), type(b)
    if kind in _REAL and other in _REAL:
        # Python compares int and float exactly; only for NaN are all three comparisons false.
        if a < b:
            return -1
        if a > b:
            return 1
        if a == b:
            return 0
    elif kind is not other:
        bracket, other_bracket = _order_of(a).bracket, _order_of(b).bracket
        if bracket != other_bracket:
            return -1 if bracket < other_bracket else 1
    elif kind in _NATIVE or (kind is str and string_key is None):
        return int(a > b) - int(a < b)
    elif kind is list and len(a) > STEPS and len(b) > STEPS:
        for index in ticking(range(min(len(a), len(b)))):
            order = compare(a[index], b[index], string_key)
            if order:
                return order
        return (len(a) > len(b)) - (len(a) < len(b))
    key, other_key = sort_key(a, string_key), sort_key(b, string_key)
    return (key > other_key) - (key < other_key)


def equal(a: Any, b: Any, string_key: StringKey = None) -> bool:
    """Whether both compare equal; ``1``, ``1.0`` and ``Decimal128("1.00")`` do.

    >>> equal({"a": 1}, {"a": Int64(1)}), equal({"a": 1, "b": 2}, {"b": 2, "a": 1})
    (True, False)
    """
    if type(a) is type(b) and isinstance(a, dict | list) and len(a) != len(b):
        return False
    return compare(a, b, string_key) == 0


TYPE_CODES: Final[dict[int, str]] = {
    1: "double", 2: "string", 3: "object", 4: "array", 5: "binData", 6: "undefined", 7: "objectId", 8: "bool",
    9: "date", 10: "null", 11: "regex", 12: "dbPointer", 13: "javascript", 14: "symbol",
    15: "javascriptWithScope", 16: "int", 17: "timestamp", 18: "long", 19: "decimal",
    -1: "minKey", 127: "maxKey",
}  # fmt: skip
"""The names of types for `$type` by their numbers, which are BSON's type bytes"""


def type_bracket(value: Any) -> int:
    """The bracket of the value's type; equal for types that are compared by value."""
    return _order_of(value).bracket


def type_name(value: Any) -> str:
    """The name of the value's type for `$type`.

    >>> type_name(1), type_name(2**40), type_name(Code("f", {})), type_name(b"")
    ('int', 'long', 'javascriptWithScope', 'binData')
    """
    name = _order_of(value).name
    return "long" if name == "int" and not -(2**31) <= value < 2**31 else name
