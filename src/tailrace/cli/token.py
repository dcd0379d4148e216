"""`tailrace token`: explain a resume token, and show whether it can be resumed at a place."""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from bson import Binary

from tailrace.bson import extjson
from tailrace.bson import raw as rawbson
from tailrace.bson.documents import encode
from tailrace.cli.json_arguments import (
    document_argument,
    raw_document_argument,
    stages_argument,
    utf8_argument,
)
from tailrace.cli.output import print_line
from tailrace.cli.sources.connection import add_connection_arguments, connection_string
from tailrace.errors import UsageError
from tailrace.events.cluster_time import to_timestamp
from tailrace.events.token_explanation import (
    WRITTEN_BY,
    TokenExplanation,
    TokenKind,
    explain_token,
    iso_second,
    token_rows,
)
from tailrace.places import history_place
from tailrace.sources.deployments.connection_string import is_uri

if TYPE_CHECKING:
    from tailrace.cli.asking.resumption import Resumption

HELP: Final = "explain a resume token, and show where it can be resumed"

_LABEL_WIDTH: Final = 18
_UUID_SUBTYPE: Final = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "token",
        metavar="TOKEN",
        help="the hex text of _data, or the token document as Extended JSON; a text that ends in ... is "
        "explained up to there",
    )
    parser.add_argument(
        "--source",
        metavar="URI|DIR",
        help="also show whether it can be resumed there now: at a deployment, or in a history",
    )
    add_connection_arguments(parser)
    parser.add_argument(
        "--ns",
        metavar="DB[.COLL]",
        help="what the stream of the token watches; default: the whole deployment",
    )
    parser.add_argument(
        "--pipeline",
        metavar="JSON",
        help="the stages of the stream that is to resume: also show whether they hide the token's event",
    )
    parser.add_argument("--json", action="store_true", help="print one canonical Extended JSON object")


def run(arguments: argparse.Namespace) -> int:
    text = arguments.token.strip()
    explanation = _read(text)
    resumption = _resumption(arguments, text, explanation)
    form = _as_json if arguments.json else _as_text
    print_line(form(explanation, resumption))
    return 0 if resumption is None or resumption.is_possible else 1


def _resumption(
    arguments: argparse.Namespace, text: str, explanation: TokenExplanation
) -> "Resumption | None":
    source = arguments.source
    pipeline = None
    if arguments.pipeline is not None:
        pipeline = stages_argument("--pipeline", arguments.pipeline)
        if source is None or not is_uri(source):
            raise UsageError("--pipeline is tried on a deployment; name it with --source URI")
    if source is None and arguments.source_file is None:
        return None
    if explanation.is_cut_off:
        raise UsageError("the token is cut off, so nobody can resume from it; give the whole token")
    # imported when needed: an explanation needs neither a driver nor a table
    from tailrace.cli.asking.resumption import at_deployment, at_history

    token = document_argument("TOKEN", text) if text.startswith("{") else {"_data": text}
    if source is not None and not is_uri(source):
        return at_history(history_place(source), token, explanation)
    uri = connection_string(arguments, source, from_environment=False)
    assert uri is not None
    return at_deployment(uri, token, explanation, arguments.ns, pipeline)


def _read(text: str) -> TokenExplanation:
    if text.startswith("{"):
        return explain_token(raw_document_argument("TOKEN", text))
    return explain_token(utf8_argument("TOKEN", text))


def _as_text(explanation: TokenExplanation, resumption: "Resumption | None") -> str:
    lines = [*_lines(token_rows(explanation)), "", explanation.meaning]
    if resumption is not None:
        lines += ["", *_lines(resumption.rows())]
    return "\n".join(lines)


def _lines(rows: Sequence[tuple[str, str | None]]) -> list[str]:
    return [f"{label:<{_LABEL_WIDTH}}{text}" for label, text in rows if text is not None]


def _as_json(explanation: TokenExplanation, resumption: "Resumption | None") -> str:
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
        "resumption": None if resumption is None else resumption.as_document(),
    }
    return extjson.dumps_canonical(
        rawbson.document(*(_element(name, value) for name, value in fields.items() if value is not None))
    )


def _element(name: str, value: Any) -> bytes:
    # A document is passed as bytes and not decoded, so that its fields are shown unchanged.
    if type(value) is bytes:
        return rawbson.element(rawbson.DOCUMENT, name.encode(), value)
    return rawbson.body(encode({name: value}))
