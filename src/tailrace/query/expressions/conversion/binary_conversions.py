"""Conversions from and to binary data: text in several formats, and numbers in either byte order."""

import base64
import binascii
import re
import struct
from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

from bson import Binary, Int64
from bson.binary import UUID_SUBTYPE

from tailrace.errors import CommandError
from tailrace.query.expressions.conversion.conversion_table import Conversion, ConversionOptions, failure
from tailrace.query.expressions.operands import is_int64

FORMATS: Final = ("base64", "base64url", "hex", "utf8", "uuid", "auto")
BYTE_ORDERS: Final = ("little", "big")

_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_BASE64_URL: Final = re.compile(r"[A-Za-z0-9_-]*={0,2}")
_INT32_SIZES: Final = (1, 2, 4)
_INT64_SIZES: Final = (1, 2, 4, 8)


def _subtype(value: bytes) -> int:
    return value.subtype if isinstance(value, Binary) else 0


def _binary(data: bytes, subtype: int) -> bytes:
    return Binary(data, subtype) if subtype else data


def _decode_base64(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _decode_base64url(text: str) -> bytes:
    if not _BASE64_URL.fullmatch(text):
        raise ValueError("not base64url")
    return base64.urlsafe_b64decode(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4))


_DECODERS: Final[dict[str, Callable[[str], bytes]]] = {
    "base64": _decode_base64,
    "base64url": _decode_base64url,
    "hex": bytes.fromhex,
    "utf8": str.encode,
}
_ENCODERS: Final[dict[str, Callable[[bytes], str]]] = {
    "base64": lambda data: base64.b64encode(data).decode(),
    "base64url": lambda data: base64.urlsafe_b64encode(data).rstrip(b"=").decode(),
    "hex": lambda data: data.hex().upper(),
    "utf8": bytes.decode,
}


def _format(options: ConversionOptions, direction: str) -> str:
    if options.format is None:
        raise CommandError(4341115, f"'format' must be given to $convert {direction}")
    return options.format


def _string_to_binary(text: str, options: ConversionOptions) -> bytes:
    chosen = _format(options, "string to binData")
    if (chosen == "uuid") != (options.subtype == UUID_SUBTYPE) or chosen == "auto":
        raise failure(f"Format '{chosen}' does not go with subtype {options.subtype}")
    if chosen == "uuid":
        if not _UUID.fullmatch(text):
            raise failure(f"Input is not a valid UUID string: '{text}'")
        return Binary(UUID(text).bytes, UUID_SUBTYPE)
    try:
        if chosen == "hex" and not text.isalnum() and text:
            raise ValueError("not hexadecimal")
        return _binary(_DECODERS[chosen](text), options.subtype)
    except (ValueError, binascii.Error):
        raise failure(f"Input is not a valid {chosen} string: '{text}'") from None


def _binary_to_string(value: bytes, options: ConversionOptions) -> str:
    chosen = _format(options, "binData to string")
    is_uuid = _subtype(value) == UUID_SUBTYPE
    if chosen == "auto":
        chosen = "uuid" if is_uuid else "base64"
    if chosen == "uuid":
        if not is_uuid or len(value) != 16:
            raise failure("Only a UUID can be written in the format 'uuid'")
        return str(UUID(bytes=bytes(value)))
    try:
        return _ENCODERS[chosen](bytes(value))
    except UnicodeDecodeError:
        raise failure("BinData does not represent a valid UTF-8 string") from None


def _binary_to_binary(value: bytes, options: ConversionOptions) -> bytes:
    if _subtype(value) != options.subtype:
        raise failure(f"Conversions between different binData subtypes are not supported: {_subtype(value)}")
    return value


def _signed(value: bytes, options: ConversionOptions, sizes: tuple[int, ...]) -> int:
    if len(value) not in sizes:
        raise failure(f"BinData of {len(value)} bytes does not hold an integer of the target type")
    return int.from_bytes(value, "big" if options.byte_order == "big" else "little", signed=True)


def _struct_order(options: ConversionOptions) -> str:
    return ">" if options.byte_order == "big" else "<"


def _binary_to_double(value: bytes, options: ConversionOptions) -> float:
    codes = {4: "f", 8: "d"}
    if len(value) not in codes:
        raise failure(f"BinData of {len(value)} bytes does not hold a double")
    (number,) = struct.unpack(_struct_order(options) + codes[len(value)], value)
    return float(number)


def _number_to_binary(value: Any, options: ConversionOptions) -> bytes:
    code = "d" if isinstance(value, float) else "q" if is_int64(value) else "i"
    return _binary(struct.pack(_struct_order(options) + code, value), options.subtype)


BINARY_CONVERSIONS: Final[dict[tuple[str, str], Conversion]] = {
    ("string", "binData"): _string_to_binary,
    ("int", "binData"): _number_to_binary,
    ("long", "binData"): _number_to_binary,
    ("double", "binData"): _number_to_binary,
    ("binData", "string"): _binary_to_string,
    ("binData", "binData"): _binary_to_binary,
    ("binData", "int"): lambda value, options: _signed(value, options, _INT32_SIZES),
    ("binData", "long"): lambda value, options: Int64(_signed(value, options, _INT64_SIZES)),
    ("binData", "double"): _binary_to_double,
}
