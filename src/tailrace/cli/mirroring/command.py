"""`tailrace mirror`: collections as Delta tables, from a copy on.

>>> parser = argparse.ArgumentParser()
>>> add_arguments(parser)
>>> parser.parse_args(["--source", "mongodb://localhost/", "--to", "lake", "--ns", "shop.orders"]).ns
['shop.orders']
"""

import argparse
import logging
import threading
from pathlib import Path
from typing import Final

from tailrace.cli.history_job import signals_set, spark_setting, started_session
from tailrace.cli.logs.arguments import add_log_arguments
from tailrace.cli.logs.output import log_output
from tailrace.cli.pipeline import duration
from tailrace.cli.private_files import private_files
from tailrace.cli.sources.connection import add_connection_arguments, connection_string, without_scheme
from tailrace.cli.sources.folders import history_argument
from tailrace.cli.spark_needs import require_spark
from tailrace.errors import PipelineError, SourceUnavailableError, StoreUnavailableError, UsageError
from tailrace.log_lines import fields, logging_to
from tailrace.sources.deployments.connection_string import ConnectionString, is_uri

HELP: Final = "mirror collections as Delta tables with Spark: a copy, then every change, exactly once"

_DEFAULT_INTERVAL: Final = 5.0
_LOG: Final = logging.getLogger("tailrace.mirror")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--source", metavar="URI", help="connection string of a replica set or of a cluster's router")
    add_connection_arguments(parser)
    add(
        "--to",
        type=history_argument,
        required=True,
        metavar="DIR|URL",
        help="the folder that the tables are in, as DATABASE/COLLECTION, or its URL in an object store",
    )
    add(
        "--ns",
        action="append",
        default=[],
        metavar="NAME",
        help="mirror only this database, collection, glob such as shop.order*, or regular expression between "
        "slashes; may be repeated; default: everything",
    )
    add(
        "--exclude",
        action="append",
        default=[],
        metavar="NAME",
        help="do not mirror these, named as in --ns; may be repeated",
    )
    add(
        "--kind",
        default="current",
        metavar="KIND",
        help="what the rows of the tables are: current for the documents as they are now (the default), "
        "versions for all versions of them, changes for all changes",
    )
    add(
        "--schema",
        metavar="FILE",
        help="a JSON file with the columns of some collections, such as "
        '{"shop.orders": "_id string, total decimal(10,2)"}; documents that do not fit are dead letters; '
        "default: the columns that the documents need",
    )
    add(
        "--schema-rows",
        action="store_true",
        help="with --kind changes: a row for each column that is added to a table, before those that need it",
    )
    add(
        "--deletion-vectors",
        action="store_true",
        help="mark changed rows dead, and do not write their files again: less work for a large table, which "
        "only readers with the deletion vectors of Delta can read from then on",
    )
    add("--once", action="store_true", help="end when the tables show the collections at one cluster time")
    add(
        "--trigger",
        type=duration,
        default=_DEFAULT_INTERVAL,
        metavar="TIME",
        help="how often changes are applied, such as 5s (the default)",
    )
    add(
        "--recopy",
        action="append",
        default=[],
        metavar="NAME",
        help="a collection to copy again from the beginning, while the others go on; may be repeated",
    )
    add(
        "--max-docs-per-second",
        type=float,
        metavar="N",
        help="the most documents that the copy reads in a second; default: no limit",
    )
    add(
        "--master",
        metavar="M",
        help="Spark's master, or sc://HOST[:PORT] for a server of Spark Connect; default: all cores of this "
        "machine",
    )
    add(
        "--spark-conf",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a Spark setting; may be repeated",
    )
    add_log_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    uri = _uri(arguments)
    if arguments.max_docs_per_second is not None and arguments.max_docs_per_second <= 0:
        raise UsageError("--max-docs-per-second has to be more than 0")
    for text in arguments.spark_conf:
        spark_setting(text)
    require_spark(arguments.master)
    try:
        with (
            private_files(),
            log_output(arguments.log_format, arguments.log_level) as handler,
            logging_to(handler, arguments.log_level),
            signals_set() as ending,
        ):
            _run(arguments, uri, ending)
    except (SourceUnavailableError, StoreUnavailableError) as error:
        raise PipelineError(str(error)) from None
    return 0


def _uri(arguments: argparse.Namespace) -> ConnectionString:
    given: str | None = arguments.source
    if given is not None and not is_uri(given):
        raise UsageError(without_scheme(given) or f"{given} is no connection string; write mongodb://HOST/")
    uri = connection_string(arguments, given)
    if uri is None:
        raise UsageError("give the deployment to mirror: --source URI")
    return uri


def _content(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UsageError(f"the file of schemas {path} cannot be read: {error}") from None


def _run(arguments: argparse.Namespace, uri: ConnectionString, ending: threading.Event) -> None:
    from tailrace.cli.mirroring.copy_bar import copy_progress
    from tailrace.lake.columns.kinds import kind_named
    from tailrace.pipeline.mirror.given_schemas import given_schemas, schemas_in
    from tailrace.pipeline.mirror.scope import mirrored_namespaces
    from tailrace.pipeline.mirror.settings import MirrorSettings
    from tailrace.sources.deployments.deployment import DeploymentSource
    from tailrace.spark.command_sessions import stop_session
    from tailrace.spark.mirroring import run_mirror

    chosen, kind = mirrored_namespaces(arguments.ns, arguments.exclude), kind_named(arguments.kind)
    given = {} if arguments.schema is None else schemas_in(_content(arguments.schema))
    settings = MirrorSettings(
        root=arguments.to,
        chosen=chosen,
        kind=kind,
        schema_rows=arguments.schema_rows,
        deletion_vectors=arguments.deletion_vectors,
        schemas=given_schemas(given, chosen, kind),
        interval=None if arguments.once else arguments.trigger,
        max_documents_per_second=arguments.max_docs_per_second,
        recopy=frozenset(arguments.recopy),
    )
    with DeploymentSource(uri) as source:
        _LOG.info("Starting Spark", extra=fields(to=arguments.to))
        spark = started_session(arguments, ending)
        if spark is None:
            return
        try:
            with copy_progress() as show:
                run_mirror(spark, source, settings, ending, show)
        except PipelineError:
            if not ending.is_set():  # a signal to end may have ended Java, too
                raise
        finally:
            stop_session(spark)
