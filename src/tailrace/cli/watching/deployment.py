"""The deployment whose stream is opened: its address in the arguments, a client, and its errors."""

import argparse
import os
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, TypeVar

from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import (
    ConfigurationError,
    InvalidName,
    InvalidURI,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
)

from tailrace.cli.json_arguments import utf8_argument
from tailrace.cli.sources.connection import SOURCE_VARIABLE, connection_string, without_scheme
from tailrace.cli.sources.namespaces import namespace_argument
from tailrace.client.driver import may_pass
from tailrace.client.outage import Outage
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError, UsageError
from tailrace.sources.deployments.connection_string import ConnectionString, is_uri
from tailrace.sources.deployments.driver_errors import command_error, in_brief

T = TypeVar("T")
RawClient: TypeAlias = MongoClient[RawBSONDocument]
RawTarget: TypeAlias = RawClient | Database[RawBSONDocument] | Collection[RawBSONDocument]

OUTAGE_SECONDS: Final = 60.0
"""How long a server may be unreachable while a stream is read."""
_SELECTION: Final = "serverSelectionTimeoutMS"
_SELECTION_MS: Final = 10_000


def address_argument(arguments: argparse.Namespace) -> ConnectionString:
    """The deployment: the first of the words, which is taken, unless it is named elsewhere."""
    words: list[str] = arguments.words
    is_elsewhere = arguments.source_file is not None or SOURCE_VARIABLE in os.environ
    given = words.pop(0) if words and (is_uri(words[0]) or not is_elsewhere) else None
    uri = connection_string(arguments, given)
    if uri is None:
        raise UsageError("name the deployment: its address, or --source-file FILE with it")
    return uri


def raw_client(uri: ConnectionString) -> RawClient:
    """Return a client that does not decode documents: they are printed from their bytes."""
    defaults: dict[str, Any] = {} if _SELECTION.lower() in uri.lower() else {_SELECTION: _SELECTION_MS}
    try:
        return MongoClient(utf8_argument("ADDRESS", uri), document_class=RawBSONDocument, **defaults)
    except (InvalidURI, ConfigurationError, ValueError, OSError) as error:  # OSError: a file of certificates
        reason = without_scheme(uri.shown) or error
        raise UsageError(f"{uri.shown} is not the address of a deployment: {reason}") from None


def watched_target(client: RawClient, namespace: str | None) -> RawTarget:
    """The collection or database that a namespace names, or everything."""
    if namespace is None:
        return client
    database, collection = namespace_argument("NAMESPACE", namespace)
    try:
        return client[database] if collection is None else client[database][collection]
    except InvalidName as error:
        raise UsageError(f"{namespace!r} is not a namespace: {error}") from None


def opened_stream(opening: Callable[[], T]) -> T:
    """Open a stream; while the deployment elects a primary, wait as long as for one that is read.

    A deployment that does not answer at all is an error at once: its address may be wrong.
    """
    outage = Outage(OUTAGE_SECONDS)
    while True:
        try:
            return opening()
        except PyMongoError as error:
            is_away = isinstance(error, ServerSelectionTimeoutError)
            pause = outage.next_pause() if may_pass(error) and not is_away else None
            if pause is None:
                raise
            time.sleep(pause)


def stream_failure(error: PyMongoError, uri: ConnectionString, namespace: str | None) -> CommandError:
    """Turn the server's error, or the reason why it did not answer, into our own error."""
    if isinstance(error, OperationFailure):
        right = f"changeStream and find on {namespace or 'all databases'}"
        return command_error(error, uri, right)
    details = getattr(error, "details", None)
    if isinstance(details, Mapping) and "code" in details:
        return CommandError(details["code"], str(details.get("errmsg", "the server gave no reason")))
    return CommandError(ErrorCode.HostUnreachable, f"the deployment does not answer: {in_brief(error)}")
