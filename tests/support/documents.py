"""Make random values, `_id`s and documents of all BSON types, edge cases included.

Everything is drawn from one `random.Random`, so a seed gives the same documents on every machine. The
documents can be stored by a server: an `_id` is never an array, a regular expression or undefined, and no
field below `_id` begins with a dollar sign.
"""

import random
from collections.abc import Callable
from typing import Any, Final

from bson import Binary, Code, DatetimeMS, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp

from tailrace.bson.values import DBPointer, Symbol, Undefined

PLAIN_NAMES: Final = ("a", "b", "c", "d", "qty", "tags", "nested", "u", "i", "s", "l", "naïve")
# Names that are special in an update description or a diff.
ODD_NAMES: Final = ("a.b", "a.0", "0", "1", "10", "01", "", "$x", "$set", "sa", " ", "_id")

_INT32: Final = (0, 1, 2, 3, -1, 127, 128, 2**31 - 1, -(2**31))
_INT64: Final = (0, 1, 2, -1, 2**53 + 1, 2**63 - 1, -(2**63))
_DOUBLE: Final = (
    0.0, -0.0, 1.0, 2.0, -1.0, 0.1, -5.5, 100.25, 5e-324, 1e-80, 2.0**53, 1e20, -1e300,
    float("inf"), float("-inf"), float("nan"),
)  # fmt: skip
_DECIMAL: Final = (
    "0", "-0", "0E+3", "1", "1.0", "1.00", "2", "-1.5", "0.1", "1.23", "12345678901234567890.5", "1E-6176",
    "9.999999999999999999999999999999999E+6144", "-1E+20", "NaN", "Infinity", "-Infinity",
)  # fmt: skip
_TEXT: Final = ("", "a", "b", "aa", "a\0b", "é", "日本", "$a", "a.b", "0", "x" * 40)
_BINARY_SUBTYPES: Final = (0, 2, 3, 4, 5, 128)
_SHORTENED_TO_NOTHING = 0.3


