"""The body of a command as Python values.

Commands come by the thousand, so this is a shorter way to what `bsonio.documents.decode` gives: PyMongo's
decoder is right unless a document holds one of the few things it does not keep apart, and those can only be
in the command's own fields, not in what every driver attaches to every command.
"""

from typing import Any, Final

import bson
from bson import CodecOptions
from bson.binary import UuidRepresentation
from bson.codec_options import DatetimeConversion
from bson.errors import InvalidBSON

from tailrace.bsonio import raw as rawbson
from tailrace.bsonio.documents import decode
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError

_OPTIONS: Final[CodecOptions[dict[str, Any]]] = CodecOptions(
    document_class=dict,
    datetime_conversion=DatetimeConversion.DATETIME_MS,
    uuid_representation=UuidRepresentation.UNSPECIFIED,
)
_ATTACHED: Final = frozenset({b"lsid", b"$clusterTime", b"$readPreference", b"readConcern", b"writeConcern"})
_PLAIN_TYPES: Final = frozenset(
    {
        rawbson.DOUBLE, rawbson.STRING, rawbson.OBJECT_ID, rawbson.BOOL, rawbson.DATE, rawbson.NULL,
        rawbson.INT32, rawbson.TIMESTAMP, rawbson.INT64, rawbson.DECIMAL128,
    }
)  # fmt: skip


def read_body(body: bytes) -> dict[str, Any]:
    """The fields of a command; raises IDLDuplicateField if one is there twice.

    >>> from tailrace.bsonio.documents import Symbol, encode
    >>> read_body(encode({"find": "orders", "filter": {"a": Symbol("x")}, "$db": "shop"}))
    {'find': 'orders', 'filter': {'a': Symbol(text='x')}, '$db': 'shop'}
    """
    names = []
    is_plain = True
    for kind, name, _, _ in rawbson.elements(body):
        names.append(name)
        if kind not in _PLAIN_TYPES and name not in _ATTACHED:
            is_plain = False
    try:
        command = bson.decode(body, _OPTIONS) if is_plain else decode(body)
    except InvalidBSON:
        command = decode(body)  # PyMongo refuses some values that MongoDB takes
    if len(names) != len(command):
        repeated = next(name for name in names if names.count(name) > 1)
        reason = f"BSON field '{names[0].decode()}.{repeated.decode()}' is a duplicate field"
        raise CommandError(ErrorCode.IDLDuplicateField, reason)
    return command
