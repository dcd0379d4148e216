"""Micro-batches of the streaming reader of `format("tailrace")`, read as Spark reads them."""

import pickle
from typing import Any

from tailrace.spark.change_stream_source import ChangeStreamStreamReader


def events_between(
    reader: ChangeStreamStreamReader, start: dict[str, Any], end: dict[str, Any]
) -> list[bytes]:
    """The events of a micro-batch; reader and partitions get to the executor as copies."""
    executor: ChangeStreamStreamReader = pickle.loads(pickle.dumps(reader))
    return [
        event
        for partition in reader.partitions(start, end)
        for batch in executor.read(pickle.loads(pickle.dumps(partition)))
        for event in batch.column("event").to_pylist()
    ]
