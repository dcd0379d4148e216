"""A change stream as a DataFrame, from Python.

>>> from tailrace.spark.dataframes import option_values
>>> option_values("mongodb://localhost", "shop.orders", {"fullDocument": "updateLookup"}, [])
{'uri': 'mongodb://localhost', 'ns': 'shop.orders', 'options': '{"fullDocument": "updateLookup"}'}
"""

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from tailrace.bson import documents, extjson
from tailrace.errors import CommandError, UsageError
from tailrace.events.scope import Scope, ScopeKind
from tailrace.pipeline.failure import reported_error
from tailrace.pipeline.options.event_options import read_options
from tailrace.pipeline.options.option_values import PASSWORD_FILE, STORE_FILE
from tailrace.pipeline.store_file import private_store_file
from tailrace.sources.deployments.connection_string import ConnectionString, is_uri, secret_file
from tailrace.spark import register
from tailrace.spark.change_stream_source import FORMAT
from tailrace.spark.connections import is_connect

Source: TypeAlias = (
    str | os.PathLike[str] | Mapping[str, str | os.PathLike[str] | Sequence[str | os.PathLike[str]]]
)
"""A connection string; a history, by folder or URL; a file or folder of archived entries, or each shard's."""


def change_stream(
    spark: SparkSession,
    source: Source,
    scope: str | Scope | None = None,
    options: Mapping[str, Any] | None = None,
    pipeline: Sequence[Mapping[str, Any]] = (),
    *,
    streaming: bool = False,
    schema: StructType | str | None = None,
    server_version: str | None = None,
    **rows: str | int | bool | Sequence[str],
) -> DataFrame:
    """Return the change stream on ``source`` with this scope, `$changeStream` options and pipeline.

    ``scope`` is a namespace, a database, or nothing for the whole cluster. ``rows`` are further options of
    ``format("tailrace")``, such as ``documentsAs="json"`` or ``columns=["token", "fullDocument"]``.
    ``server_version`` is the MongoDB release whose streams are imitated; by default that of the source.
    Errors in options and pipeline are raised here, as `CommandError` with MongoDB's code or as `UsageError`.
    """
    values = option_values(source, scope, options or {}, pipeline)
    if is_connect(spark):
        _keep_here(values)
    values |= {name: _option(value) for name, value in rows.items()}
    if server_version is not None:
        values["serverVersion"] = server_version
    request = read_options(values)
    request.spec(is_cluster=request.source.names_shards)
    register(spark)
    reader: Any = spark.readStream if streaming else spark.read
    reader = reader.format(FORMAT).options(**values)
    if schema is not None:
        reader = reader.schema(schema)
    frame: DataFrame = reader.load()
    return frame


def _keep_here(values: dict[str, str]) -> None:
    """Do not send the names of private files of this machine to a server, which does not have them."""
    values.pop(STORE_FILE, None)
    if values.pop(PASSWORD_FILE, None) is not None:
        raise UsageError(
            "on Spark Connect a connection string has no password; name a file of the server that has it, as "
            "passwordFile"
        )


def option_values(
    source: Source,
    scope: str | Scope | None,
    options: Mapping[str, Any],
    pipeline: Sequence[Mapping[str, Any]],
) -> dict[str, str]:
    """Return the options of ``format("tailrace")`` for a stream."""
    values = _source_values(source)
    namespace = _namespace(scope)
    if namespace is not None:
        values["ns"] = namespace
    if options:
        values["options"] = extjson.dumps_canonical(documents.encode(options))
    if pipeline:
        whole = extjson.dumps_canonical(documents.encode({"pipeline": list(pipeline)}))
        values["pipeline"] = whole[len('{"pipeline": ') : -1]
    return values


def _source_values(source: Source) -> dict[str, str]:
    if isinstance(source, Mapping):
        paths = {
            name: [os.fspath(found)]
            if isinstance(found, str | os.PathLike)
            else [os.fspath(path) for path in found]
            for name, found in source.items()
        }
        return {"oplogs": json.dumps(paths)}
    text = os.fspath(source)
    if is_uri(text):
        return _uri_values(ConnectionString(text))
    file = private_store_file(text)
    return {"path": text} if file is None else {"path": text, STORE_FILE: file}


def _uri_values(uri: ConnectionString) -> dict[str, str]:
    """Spark shows options in plans: they name a private file instead of the password."""
    if uri.password is None:
        return {"uri": str(uri)}
    return {"uri": uri.without_password(), PASSWORD_FILE: secret_file(uri.password)}


def _namespace(scope: str | Scope | None) -> str | None:
    if scope is None or isinstance(scope, str):
        return scope
    if scope.kind is ScopeKind.CLUSTER:
        return None
    return scope.db if scope.coll is None else f"{scope.db}.{scope.coll}"


def _option(value: str | int | bool | Sequence[str]) -> str:
    if not isinstance(value, str | int):
        return ",".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def stream_error(error: BaseException) -> CommandError | None:
    """Return the error of the stream that made a query fail; None if the query failed for another reason."""
    reported = reported_error(error)
    return None if reported is None else reported.command_error()
