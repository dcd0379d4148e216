"""Decode the body of a command."""

from typing import Any, Final

from tailrace.bson.documents import decode, encode
from tailrace.bson.repeated import repeated_field, with_repeated_fields
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError

_REFERENCE: Final = b"$ref\0"
"""The field name that PyMongo decodes into a DBRef."""


def read_body(
    body: bytes, decoded: dict[str, Any] | None = None, *, is_exact: bool = False
) -> dict[str, Any]:
    """The fields of a command; raises IDLDuplicateField if one is repeated.

    ``decoded`` is PyMongo's result, if there is one already; ``is_exact`` if nothing was lost in it.
    Otherwise it is encoded again, which is the fastest way to find out whether a type or a field was lost.

    >>> from tailrace.bson.documents import Symbol
    >>> read_body(encode({"find": "orders", "filter": {"a": Symbol("x")}, "$db": "shop"}))
    {'find': 'orders', 'filter': {'a': Symbol(text='x')}, '$db': 'shop'}
    """
    if decoded is not None and (is_exact or (_REFERENCE not in body and encode(decoded) == body)):
        command = decoded
    else:
        command = with_repeated_fields(body, decode(body))
    repeated = repeated_field(command)
    if repeated is not None:
        reason = f"BSON field '{next(iter(command))}.{repeated}' is a duplicate field"
        raise CommandError(ErrorCode.IDLDuplicateField, reason)
    return command
