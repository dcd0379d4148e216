"""A collection as it was, as a DataFrame: tasks rebuild its documents from the history."""

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tailrace.lake.document_keys import id_text
from tailrace.lake.past.as_of import CollectionAsOf
from tailrace.pipeline.abandoned import expect_to_be_abandoned
from tailrace.spark.connections import cores_of

_SCHEMA: Final = "_id STRING, document BINARY"
_BATCH_ROWS: Final = 4096

expect_to_be_abandoned()


def as_of_frame(spark: SparkSession, collection: CollectionAsOf, parts: int | None = None) -> DataFrame:
    """The documents of `tailrace.as_of`: the columns `_id`, as Extended JSON, and `document`, as BSON.

    Each of ``parts`` tasks, by default one for each core, reads all changes of the collection and rebuilds
    its share of the documents.
    """
    count = parts or cores_of(spark)

    def rebuilt(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                yield from _batches(collection.share(number, count))

    return spark.range(count, numPartitions=count).mapInArrow(rebuilt, _SCHEMA)


def _batches(documents: Iterable[bytes]) -> Iterator[pa.RecordBatch]:
    held: list[bytes] = []
    for document in documents:
        held.append(document)
        if len(held) == _BATCH_ROWS:
            yield _batch(held)
            held = []
    if held:
        yield _batch(held)


def _batch(documents: list[bytes]) -> pa.RecordBatch:
    keys = [id_text(document) for document in documents]
    return pa.record_batch({"_id": pa.array(keys, pa.string()), "document": pa.array(documents, pa.binary())})
