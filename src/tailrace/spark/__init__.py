"""Tailrace on Spark: oplogs, the history, change streams as DataFrames, collections as tables.

>>> from tailrace.spark import register                                       # doctest: +SKIP
>>> register(spark)                                                            # doctest: +SKIP
>>> spark.readStream.format("tailrace.oplog").option("uri", uri).load()        # doctest: +SKIP
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tailrace.spark.dataframes import change_stream
    from tailrace.spark.mirroring import mirror

_SECRET_OPTIONS = "(?i)uri|connection[.]?string|^plan$"

__all__ = ["change_stream", "mirror", "register"]


def __getattr__(name: str) -> object:
    # The package can be imported without Spark.
    if name == "change_stream":
        from tailrace.spark.dataframes import change_stream

        return change_stream
    if name == "mirror":
        from tailrace.spark.mirroring import mirror

        return mirror
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def register(spark: "SparkSession") -> None:
    """Register the formats `tailrace`, `tailrace.oplog` and `tailrace.pipeline` in a session.

    Raises `UsageError` if the session's workers on this machine run a Python that has no Tailrace.
    """
    from tailrace.spark.workers import check_workers

    check_workers(spark)
    from tailrace.spark.change_stream_source import ChangeStreamSource
    from tailrace.spark.history_source import BatchSource
    from tailrace.spark.oplog_source import OplogDataSource

    spark.dataSource.register(BatchSource)
    spark.dataSource.register(OplogDataSource)
    spark.dataSource.register(ChangeStreamSource)
    # Without it Spark refuses a source that evaluates filters itself.
    _set(spark, "spark.sql.python.filterPushdown.enabled", "true")
    # Plans show the options of a source; a connection string may contain a password.
    hidden = spark.conf.get("spark.sql.redaction.options.regex") or ""
    if _SECRET_OPTIONS not in hidden:
        _set(spark, "spark.sql.redaction.options.regex", f"{hidden}|{_SECRET_OPTIONS}".strip("|"))


def _set(spark: "SparkSession", name: str, value: str) -> None:
    from pyspark.errors import PySparkException

    try:
        spark.conf.set(name, value)
    except PySparkException as error:
        # Declarative pipelines take settings from their specification only.
        if "SESSION_MUTATION" not in str(error.getCondition()):
            raise
