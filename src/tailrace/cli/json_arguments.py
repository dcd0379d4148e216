"""Parse arguments that are text, Extended JSON, or of the form NAME=VALUE."""

import re
from collections.abc import Callable, Collection, Iterable
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

from bson import Timestamp

from tailrace.bson import documents, extjson
from tailrace.bson import raw as rawbson
from tailrace.errors import CommandError, UsageError
from tailrace.events.stream_release import StreamRelease
from tailrace.places import local_path

_LONGEST_TIME: Final = 16
"""Digits of a time without punctuation; a token has more."""
_HEX: Final = re.compile(r"(?:[0-9A-Fa-f]{2})+")


def utf8_argument(option: str, text: str) -> str:
    """Return the text if it can be encoded as UTF-8; a shell passes any bytes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UsageError(f"the argument of {option} is not UTF-8") from None
    return text


def value_argument(option: str, text: str) -> Any:
    """Any Extended JSON value, decoded."""
    kind, raw = _parsed(option, text)
    try:
        return documents.decode_value(raw, kind, 0, len(raw))
    except RecursionError:
        raise UsageError(f"the argument of {option} is nested too deeply") from None


def raw_document_argument(option: str, text: str) -> bytes:
    """A document as BSON; repeated fields are preserved."""
    kind, raw = _parsed(option, text)
    if kind != rawbson.DOCUMENT:
        raise _not_a_document(option)
    return raw


def document_argument(option: str, text: str) -> dict[str, Any]:
    value = value_argument(option, text)
    if not isinstance(value, dict):
        raise _not_a_document(option)
    return value


def is_token(text: str) -> bool:
    """Whether an argument is a resume token, and not a time.

    >>> is_token("8263515EAC000000022B0429296E1404"), is_token('{"_data": "82"}'), is_token("20261117")
    (True, True, False)
    """
    return '"_data"' in text or (len(text) > _LONGEST_TIME and _HEX.fullmatch(text.strip()) is not None)


def token_argument(option: str, text: str) -> dict[str, Any]:
    """A resume token: the hex text of `_data`, or the document as Extended JSON."""
    text = text.strip()
    if _HEX.fullmatch(text):
        return {"_data": text}
    if not text.startswith("{"):
        raise UsageError(
            f"{option} takes a resume token: the hex text of its _data, or the whole document as JSON, "
            f"not {text!r}"
        )
    return document_argument(option, text)


def time_argument(option: str, text: str) -> Any:
    """A cluster time: JSON, or the first of a second in ISO 8601, which is in UTC if it has no offset."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        if text.lstrip().startswith("{"):
            return value_argument(option, text)
        raise UsageError(
            f"{option} takes a time such as 2026-11-17T20:00:00Z, "
            f'or {{"$timestamp": {{"t": 1700000003, "i": 1}}}}, not {text!r}'
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    try:
        return Timestamp(int(moment.timestamp()), 1)
    except ValueError:
        raise UsageError(f"the time of {option} has to be from 1970 to 2106") from None


def stages_argument(option: str, text: str) -> list[dict[str, Any]]:
    value = value_argument(option, text)
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise UsageError(f"{option} must be an Extended JSON array of stages, such as []")
    return value


def named_argument(option: str, text: str, what: str) -> tuple[str, str]:
    """Split at the first ``=``; ``what`` names the form in the error, such as ``NAME=PATH``."""
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise UsageError(f"{option} takes {what}, not {text!r}")
    return name, value


Place: TypeAlias = Callable[[str, str], str]
"""Returns the place that a path names; `UsageError`, which calls it by the second argument, if it may not."""


def paths_by_name(
    option: str, texts: Iterable[str], what: str, place: Place = local_path
) -> dict[str, list[str]]:
    """Group arguments of the form NAME=PATH by name.

    >>> paths_by_name("--shard", ["a=1.bson", "b=2.bson", "a=3.bson"], "NAME=PATH")
    {'a': ['1.bson', '3.bson'], 'b': ['2.bson']}
    """
    paths: dict[str, list[str]] = {}
    for text in texts:
        name, path = named_argument(option, text, what)
        paths.setdefault(name, []).append(place(path, f"the path of {option}"))
    return paths


def shard_and_path(text: str, shards: Collection[str], place: Place = local_path) -> tuple[str | None, str]:
    """Split [SHARD=]PATH; the shard is None if none of ``shards`` is named.

    >>> shard_and_path("a=images.bson", ["a", "b"]), shard_and_path("x=y.bson", ["a", "b"])
    (('a', 'images.bson'), (None, 'x=y.bson'))
    """
    shard, equals, path = text.partition("=")
    found = (shard, path) if equals and shard in shards else (None, text)
    return found[0], place(found[1], "a dump")


def _not_a_document(option: str) -> UsageError:
    return UsageError(f"{option} must be an Extended JSON document, such as {{}}")


def _parsed(option: str, text: str) -> tuple[int, bytes]:
    try:
        return extjson.loads_value(utf8_argument(option, text))
    except CommandError as error:
        raise UsageError(f"the argument of {option} does not parse: {error.message}") from None


def release_argument(version: str | None) -> StreamRelease | None:
    """The release that `--server-version` names, if it is given."""
    return None if version is None else StreamRelease.parse(utf8_argument("--server-version", version))
