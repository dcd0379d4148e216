"""Arguments that are text, Extended JSON, or of the form NAME=SOMETHING."""

from typing import Any

from tailrace.bson import documents, extjson
from tailrace.bson import raw as rawbson
from tailrace.errors import CommandError, UsageError


def utf8_argument(option: str, text: str) -> str:
    """Text that can be written as UTF-8; the shell hands over any bytes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UsageError(f"the argument of {option} is not UTF-8") from None
    return text


def value_argument(option: str, text: str) -> Any:
    """Any Extended JSON value."""
    kind, raw = _parsed(option, text)
    try:
        return documents.decode_value(raw, kind, 0, len(raw))
    except RecursionError:
        raise UsageError(f"the argument of {option} is nested too deeply") from None


def raw_document_argument(option: str, text: str) -> bytes:
    """A document as BSON, repeated fields included."""
    kind, raw = _parsed(option, text)
    if kind != rawbson.DOCUMENT:
        raise _not_a_document(option)
    return raw


def document_argument(option: str, text: str) -> dict[str, Any]:
    """A document."""
    value = value_argument(option, text)
    if not isinstance(value, dict):
        raise _not_a_document(option)
    return value


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


def _not_a_document(option: str) -> UsageError:
    return UsageError(f"{option} must be an Extended JSON document, such as {{}}")


def _parsed(option: str, text: str) -> tuple[int, bytes]:
    try:
        return extjson.loads_value(utf8_argument(option, text))
    except CommandError as error:
        raise UsageError(f"the argument of {option} does not parse: {error.message}") from None
