"""`tailrace token`: explain a resume token."""

import argparse
import json
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from bson import Binary

from tailrace.bson import extjson
from tailrace.bson import raw as rawbson
from tailrace.bson.documents import encode
from tailrace.cli.json_arguments import raw_document_argument, utf8_argument
from tailrace.cli.output import print_line
from tailrace.events.cluster_time import to_timestamp
from tailrace.events.token_explanation import (
    WRITTEN_BY,
    TokenExplanation,
    TokenKind,
    explain_token,
)

HELP: Final = "explain a resume token"

_LABEL_WIDTH: Final = 18
_UUID_SUBTYPE: Final = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "token",
        metavar="TOKEN",
        help="the hex text of _data, or the token document as Extended JSON; a text that ends in ... is "
        "explained up to there",
    )
    parser.add_argument("--json", action="store_true", help="print one canonical Extended JSON object")


def run(arguments: argparse.Namespace) -> int:
    explanation = _read(arguments.token.strip())
    print_line(_as_json(explanation) if arguments.json else _as_text(explanation))
    return 0


def _read(text: str) -> TokenExplanation:
    if text.startswith("{"):
        return explain_token(raw_document_argument("TOKEN", text))
    return explain_token(utf8_argument("TOKEN", text))


def _as_text(explanation: TokenExplanation) -> str:
    lines = [f"{label:<{_LABEL_WIDTH}}{text}" for label, text in _rows(explanation) if text is not None]
    return "\n".join([*lines, "", explanation.meaning])


def _rows(explanation: TokenExplanation) -> list[tuple[str, str | None]]:
    return [
        ("cluster time", _time(explanation.cluster_time)),
        ("version", _version(explanation.version)),
        ("kind", _kind(explanation)),
        ("transaction index", _index(explanation)),
        ("collection UUID", None if explanation.uuid is None else str(UUID(bytes=explanation.uuid))),
        ("operation", explanation.operation),
        ("document key", _relaxed(explanation.document_key)),
        ("description", _relaxed(explanation.operation_description)),
        ("cut off", "the rest of the token is not there" if explanation.is_cut_off else None),
    ]


def _iso(cluster_time: int) -> str:
    return datetime.fromtimestamp(cluster_time >> 32, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _time(cluster_time: int) -> str:
    seconds, increment = cluster_time >> 32, cluster_time & 0xFFFFFFFF
    return f"{_iso(cluster_time)}, increment {increment} (Timestamp({seconds}, {increment}))"


def _version(version: int | None) -> str | None:
    return None if version is None else f"{version}, written by {WRITTEN_BY.get(version, 'no known server')}"


def _kind(explanation: TokenExplanation) -> str | None:
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


def _as_json(explanation: TokenExplanation) -> str:
    fields: dict[str, Any] = {
        "clusterTime": to_timestamp(explanation.cluster_time),
        "time": _iso(explanation.cluster_time),
        "version": explanation.version,
        "writtenBy": None if explanation.version is None else WRITTEN_BY.get(explanation.version),
        "kind": None if explanation.kind is None else explanation.kind.value,
        "txnOpIndex": explanation.txn_op_index,
        "fromInvalidate": None if explanation.kind is None else explanation.kind is TokenKind.INVALIDATE,
        "uuid": None if explanation.uuid is None else Binary(explanation.uuid, _UUID_SUBTYPE),
        "operationType": explanation.operation_type,
        "operation": explanation.operation,
        "documentKey": explanation.document_key,
        "operationDescription": explanation.operation_description,
        "fragmentNum": explanation.fragment,
        "cutOff": explanation.is_cut_off,
        "meaning": explanation.meaning,
    }
    return extjson.dumps_canonical(
        rawbson.document(*(_element(name, value) for name, value in fields.items() if value is not None))
    )


def _element(name: str, value: Any) -> bytes:
    # A document is passed as bytes and not decoded, so that its fields are shown unchanged.
    if type(value) is bytes:
        return rawbson.element(rawbson.DOCUMENT, name.encode(), value)
    return rawbson.body(encode({name: value}))
