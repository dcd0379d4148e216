"""Arguments that are Extended JSON, and arguments of the form NAME=SOMETHING."""

from typing import Any

from tailrace.bsonio import documents, extjson
from tailrace.bsonio import raw as rawbson
from tailrace.errors import CommandError, UsageError


def value_argument(option: str, text: str) -> Any:
    """Any Extended JSON value."""
    kind, raw = _parsed(option, text)
    return documents.decode_value(raw, kind, 0, len(raw))


def raw_document_argument(option: str, text: str) -> bytes:
    """A document as BSON, repeated fields included."""
    kind, raw = _parsed(option, text)
    if kind != rawbson.DOCUMENT:
        raise UsageError(f"{option} must be an Extended JSON document, such as {{}}")
    return raw


def document_argument(option: str, text: str) -> dict[str, Any]:
    """A document."""
    return documents.decode(raw_document_argument(option, text))


def stages_argument(option: str, text: str) -> list[dict[str, Any]]:
    """An array of documents."""
    value = value_argument(option, text)
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise UsageError(f"{option} must be an Extended JSON array of stages, such as []")
    return value


def named_argument(option: str, text: str, what: str) -> tuple[str, str]:
    """What stands before and behind the first ``=``."""
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise UsageError(f"{option} takes {what}, not {text!r}")
    return name, value


def _parsed(option: str, text: str) -> tuple[int, bytes]:
    try:
        return extjson.loads_value(text)
    except CommandError as error:
        raise UsageError(f"the argument of {option} does not parse: {error.message}") from None
