"""Documents in messages: find their end, and check that they are valid BSON.

All code after this check may trust the bytes: lengths fit, text is UTF-8 and ends with NUL, nesting is within
the server's limit. There are two kinds of faults. If the end of a document cannot be found, the connection
must be closed (`WireError`). If a document with an end is not BSON, the next message can still be found, and
the server replies with an error code (`CommandError`).
"""

from typing import Any, Final

import bson
from bson import Code, CodecOptions, DBRef
from bson.codec_options import DatetimeConversion

from tailrace.bson import raw
from tailrace.error_codes import ErrorCode
from tailrace.errors import BsonError, CommandError, WireError

MAX_DEPTH: Final = 200
"""How many documents and arrays may contain a value, the outermost not counted."""

OPTIONS: Final[CodecOptions[dict[str, Any]]] = CodecOptions(
    document_class=dict, datetime_conversion=DatetimeConversion.DATETIME_MS
)
_read_length: Final = raw.INT32_LE.unpack_from
_LEVEL_SIZE: Final = 1 + 1 + 4 + 1


def document_end(payload: bytes | memoryview, start: int, limit: int) -> int:
    """The end of the document at ``start``, which must not be after ``limit``."""
    if start + 4 <= limit:
        length: int = _read_length(payload, start)[0]
        if 5 <= length <= limit - start:
            return start + length
        raise WireError(f"a document of {length} bytes does not fit the {limit - start} bytes left for it")
    raise WireError(f"a document cannot begin in the last {limit - start} bytes of its section")


def check_document(document: bytes) -> dict[str, Any] | None:
    """Raise the server's error if these bytes, of the right length, are not a valid document.

    Returns the document as PyMongo decodes it, so that a caller need not decode it again; None if PyMongo
    cannot. The decoded form is not exact: deprecated types and repeated names are lost in it.
    """
    check_size(document)
    # PyMongo's decoder is by far the fastest check. What it accepts is BSON; what it refuses is checked
    # again, because MongoDB stores some values that PyMongo cannot represent.
    try:
        decoded = bson.decode(document, OPTIONS)
    except Exception:  # InvalidBSON, or any error of the constructors of PyMongo's types
        walk(document)
        return None
    check_depth(document, decoded)
    return decoded


def check_size(document: bytes) -> None:
    """Raise if a document is larger than any that the server handles."""
    if len(document) > raw.MAX_INTERNAL_SIZE:
        reason = f"a document of {len(document)} bytes is larger than {raw.MAX_INTERNAL_SIZE}"
        raise CommandError(ErrorCode.BSONObjectTooLarge, reason)


def check_depth(document: bytes, decoded: dict[str, Any], depth: int = 0) -> None:
    """Raise if values of a document, which is itself inside of ``depth`` others, are nested too deeply."""
    most = MAX_DEPTH - depth
    # A level of nesting takes at least a type, the end of a name, a length and an end.
    if len(document) <= most * _LEVEL_SIZE or raw.most_levels(document) <= most:
        return
    level: list[Any] = [decoded]
    for _ in range(most + 1):
        level = [item for value in level for item in _parts(value) if isinstance(item, _CONTAINERS)]
        if not level:
            return
    raise too_deep()


_CONTAINERS: Final = (dict, list, DBRef, Code)


def _parts(value: Any) -> Any:
    if isinstance(value, list):
        return value
    if isinstance(value, DBRef):
        return value.as_doc().values()
    if isinstance(value, Code):
        return (value.scope or {}).values()
    return value.values()


def too_deep() -> CommandError:
    return CommandError(ErrorCode.Overflow, f"a document is nested more than {MAX_DEPTH} levels deep")


def walk(document: bytes, kind: int = raw.DOCUMENT, depth: int = 0) -> None:
    """Check a document, or an array, that is inside of ``depth`` others; raises like `check_document`."""
    pending = [(kind, 0, depth)]
    while pending:
        container, start, depth = pending.pop()
        if depth > MAX_DEPTH:
            raise too_deep()
        for kind, name, value_start, end in raw.elements(document, start):
            if container != raw.ARRAY:  # the names in an array are never read
                _check_text(name)
            if kind in (raw.DOCUMENT, raw.ARRAY):
                pending.append((kind, value_start, depth + 1))
            elif kind == raw.CODE_WITH_SCOPE:
                pending.append((kind, scope_start(document, value_start, end), depth + 1))
            else:
                _check_value(document, kind, value_start, end)


def scope_start(document: bytes, start: int, end: int) -> int:
    """Where the scope of a code begins; raises if the code or its lengths are not valid."""
    scope = raw.value_end(document, raw.STRING, start + 4)
    if scope + 5 > end or scope + _read_length(document, scope)[0] != end:
        raise BsonError(f"the lengths inside the code at byte {start} contradict each other")
    _check_string(document, start + 4, scope)
    return scope


def _check_value(document: bytes, kind: int, start: int, end: int) -> None:
    if kind in (raw.STRING, raw.CODE, raw.SYMBOL):
        _check_string(document, start, end)
    elif kind == raw.DB_POINTER:
        _check_string(document, start, end - 12)
    elif kind == raw.REGEX:
        _check_text(document[start : document.index(0, start)])
    elif kind == raw.BOOL:
        if document[start] > 1:
            raise BsonError(f"the boolean at byte {start} is {document[start]}")
    elif kind == raw.BINARY and document[start + 4] == raw.OLD_BINARY_SUBTYPE:
        content = end - start - 9
        if content < 0 or _read_length(document, start + 5)[0] != content:
            raise BsonError(f"the lengths of the old binary value at byte {start} contradict each other")


def _check_string(document: bytes, start: int, end: int) -> None:
    if document[end - 1]:
        raise BsonError(f"the string at byte {start} has no final NUL")
    _check_text(document[start + 4 : end - 1])


def _check_text(text: bytes) -> None:
    try:
        text.decode()
    except UnicodeDecodeError:
        raise BsonError(f"the text {text[:40]!r} is not UTF-8") from None
