"""Mirror collections as Delta tables with the tasks of Spark."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from tailrace.errors import PipelineError
from tailrace.lake.columns.kinds import TableKind, kind_named
from tailrace.pipeline.mirror.engine import MirrorEngine
from tailrace.pipeline.mirror.given_schemas import given_schemas
from tailrace.pipeline.mirror.job import MirrorJob, log_end
from tailrace.pipeline.mirror.progress import MirrorProgress
from tailrace.pipeline.mirror.scope import mirrored_namespaces
from tailrace.pipeline.mirror.settings import MirrorSettings
from tailrace.places import history_place
from tailrace.sources.deployments.connection_string import ConnectionString
from tailrace.sources.deployments.deployment import DeploymentSource
from tailrace.spark.connections import Py4JError, Py4JJavaError, cores_of
from tailrace.spark.task_runs import SparkTasks

_COPYING_SECONDS: Final = 30.0
"""How long changes wait while collections are copied, so that they are merged into files less often"""
_TASKS_PER_CORE: Final = 4
"""A task may have several files: starting one takes a tenth of the time of merging a file"""


@dataclass(frozen=True, slots=True)
class MirrorResult:
    """Where the tables are, and which moment they show."""

    tables: Mapping[str, str]
    """The place of each collection's table, by namespace."""
    cluster_time: int
    """The cluster time at which the tables show the collections, as a 64-bit number."""
    rows: int


def mirror(
    spark: SparkSession,
    source: str,
    to: str | PathLike[str],
    *,
    namespaces: Sequence[str] = (),
    exclude: Sequence[str] = (),
    kind: str = TableKind.CURRENT,
    schema_rows: bool = False,
    deletion_vectors: bool = False,
    schema: Mapping[str, str | StructType] | None = None,
    interval: float | None = None,
    max_documents_per_second: float | None = None,
    recopy: Sequence[str] = (),
    ending: threading.Event | None = None,
) -> MirrorResult:
    """Copy collections to Delta tables below ``to``, and apply their changes.

    ``source`` is the connection string of a replica set or of a router, ``namespaces`` are databases,
    collections, globs and regular expressions between slashes, without those that ``exclude`` matches; none
    means all. ``kind`` says what rows are: ``current``, ``versions`` or ``changes``; with ``schema_rows``
    tables of changes have a row for each new column, too. ``schema`` has the columns of some collections, as
    DDL or as a schema of Spark; documents that do not fit are dead letters. With ``deletion_vectors`` changed
    rows are marked dead, and files are not written again for them; a table that has them keeps them.
    With an ``interval``, in seconds, it follows until ``ending`` is set. Else it returns when all tables show
    the collections at one cluster time. A further call continues where the tables are.
    """
    chosen, rows = mirrored_namespaces(namespaces, exclude), kind_named(kind)
    given = {
        name: found.json() if isinstance(found, StructType) else found
        for name, found in (schema or {}).items()
    }
    settings = MirrorSettings(
        root=history_place(to),
        chosen=chosen,
        kind=rows,
        schema_rows=schema_rows,
        deletion_vectors=deletion_vectors,
        schemas=given_schemas(given, chosen, rows),
        interval=interval,
        max_documents_per_second=max_documents_per_second,
        recopy=frozenset(recopy),
    )
    with DeploymentSource(ConnectionString(source)) as deployment:
        return run_mirror(spark, deployment, settings, ending)


def run_mirror(
    spark: SparkSession,
    source: DeploymentSource,
    settings: MirrorSettings,
    ending: threading.Event | None = None,
    changed: Callable[[MirrorProgress], None] = lambda _: None,
) -> MirrorResult:
    """Run a mirror; ``changed`` is called after every step."""
    cores = cores_of(spark)
    run = _Running(spark, _TASKS_PER_CORE * cores)
    recopy = settings.recopy

    def made(progress: MirrorProgress) -> MirrorEngine:
        nonlocal recopy
        engine = MirrorEngine(source, settings, run, cores, progress, recopy)
        recopy = frozenset()  # once, not after every failure
        return engine

    job = MirrorJob(made, settings.interval, _COPYING_SECONDS)
    job.progress.changed = changed
    engine = job.run(ending)
    if engine is None:
        return MirrorResult({}, 0, 0)
    log_end(engine)
    tables = {name: table.place for name, table in engine.tables.items()}
    return MirrorResult(tables, engine.through, sum(table.rows for table in engine.tables.values()))


class _Running(SparkTasks):
    """Tasks of a mirror; the end of Java is an error that no retry helps."""

    def __call__(self, work: Sequence[Callable[[], Any]]) -> list[Any]:
        try:
            return super().__call__(work)
        except (PySparkException, Py4JJavaError):
            raise
        except (Py4JError, OSError):
            raise PipelineError("the Java process of Spark has ended; start the mirror again") from None
