"""A field of events that is made up in one place appears wherever events are shown."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from bson import decode
from pyspark.sql.types import BinaryType, LongType, StringType, StructType

from tailrace import replay
from tailrace.bson import raw as rawbson
from tailrace.events.layout import event as event_layout
from tailrace.events.layout.event import Field
from tailrace.events.oplog_entry import parse_entry
from tailrace.lake.bulk.rows import BulkRows
from tailrace.lake.event_reader import EventReader
from tailrace.lake.row_kinds import RowKinds
from tailrace.lake.rows import whole_events
from tailrace.lake.verbatim import split_runs
from tailrace.pipeline.rows.schema import Layout, Output
from tailrace.spark.row_batches import RowBatches
from tailrace.testing.replica_set import ReplicaSet
from tests.support.history import dump
from tests.support.workload import PLAIN_WRITES, generate

NAME = "documentSize"
CHANGES = {"insert", "update", "replace", "delete"}
"""#TODO"""
