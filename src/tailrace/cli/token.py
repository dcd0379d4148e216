"""`tailrace token`: explain a resume token."""

import argparse
from typing import Any, Final

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
    iso_second,
    token_rows,
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
    lines = [f"{label:<{_LABEL_WIDTH}}{text}" for label, text in token_rows(explanation)]
    return "\n".join([*lines, "", explanation.meaning])


def _as_json(explanation: TokenExplanation) -> str:
    fields: dict[str, Any] = {
        "clusterTime": to_timestamp(explanation.cluster_time),
        "time": iso_second(explanation.cluster_time),
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