class DocumentMaker:
    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._identifier_kinds: tuple[Callable[[], Any], ...] = (
            self._int32, self._int32, self._int64, self._double, self._decimal, self._text, self._text,
            self._object_id, self._object_id, self._binary, self._bool, self._date, self._timestamp,
            self._null, self._symbol, self._code, self._db_pointer, MinKey, MaxKey, self._key_document,
            self._key_document,
        )  # fmt: skip
        self._common_kinds: tuple[Callable[[], Any], ...] = (
            self._int32, self._text, self._double, self._date, self._bool,
        )  # fmt: skip
        self._all_kinds = (*self._identifier_kinds[:-2], self._regex, Undefined, self._code_with_scope)

    # -- values -------------------------------------------------------------------------------------

    def scalar(self) -> Any:
        """A value that is neither a document nor an array; mostly a common type, sometimes any."""
        rng = self._rng
        return rng.choice(self._common_kinds if rng.random() < 0.6 else self._all_kinds)()

    def key_scalar(self) -> Any:
        """A scalar that is allowed in a shard key: no regular expression, no undefined."""
        return self._rng.choice(self._identifier_kinds[:-2])()

    def value(self, depth: int = 2) -> Any:
        """Any value, nested at most ``depth`` deep."""
        rng = self._rng
        roll = rng.random()
        if depth <= 0 or roll < 0.6:
            return self.scalar()
        if roll < 0.8:
            return self.array(depth - 1)
        return self.document(depth - 1)

    def array(self, depth: int = 1) -> list[Any]:
        """An array of up to six values, of one kind or mixed."""
        rng = self._rng
        size = rng.randrange(7)
        if rng.random() < 0.5:
            return [rng.randrange(5) for _ in range(size)]
        return [self.value(depth) for _ in range(size)]

    def document(self, depth: int = 1) -> dict[str, Any]:
        """An embedded document; sometimes a deep one, or one that looks like a DBRef."""
        rng = self._rng
        roll = rng.random()
        if roll < 0.03:
            return self._deep(rng.randrange(5, 30))
        if roll < 0.05:
            return {"$ref": "other", "$id": self.scalar(), "$db": "shop"}
        return {self.name(): self.value(depth) for _ in range(rng.randrange(4))}

    def name(self) -> str:
        """A field name; one in four is unusual."""
        rng = self._rng
        return rng.choice(PLAIN_NAMES if rng.random() < 0.75 else ODD_NAMES)

    def stored(self, identifier: Any) -> dict[str, Any]:
        """A document as a collection stores it: `_id` first."""
        rng = self._rng
        document = {"_id": identifier}
        for _ in range(rng.randrange(1, 6)):
            name = self.name()
            if name != "_id":
                document[name] = self.value()
        return document

    def identifier(self) -> Any:
        """A value that may be an `_id`; there are so few that equal values of different types occur."""
        return self._rng.choice(self._identifier_kinds)()

    # -- changes ------------------------------------------------------------------------------------

    def changed(self, document: dict[str, Any]) -> dict[str, Any]:
        """The document as a pipeline update might change it; `_id` stays first and unchanged."""
        rest = {name: value for name, value in document.items() if name != "_id"}
        for _ in range(self._rng.randrange(1, 4)):
            rest = self._changed_document(rest)
            rest.pop("_id", None)
        return {"_id": document["_id"], **rest}

    def _changed_document(self, document: dict[str, Any]) -> dict[str, Any]:
        rng = self._rng
        changed = dict(document)
        containers = [name for name, value in changed.items() if isinstance(value, dict | list) and value]
        roll = rng.random()
        if containers and roll < 0.5:
            name = rng.choice(containers)
            changed[name] = self._changed_container(changed[name])
        elif changed and roll < 0.65:
            changed[rng.choice(list(changed))] = self.value()
        elif changed and roll < 0.8:
            del changed[rng.choice(list(changed))]
        elif changed and roll < 0.87:
            name = rng.choice(list(changed))
            changed[name] = changed.pop(name)
        else:
            changed[self.name()] = self.value()
        return changed

    def _changed_container(self, value: Any) -> Any:
        return self._changed_document(value) if isinstance(value, dict) else self._changed_array(value)

    def _changed_array(self, array: list[Any]) -> list[Any]:
        rng = self._rng
        roll = rng.random()
        changed = list(array)
        if roll < 0.4:
            floor = 0 if rng.random() < _SHORTENED_TO_NOTHING else len(changed) // 2
            del changed[rng.randrange(floor, len(changed)) :]
            return changed
        position = rng.randrange(len(changed))
        if isinstance(changed[position], dict | list) and changed[position] and roll < 0.75:
            changed[position] = self._changed_container(changed[position])
        elif roll < 0.85:
            changed[position] = self.value(1)
        else:
            changed.extend(self.value(1) for _ in range(rng.randrange(1, 3)))
        return changed

    # -- one method for one BSON type ---------------------------------------------------------------

    def _int32(self) -> int:
        return self._rng.choice(_INT32) if self._rng.random() < 0.5 else self._rng.randrange(40)

    def _int64(self) -> Int64:
        return Int64(self._rng.choice(_INT64))

    def _double(self) -> float:
        return self._rng.choice(_DOUBLE)

    def _decimal(self) -> Decimal128:
        return Decimal128(self._rng.choice(_DECIMAL))

    def _text(self) -> str:
        rng = self._rng
        return rng.choice(_TEXT) if rng.random() < 0.4 else f"t{rng.randrange(1000)}"

    def _object_id(self) -> ObjectId:
        return ObjectId(self._rng.randbytes(12))

    def _binary(self) -> bytes | Binary:
        subtype = self._rng.choice(_BINARY_SUBTYPES)
        size = 16 if subtype in (3, 4, 5) else self._rng.randrange(5)
        data = self._rng.randbytes(size)
        return Binary(data, subtype) if subtype else data

    def _bool(self) -> bool:
        return self._rng.random() < 0.5

    def _date(self) -> DatetimeMS:
        rng = self._rng
        return DatetimeMS(rng.choice((0, -1, 1_700_000_000_000, 2**63 - 1, -(2**63), rng.randrange(10**12))))

    def _timestamp(self) -> Timestamp:
        return Timestamp(self._rng.randrange(1, 2**32), self._rng.randrange(1, 2**32))

    def _null(self) -> None:
        return None

    def _symbol(self) -> Symbol:
        return Symbol(self._text())

    def _regex(self) -> Regex[str]:
        return Regex(self._rng.choice(("", "^a", "b$")), self._rng.choice(("", "i", "im")))

    def _code(self) -> Code:
        return Code(self._rng.choice(("", "f()", "return 1")))

    def _code_with_scope(self) -> Code:
        return Code("f()", {"x": self._int32(), "y": {"z": self._text()}})

    def _db_pointer(self) -> DBPointer:
        return DBPointer("shop.orders", self._object_id())

    def _key_document(self) -> dict[str, Any]:
        rng = self._rng
        key: dict[str, Any] = {}
        for name in rng.sample(("k", "a", "0", "a.b", "ts"), rng.randrange(3)):
            key[name] = rng.choice((self.key_scalar, self._regex, lambda: [rng.randrange(3), 1.0]))()
        return key

    def _deep(self, depth: int) -> dict[str, Any]:
        value: Any = self.scalar()
        for level in range(depth):
            value = [value] if level % 3 == 2 else {self._rng.choice(PLAIN_NAMES): value}
        return {"deep": value}
