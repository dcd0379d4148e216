"""MongoDB change streams in Python: oplogs in, change streams out.

Everything for users is here, and is imported on first use. `import tailrace` imports neither PySpark nor LMDB
nor PyMongo.

| Name | For |
|---|---|
| `watch`, `awatch` | a change stream of any MongoDB deployment, which resumes after errors |
| `process`, `process_async` | every event handled at least once, with a stored position |
| `consume`, `aconsume`, `ConsumerGroup`, `AsyncConsumerGroup` | a stream that several workers share |
| `replay` | the events of archived oplogs |
| `read_history` | the events of a history, also with images that were rebuilt |
| `record_snapshot` | the documents that were there before a history began, stored with it |
| `change_stream`, `register` | change streams as DataFrames on Spark |
| `mirror` | collections as Delta tables, with Spark |
| `HistoryTable` | reading the history table |
| `bson_to_json`, `bson_to_columns` | documents of the history for DuckDB, Polars and Arrow |
| `as_of` | a collection as it was at a moment, rebuilt from a history |
| `explain_token` | what a resume token contains |
| `ReplicaSet`, `ShardedCluster` | a MongoDB deployment inside a test |
"""

from importlib import import_module

TYPE_CHECKING = False  # as type checkers understand it; importing typing would take longer than the rest
if TYPE_CHECKING:
    from tailrace.cli.spark_needs import missing_for_spark
    from tailrace.client.aio import AsyncChangeStream, awatch, watch_async
    from tailrace.client.errors import MissingResumeTokenError
    from tailrace.client.events import EventRecord
    from tailrace.client.groups.aio import AsyncConsumer, aconsume
    from tailrace.client.groups.blocking import Consumer, consume
    from tailrace.client.groups.control import AsyncConsumerGroup, ConsumerGroup
    from tailrace.client.groups.delivery import DeadLetter, Delivery
    from tailrace.client.groups.handling import Retries
    from tailrace.client.processing import process, process_async
    from tailrace.client.sync import ChangeStream, watch
    from tailrace.client.token_store import (
        AsyncCollectionTokenStore,
        AsyncTokenStore,
        CollectionTokenStore,
        FileTokenStore,
        TokenStore,
    )
    from tailrace.error_codes import ErrorCode
    from tailrace.errors import CommandError, DamagedInputError, HistoryError, TailraceError, UsageError
    from tailrace.events.token_explanation import TokenExplanation, explain_token
    from tailrace.lake.columns.decoded import bson_to_columns, bson_to_json
    from tailrace.lake.past.as_of import CollectionAsOf, as_of
    from tailrace.lake.table import HistoryTable
    from tailrace.log.replay import replay
    from tailrace.pipeline.base_recorder import RecordedRange, record_snapshot
    from tailrace.pipeline.read_history import read_history
    from tailrace.spark import change_stream, mirror, register
    from tailrace.testing.older_servers import older_servers_accepted
    from tailrace.testing.replica_set import ReplicaSet
    from tailrace.testing.sharded_cluster import ShardedCluster

__version__ = "0.2.0"

__all__ = [
    "AsyncChangeStream",
    "AsyncCollectionTokenStore",
    "AsyncConsumer",
    "AsyncConsumerGroup",
    "AsyncTokenStore",
    "ChangeStream",
    "CollectionAsOf",
    "CollectionTokenStore",
    "CommandError",
    "Consumer",
    "ConsumerGroup",
    "DamagedInputError",
    "DeadLetter",
    "Delivery",
    "ErrorCode",
    "EventRecord",
    "FileTokenStore",
    "HistoryError",
    "HistoryTable",
    "MissingResumeTokenError",
    "RecordedRange",
    "ReplicaSet",
    "Retries",
    "ShardedCluster",
    "TailraceError",
    "TokenExplanation",
    "TokenStore",
    "UsageError",
    "__version__",
    "aconsume",
    "as_of",
    "awatch",
    "bson_to_columns",
    "bson_to_json",
    "change_stream",
    "consume",
    "explain_token",
    "mirror",
    "missing_for_spark",
    "older_servers_accepted",
    "process",
    "process_async",
    "read_history",
    "record_snapshot",
    "register",
    "replay",
    "watch",
    "watch_async",
]

_NAMES = {
    "tailrace.cli.spark_needs": ("missing_for_spark",),
    "tailrace.client.aio": ("AsyncChangeStream", "awatch", "watch_async"),
    "tailrace.client.errors": ("MissingResumeTokenError",),
    "tailrace.client.events": ("EventRecord",),
    "tailrace.client.groups.aio": ("AsyncConsumer", "aconsume"),
    "tailrace.client.groups.blocking": ("Consumer", "consume"),
    "tailrace.client.groups.control": ("AsyncConsumerGroup", "ConsumerGroup"),
    "tailrace.client.groups.delivery": ("DeadLetter", "Delivery"),
    "tailrace.client.groups.handling": ("Retries",),
    "tailrace.client.processing": ("process", "process_async"),
    "tailrace.client.sync": ("ChangeStream", "watch"),
    "tailrace.client.token_store": (
        "AsyncCollectionTokenStore",
        "AsyncTokenStore",
        "CollectionTokenStore",
        "FileTokenStore",
        "TokenStore",
    ),
    "tailrace.error_codes": ("ErrorCode",),
    "tailrace.errors": ("CommandError", "DamagedInputError", "HistoryError", "TailraceError", "UsageError"),
    "tailrace.events.token_explanation": ("TokenExplanation", "explain_token"),
    "tailrace.lake.columns.decoded": ("bson_to_columns", "bson_to_json"),
    "tailrace.lake.past.as_of": ("CollectionAsOf", "as_of"),
    "tailrace.lake.table": ("HistoryTable",),
    "tailrace.log.replay": ("replay",),
    "tailrace.pipeline.base_recorder": ("RecordedRange", "record_snapshot"),
    "tailrace.pipeline.read_history": ("read_history",),
    "tailrace.spark": ("change_stream", "mirror", "register"),
    "tailrace.testing.older_servers": ("older_servers_accepted",),
    "tailrace.testing.replica_set": ("ReplicaSet",),
    "tailrace.testing.sharded_cluster": ("ShardedCluster",),
}
"""What is imported on first use, by module; the imports above are the same for type checkers."""
_MODULES = {name: module for module, names in _NAMES.items() for name in names}

if not TYPE_CHECKING:  # a type checker would accept every name

    def __getattr__(name: str) -> object:
        module = _MODULES.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            value = getattr(import_module(module), name)
        except ModuleNotFoundError as error:
            from tailrace.errors import missing_package

            sentence = str(missing_package(f"tailrace.{name}", error))
            raise ModuleNotFoundError(sentence, name=error.name) from error
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
