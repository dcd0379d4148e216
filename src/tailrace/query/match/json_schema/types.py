"""``type``, ``bsonType`` and ``encrypt``."""

from collections.abc import Mapping
from typing import Any, Final

from bson import Binary

from tailrace.bson.compare import TYPE_CODES, type_name
from tailrace.bson.values import is_string
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.query.match.element import type_test, types_by_alias
from tailrace.query.match.json_schema.keyword import (
    Keyword,
    checked_names,
    checked_object,
    failed_to_parse,
    type_mismatch,
)
from tailrace.query.match.scope import bad_value
from tailrace.query.paths import Test

_JSON_TYPES: Final = {
    "array": "array", "boolean": "bool", "null": "null", "number": "number", "object": "object",
    "string": "string",
}  # fmt: skip
_ALGORITHMS: Final = frozenset(
    {"AEAD_AES_256_CBC_HMAC_SHA_512-Deterministic", "AEAD_AES_256_CBC_HMAC_SHA_512-Random"}
)
_ENCRYPTED_SUBTYPE: Final = 6
_UUID_SUBTYPE: Final = 4
# An encrypted value starts with its format (1 byte) and the id of its key (16 bytes).
_OFFSET_OF_ORIGINAL_TYPE: Final = 17


def parse_type(keyword: Keyword) -> Test:
    """``type``: JSON Schema's type names; MongoDB does not support "integer"."""
    if "bsonType" in keyword.schema:
        raise failed_to_parse("Cannot specify both $jsonSchema keywords 'type' and 'bsonType'")
    names: set[str] = set()
    for alias in _aliases(keyword.name, keyword.argument):
        if alias == "integer":
            raise bad_value("$jsonSchema type 'integer' is not currently supported")
        if alias not in _JSON_TYPES:
            raise bad_value(f"Unknown type name alias: {alias}")
        names |= types_by_alias(_JSON_TYPES[alias])
    return type_test(names)


def parse_bson_type(keyword: Keyword) -> Test:
    """``bsonType``: the names of ``$type``."""
    return type_test(_bson_types(keyword.name, keyword.argument))


def _bson_types(what: str, argument: Any) -> frozenset[str]:
    return frozenset().union(*(types_by_alias(alias) for alias in _aliases(what, argument)))


def _aliases(what: str, argument: Any) -> list[str]:
    if is_string(argument):
        return [argument]
    if not isinstance(argument, list):
        raise type_mismatch(f"$jsonSchema keyword '{what}' must be a string or an array of strings")
    return checked_names(f"keyword '{what}'", argument)


def parse_encrypt(keyword: Keyword) -> Test:
    """``encrypt``: the value is encrypted, and had one of the given types before."""
    for other in ("type", "bsonType", "encryptMetadata"):
        if other in keyword.schema:
            raise failed_to_parse(f"$jsonSchema keyword 'encrypt' cannot stand beside '{other}'")
    settings = checked_object(keyword)
    _check_encryption(keyword.name, settings, ("algorithm", "bsonType", "keyId"))
    if "bsonType" not in settings:
        return _is_encrypted
    names = _bson_types("encrypt.bsonType", settings["bsonType"])
    codes = {code & 0xFF for code, name in TYPE_CODES.items() if name in names}
    return lambda value: (
        _is_encrypted(value)
        and len(value) > _OFFSET_OF_ORIGINAL_TYPE
        and value[_OFFSET_OF_ORIGINAL_TYPE] in codes
    )


def parse_encrypt_metadata(keyword: Keyword) -> None:
    """``encryptMetadata``: defaults for nested ``encrypt``, which do not change what matches."""
    settings = checked_object(keyword)
    if not settings:
        raise failed_to_parse("$jsonSchema keyword 'encryptMetadata' cannot be an empty object")
    _check_encryption(keyword.name, settings, ("algorithm", "keyId"))


def _is_encrypted(value: Any) -> bool:
    return isinstance(value, Binary) and value.subtype == _ENCRYPTED_SUBTYPE


def _check_encryption(what: str, settings: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for name in settings:
        if name not in known:
            raise CommandError(ErrorCode.IDLUnknownField, f"field '{what}.{name}' is an unknown field")
    algorithm = settings.get("algorithm", None)
    if algorithm is not None and not is_string(algorithm):
        raise type_mismatch(f"'{what}.algorithm' must be a string, not {type_name(algorithm)}")
    if algorithm is not None and algorithm not in _ALGORITHMS:
        raise bad_value(f"'{what}.algorithm' is not a known algorithm")
    key_id = settings.get("keyId", [])
    if is_string(key_id):
        if not key_id.startswith("/"):
            raise CommandError(51065, f"'{what}.keyId' must be an array of UUIDs or a JSON pointer")
    elif isinstance(key_id, list):
        for uuid in key_id:
            if not isinstance(uuid, bytes):
                raise CommandError(51088, f"'{what}.keyId' must hold only UUIDs")
            if not isinstance(uuid, Binary) or uuid.subtype != _UUID_SUBTYPE or len(uuid) != 16:
                raise CommandError(51084, f"'{what}.keyId' must hold only UUIDs")
    else:
        raise CommandError(51085, f"'{what}.keyId' must be an array of UUIDs or a JSON pointer")
