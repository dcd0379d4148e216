"""The key of an index specification, checked: which fields and kinds an index may have."""

from collections.abc import Mapping
from decimal import Decimal
from math import isnan
from typing import Any, Final

from bson import Decimal128

from tailrace.bson.compare import type_name
from tailrace.bson.shell_notation import shell
from tailrace.bson.values import is_string
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.store.indexes.index_keys import is_descending

MAX_FIELDS: Final = 32
BUCKET_KIND: Final = "2dsphere_bucket"
SPECIAL_KINDS: Final = ("text", "hashed", "2dsphere", "2d")
_DBREF_NAMES: Final = frozenset({"$id", "$ref", "$db"})
_WILDCARD: Final = "$**"


def check_key_pattern(
    key: Mapping[str, Any], *, compound_wildcards: bool = True, of_buckets: bool = False
) -> None:
    """Refuse a document that cannot be the key of an index; buckets of a time series have a kind more."""
    if not key:
        raise cannot_create("Index keys cannot be an empty object.")
    if len(key) > MAX_FIELDS:
        raise CommandError(13103, "too many compound keys")
    for path, direction in key.items():
        if not (of_buckets and direction == BUCKET_KIND):
            _check_direction(path, direction)
        _check_path(path)
    kinds = [value for value in key.values() if is_string(value)]
    if kinds.count("hashed") > 1:
        raise CommandError(31303, "A maximum of one index field is allowed to be hashed")
    if len(set(kinds) & {"2d", "2dsphere"}) > 1 or ("hashed" in kinds and len(set(kinds)) > 1):
        raise cannot_create(f"Can't use more than one index plugin for a single index: {shell(key)}")
    wildcards = [path for path, direction in key.items() if is_wildcard_path(path) and direction != "text"]
    if wildcards and len(key) > 1 and not compound_wildcards:
        raise cannot_create("wildcard indexes do not allow compounding")
    if any(is_descending(key[path]) for path in wildcards) and not compound_wildcards:
        raise cannot_create("A numeric value in a $** index key pattern must be positive.")
    if len(wildcards) > 1:
        raise cannot_create("Only one wildcard field is allowed in a compound index")


def index_kind(key: Mapping[str, Any]) -> str | None:
    """`text`, `hashed`, `2d`, `2dsphere` or `wildcard`; None for an ordinary index.

    >>> index_kind({"a": 1}), index_kind({"a": 1, "b": "hashed"}), index_kind({"a.$**": 1})
    (None, 'hashed', 'wildcard')
    """
    for path, direction in key.items():
        if is_string(direction):
            return direction
        if is_wildcard_path(path):
            return "wildcard"
    return None


def given_kind(fields: Mapping[str, Any]) -> str | None:
    """The kind of the index that a specification, which need not be valid, wants."""
    key = fields.get("key")
    return index_kind(key) if isinstance(key, Mapping) else None


def is_wildcard_path(path: str) -> bool:
    """Whether a path covers all fields, or all below one."""
    return path == _WILDCARD or path.endswith("." + _WILDCARD)


def is_id_key(key: Mapping[str, Any]) -> bool:
    """Whether this is the key of the index that every collection has, or its reverse."""
    return list(key) == ["_id"] and not is_string(key["_id"]) and abs(int(number_of(key["_id"]))) == 1


def default_name(key: Mapping[str, Any]) -> str:
    """The name that drivers give an index: paths and directions.

    >>> default_name({"a": 1, "b.c": -1.0, "d": "text"})
    'a_1_b.c_-1_d_text'
    """
    return "_".join(f"{path}_{_shown(direction)}" for path, direction in key.items())


def number_of(direction: Any) -> int | float | Decimal:
    """The direction of an ordinary field, with which Python can calculate."""
    return direction.to_decimal() if isinstance(direction, Decimal128) else direction


def cannot_create(reason: str) -> CommandError:
    return CommandError(ErrorCode.CannotCreateIndex, reason)


def _shown(direction: Any) -> str:
    is_whole = isinstance(direction, float) and direction.is_integer()
    return str(int(direction)) if is_whole else str(direction)


def _check_direction(path: str, direction: Any) -> None:
    if is_string(direction):
        if direction not in SPECIAL_KINDS:
            raise cannot_create(f"Unknown index plugin '{direction}'")
        if is_wildcard_path(path) and direction != "text":
            raise cannot_create(
                f"Index type '{direction}' does not support wildcard paths: {shell({path: direction})}"
            )
        return
    if isinstance(direction, bool) or not isinstance(direction, int | float | Decimal128):
        raise cannot_create(
            f"Values in v:2 index key pattern cannot be of type {type_name(direction)}. Only numbers > 0, "
            "numbers < 0, and strings are allowed."
        )
    number = number_of(direction)
    if number.is_nan() if isinstance(number, Decimal) else isnan(number):
        raise cannot_create("Values in the index key pattern cannot be NaN.")
    if number == 0:
        raise cannot_create("Values in the index key pattern cannot be 0.")


def _check_path(path: str) -> None:
    if not path:
        raise cannot_create("Index keys cannot be an empty field.")
    parts = path.split(".")
    if is_wildcard_path(path):
        parts.pop()
    for part in parts:
        if not part:
            raise cannot_create(f"Index keys cannot contain an empty field: '{path}'.")
        if part.startswith("$") and part not in _DBREF_NAMES:
            raise cannot_create(
                f"Index key contains an illegal field name: field name starts with '$': '{path}'."
            )
