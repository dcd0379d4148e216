"""Explain resume tokens to people.

A `TokenExplanation` has the parts of a token; None means that the token does not contain the part.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Final
from uuid import UUID

from tailrace.bson import extjson
from tailrace.bson import raw as rawbson
from tailrace.bson.documents import encode
from tailrace.bson.keystring import decode_prefix
from tailrace.errors import CommandError, UsageError
from tailrace.events.resume_token import HIGH_WATER_MARK, ResumeToken, cluster_time_of, key_bytes

WRITTEN_BY: Final = {
    0: "early MongoDB 4.0 releases",
    1: "MongoDB 4.0 to 6.0",
    2: "MongoDB 7.0 and later, and 6.1 to 6.3",
}

_NAMED_IDENTIFIER: Final = re.compile(rb"\x46\x3coperationType\0\x3c([^\0]+)\0[^\xff]")
_UUID_SIZE: Final = 16
_CUT_MARKS: Final = ("...", "\N{HORIZONTAL ELLIPSIS}")
_SHORTEST: Final = 18
"""Hex digits of a token up to the end of its cluster time."""
_REMEDY: Final = "give the whole _data (and _typeBits, if there are any), or end a shortened one with ..."


class TokenKind(Enum):
    """What a token names."""

    EVENT = "event"
    HIGH_WATER_MARK = "high water mark"
    INVALIDATE = "invalidate"
    FRAGMENT = "fragment"


@dataclass(frozen=True, slots=True)
class TokenExplanation:
    """The parts of a token, taken apart one step further than `ResumeToken` does."""

    cluster_time: int
    version: int | None = None
    kind: TokenKind | None = None
    txn_op_index: int | None = None
    uuid: bytes | None = None
    operation_type: str | None = None
    """As the token names it; version 1 names only the types that show in expanded streams."""
    document_key: bytes | None = None
    operation_description: bytes | None = None
    fragment: int | None = None
    is_cut_off: bool = False

    @property
    def operation(self) -> str | None:
        """The operation in words."""
        if self.kind in (None, TokenKind.HIGH_WATER_MARK):
            return None
        cause = self.operation_type or self._unnamed_operation()
        return f"invalidate, caused by {cause}" if self.kind is TokenKind.INVALIDATE and cause else cause

    def _unnamed_operation(self) -> str | None:
        if self.is_cut_off or self.version is None:
            return None
        without_name = f"version {self.version} does not say which"
        if self.document_key is not None:
            return f"a document change, insert, update, replace or delete ({without_name})"
        if self.uuid is not None:
            return f"a change of the collection such as drop or rename ({without_name})"
        return f"a change of the database such as dropDatabase ({without_name})"

    @property
    def meaning(self) -> str:
        """What resuming from the token does, in one sentence."""
        if self.kind is None:
            return "The token is cut off before its kind, so it cannot be resumed from; give the whole token."
        if self.is_cut_off:
            return "The token is cut off, so it cannot be resumed from; the whole token is needed."
        if self.kind is TokenKind.HIGH_WATER_MARK:
            return "Resuming returns every event at this cluster time or later; no event has to match."
        if self.kind is TokenKind.INVALIDATE:
            return "Only startAfter accepts it: a new stream begins after the event that ended the old one."
        if self.kind is TokenKind.FRAGMENT:
            return "Resuming splits the same event again and continues with the next fragment."
        return "Resuming returns the events after this one, which must still be in the oplog and the stream."


def explain_token(token: str | Mapping[str, Any] | bytes) -> TokenExplanation:
    """Explain a token: the hex text of `_data`, or the token document, also as raw BSON.

    A text that ends in ``...``, as documentation and log lines show tokens, is explained up to there.
    Raises `CommandError` if it is not a token, `UsageError` if it is too short.

    >>> explain_token("8260C13C93000000012B022...").version
    1
    """
    if isinstance(token, str):
        document = encode({"_data": token})
    else:
        document = token if isinstance(token, bytes) else encode(dict(token))
    data = rawbson.find(document, b"_data")
    if data is not None and data[0] == rawbson.STRING:
        text = rawbson.string_value(document, data[2], data[3])
        for mark in _CUT_MARKS:
            if text.endswith(mark):
                return _explain_cut_off(text.removesuffix(mark))
    try:
        return _explain_whole(ResumeToken.parse(document))
    except CommandError as error:
        raise CommandError(error.code, f"{error.message}; {_REMEDY}") from None


def _explain_whole(token: ResumeToken) -> TokenExplanation:
    identifier = token.identifier
    operation_type, document_key, description = None, None, None
    if identifier is not None:
        if token.version >= 2 or _names_its_operation(identifier):
            operation_type = token.operation_type
            document_key = rawbson.subdocument(identifier, b"documentKey")
            description = rawbson.subdocument(identifier, b"operationDescription")
        else:
            document_key = identifier
    return TokenExplanation(
        token.cluster_time,
        token.version,
        _kind(token),
        token.txn_op_index,
        token.uuid,
        operation_type,
        document_key,
        description,
        token.fragment,
    )


def _explain_cut_off(data: str) -> TokenExplanation:
    if len(data) < _SHORTEST:
        raise UsageError(
            f"{data}... is cut off within its cluster time; give at least the first {_SHORTEST} digits"
        )
    cluster_time = cluster_time_of(data)
    # An odd digit at the end is half a byte.
    key = key_bytes(data[: len(data) // 2 * 2])
    values, end = decode_prefix(key)
    version = _number(values, 1)
    # Version 0 has neither kind nor invalidate flag in front of the UUID.
    index_at, uuid_at = (2, 3) if version == 0 else (3, 5)
    named = _NAMED_IDENTIFIER.match(key, end) if version == 2 else None
    return TokenExplanation(
        cluster_time,
        version,
        _kind_so_far(version, values),
        _number(values, index_at),
        _uuid(values, uuid_at),
        named[1].decode(errors="replace") if named else None,
        is_cut_off=True,
    )


def _number(values: list[tuple[int, bytes]], position: int) -> int | None:
    if len(values) <= position or values[position][0] not in (rawbson.INT32, rawbson.BOOL):
        return None
    return int.from_bytes(values[position][1], "little", signed=True)


def _uuid(values: list[tuple[int, bytes]], position: int) -> bytes | None:
    if len(values) <= position or values[position][0] != rawbson.BINARY:
        return None
    content = values[position][1][5:]
    return content if len(content) == _UUID_SIZE else None


def _kind(token: ResumeToken) -> TokenKind:
    if token.kind == HIGH_WATER_MARK:
        return TokenKind.HIGH_WATER_MARK
    if token.fragment is not None:
        return TokenKind.FRAGMENT
    return TokenKind.INVALIDATE if token.from_invalidate else TokenKind.EVENT


def _kind_so_far(version: int | None, values: list[tuple[int, bytes]]) -> TokenKind | None:
    if version == 0:
        return TokenKind.EVENT
    if _number(values, 2) == HIGH_WATER_MARK:
        return TokenKind.HIGH_WATER_MARK
    from_invalidate = _number(values, 4)
    if from_invalidate is None:
        return None
    return TokenKind.INVALIDATE if from_invalidate else TokenKind.EVENT


def _names_its_operation(identifier: bytes) -> bool:
    """Whether an identifier of an old version names its operation, and is not just a document key."""
    names = [name for _, name, _, _ in rawbson.elements(identifier)]
    return names[:1] == [b"operationType"] and names[1:] in ([], [b"documentKey"], [b"operationDescription"])


# -- in words -------------------------------------------------------------------------------------


def token_rows(explanation: TokenExplanation) -> list[tuple[str, str]]:
    """The parts that a token has, each with its name."""
    rows: list[tuple[str, str | None]] = [
        ("cluster time", _time(explanation.cluster_time)),
        ("version", _version(explanation.version)),
        ("kind", _kind_in_words(explanation)),
        ("transaction index", _index(explanation)),
        ("collection UUID", None if explanation.uuid is None else str(UUID(bytes=explanation.uuid))),
        ("operation", explanation.operation),
        ("document key", _relaxed(explanation.document_key)),
        ("description", _relaxed(explanation.operation_description)),
        ("cut off", "the rest of the token is not there" if explanation.is_cut_off else None),
    ]
    return [(label, text) for label, text in rows if text is not None]


def iso_second(cluster_time: int) -> str:
    """The second of a cluster time, in UTC."""
    return datetime.fromtimestamp(cluster_time >> 32, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _time(cluster_time: int) -> str:
    seconds, increment = cluster_time >> 32, cluster_time & 0xFFFFFFFF
    return f"{iso_second(cluster_time)}, increment {increment} (Timestamp({seconds}, {increment}))"


def _version(version: int | None) -> str | None:
    return None if version is None else f"{version}, written by {WRITTEN_BY.get(version, 'no known server')}"


def _kind_in_words(explanation: TokenExplanation) -> str | None:
    if explanation.kind is None:
        return None
    if explanation.fragment is not None:
        return f"fragment {explanation.fragment + 1} of a split event"
    return explanation.kind.value


def _index(explanation: TokenExplanation) -> str | None:
    index = explanation.txn_op_index
    if index is None or explanation.kind is TokenKind.HIGH_WATER_MARK:
        return None
    return f"{index}, operation number {index + 1} of its transaction" if index else "0"


def _relaxed(document: bytes | None) -> str | None:
    """Extended JSON with plain numbers, for reading."""
    if document is None:
        return None
    return json.dumps(json.loads(extjson.dumps_canonical(document), object_hook=_plain), ensure_ascii=False)


def _plain(value: dict[str, Any]) -> Any:
    match value:
        case {"$numberInt": text} | {"$numberLong": text} if len(value) == 1:
            return int(text)
        case {"$numberDouble": ("NaN" | "Infinity" | "-Infinity")}:
            return value
        case {"$numberDouble": text} if len(value) == 1:
            return float(text)
        case {"$date": int(milliseconds)} if 0 <= milliseconds < 253402300800000 and len(value) == 1:
            moment = datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
            return {"$date": moment.removesuffix("+00:00") + "Z"}
    return value
