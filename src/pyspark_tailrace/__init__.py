"""Makes ``format("tailrace")`` known to Spark, which looks for modules with names such as this one.

A session in which `tailrace.register` was not called evaluates all filters itself: Spark refuses a source
that takes them, unless a setting of the session allows it. `register` sets it, and replaces this source.
"""

from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.types import StructType

from tailrace.pipeline.options.event_options import read_options
from tailrace.spark.change_stream_source import ChangeStreamReader, ChangeStreamSource

__all__ = ["DefaultSource"]


class DefaultSource(ChangeStreamSource):
    """`ChangeStreamSource` for sessions that did not register it."""

    def reader(self, schema: StructType) -> DataSourceReader:
        return _UnfilteredReader(read_options(self.options), schema)


class _UnfilteredReader(ChangeStreamReader):
    pushFilters = DataSourceReader.pushFilters  # noqa: N815 - Spark's name
