"""The options of ``format("tailrace")``: which stream, from what, and what its rows look like.

Names are compared without regard to case. The names that the MongoDB Spark Connector has for the same things
are taken too, with or without ``spark.mongodb.`` or ``spark.mongodb.read.`` before them, so that a job
switches by changing its format. A name nobody knows is refused: a misspelt filter would show too much.
"""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from bson import Timestamp

from tailrace.bson import documents, extjson
from tailrace.errors import CommandError, UsageError
from tailrace.events.cluster_time import from_timestamp
from tailrace.events.scope import Scope
from tailrace.pipeline.rows.schema import Documents, Layout, Mode, Output
from tailrace.pipeline.streams.open_source import SourceOptions
from tailrace.pipeline.streams.stream_spec import StreamSpec

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
_PREFIXES: Final = ("spark.mongodb.read.", "spark.mongodb.", "read.")
_ALIASES: Final = {
    "connection.uri": "uri",
    "aggregation.pipeline": "pipeline",
    "change.stream.lookup.full.document": "fulldocument",
    "change.stream.lookup.full.document.before.change": "fulldocumentbeforechange",
    "change.stream.publish.full.document.only": "publishfulldocumentonly",
    "change.stream.startup.mode": "startupmode",
    "change.stream.startup.mode.timestamp.start.at.operation.time": "startupoperationtime",
    "change.stream.micro.batch.max.partition.count": "partitions",
    "connectionstring": "uri",
}
# What tunes the connector and has no meaning here: a job that sets it need not be changed.
_IDLE: Final = (
    "aggregation.allowdiskuse", "comment", "cursor.", "hint", "inferschema.", "mongoclientfactory",
    "partitioner", "readconcern.", "readpreference.", "samplesize", "sql.inferschema.", "sql.pipeline.",
)  # fmt: skip
_STREAM_FLAGS: Final = {
    name.lower(): name
    for name in (
        "allChangesForCluster", "showExpandedEvents", "showSystemEvents", "showMigrationEvents",
        "showRawUpdateDescription", "showCommitTimestamp", "allowToRunOnConfigDB", "allowToRunOnSystemNS",
        "matchCollectionUUIDForUpdateLookup", "ignoreRemovedShards",
    )
}  # fmt: skip
_STREAM_TEXTS: Final = {
    name.lower(): name for name in ("fullDocument", "fullDocumentBeforeChange", "version")
}
_STREAM_TOKENS: Final = {"resumeafter": "resumeAfter", "startafter": "startAfter"}
_OTHERS: Final = frozenset({
    "changelog", "collation", "collection", "columnnameofcorruptrecord", "database", "documents",
    "documentsas", "documentschema", "endingoffsets", "endingtimestamp", "failondataloss", "history", "let",
    "maxbytespertrigger", "maxentriespertrigger", "mode", "ns", "oplog", "oplogs", "options", "output",
    "outputextendedjson", "parameters", "partitions", "path", "pipeline", "preimages",
    "publishfulldocumentonly", "rawdata", "startatoperationtime", "startingoffsets", "startingtimestamp",
    "startupmode", "startupoperationtime", "supportedevents", "uri",
})  # fmt: skip
_KNOWN: Final = _OTHERS | set(_STREAM_FLAGS) | set(_STREAM_TEXTS) | set(_STREAM_TOKENS)

E = TypeVar("E", bound=Enum)


@dataclass(frozen=True)
class StreamRequest:
    """Everything the options say."""

    source: SourceOptions
    scope: Scope
    change_stream: Mapping[str, Any]
    """the `$changeStream` document"""
    pipeline: tuple[Mapping[str, Any], ...]
    further: Mapping[str, Any]
    """further arguments of `StreamSpec`"""
    layout: Layout
    starting: str | None = None
    """`earliest` or `latest`; None for the default"""
    ending: int | None = None
    """the last cluster time to be shown; None for what is there"""
    max_entries: int | None = None
    max_bytes: int | None = None
    partitions: int | None = None
    fail_on_data_loss: bool = True

    def spec(self, *, is_cluster: bool) -> StreamSpec:
        """The stream, checked; on a cluster some things are not allowed."""
        return StreamSpec.of(
            self.scope, self.change_stream, self.pipeline, on_router=is_cluster, **self.further
        )


def read_options(given: Mapping[str, str]) -> StreamRequest:
    """Read all options; `UsageError` says what is wrong with one of them."""
    options = _known_options(given)
    change_stream = _change_stream(options)
    scope, watched = _scope(options, change_stream)
    pipeline = [*watched, *_stages(options)]
    layout = _layout(options)
    if layout.output is Output.DOCUMENT and "publishfulldocumentonly" in options:
        change_stream.setdefault("fullDocument", "updateLookup")
    further: dict[str, Any] = {
        name: value
        for name in ("collation", "let", "parameters")
        if (value := _document(options, name)) is not None
    }
    if "rawdata" in options:
        further["raw_data"] = _flag(options, "rawdata")
    starting = options.get("startingoffsets", options.get("startupmode"))
    if starting is not None and starting not in (EARLIEST, LATEST, "timestamp"):
        raise UsageError(f"startingOffsets must be {EARLIEST} or {LATEST}, not {starting!r}")
    return StreamRequest(
        _source(options),
        scope,
        change_stream,
        tuple(pipeline),
        further,
        layout,
        starting=None if starting == "timestamp" else starting,
        ending=_ending(options),
        max_entries=_positive(options, "maxentriespertrigger"),
        max_bytes=_positive(options, "maxbytespertrigger"),
        partitions=_positive(options, "partitions"),
        fail_on_data_loss=_flag(options, "failondataloss", default=True),
    )


def _known_options(given: Mapping[str, str]) -> dict[str, str]:
    options: dict[str, str] = {}
    for name, value in given.items():
        key = name.lower()
        key = next((key.removeprefix(prefix) for prefix in _PREFIXES if key.startswith(prefix)), key)
        key = _ALIASES.get(key, key)
        if key in _KNOWN:
            options[key] = value
        elif not key.startswith(_IDLE):
            raise UsageError(f"there is no option {name!r}; docs/spark.md lists those there are")
    return options


# -- source ------------------------------------------------------------------------------------------------


def _source(options: Mapping[str, str]) -> SourceOptions:
    named = [name for name in ("uri", "history", "oplog", "oplogs", "path") if name in options]
    if len(named) != 1:
        raise UsageError(
            "name one source: uri for a deployment, history for a table, oplog or oplogs for archived files"
            + (f"; {' and '.join(named)} exclude each other" if named else "")
        )
    uri, history = options.get("uri"), options.get("history")
    oplogs: dict[str, tuple[str, ...]] | None = None
    if "path" in options:
        path = options["path"]
        if path.startswith(("mongodb://", "mongodb+srv://")):
            uri = path
        elif os.path.isdir(os.path.join(path, "_delta_log")):
            history = path
        else:
            oplogs = {"": (path,)}
    elif "oplog" in options:
        oplogs = {"": _paths(options["oplog"])}
    elif "oplogs" in options:
        oplogs = _paths_by_name(options, "oplogs")
    images = _paths_by_name(options, "preimages") if "preimages" in options else None
    return SourceOptions(
        uri,
        history,
        oplogs,
        None
        if images is None
        else {name if name in (oplogs or {}) else None: p for name, p in images.items()},
        _paths_by_name(options, "documents") if "documents" in options else None,
    )


def _paths(text: str) -> tuple[str, ...]:
    if not text.startswith("["):
        return (text,)
    value = _json("oplog", text)
    if not isinstance(value, list) or not all(isinstance(path, str) for path in value):
        raise UsageError("oplog must be a path or a JSON array of paths")
    return tuple(value)


def _paths_by_name(options: Mapping[str, str], name: str) -> dict[str, tuple[str, ...]]:
    text = options[name]
    if not text.startswith("{"):
        return {"": _paths(text)}
    value = _json(name, text)
    paths = {key: (found,) if isinstance(found, str) else found for key, found in value.items()}
    if not all(isinstance(found, list | tuple) for found in paths.values()):
        raise UsageError(f'{name} must be JSON such as {{"shard0": ["oplog.bson"]}}')
    return {key: tuple(found) for key, found in paths.items()}


def _json(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise UsageError(f"the option {name} is no JSON: {error}") from None


# -- stream ------------------------------------------------------------------------------------------------


def _scope(
    options: Mapping[str, str], change_stream: Mapping[str, Any]
) -> tuple[Scope, list[dict[str, Any]]]:
    """What is watched, and the stage that narrows a list of collections down."""
    database, collection = options.get("database"), options.get("collection")
    if "ns" in options:
        database, dot, rest = options["ns"].partition(".")
        collection = rest if dot else None
    if database is None and "uri" in options:
        database = urlsplit(options["uri"]).path.removeprefix("/").partition(".")[0] or None
    if database is None:
        if collection is not None:
            raise UsageError("a collection needs its database: set the option database too")
        return Scope.cluster(), []
    if collection == "*":
        collection = None
    if collection is not None and "," in collection:
        names = [name.strip() for name in collection.split(",")]
        return Scope.database(database), [{"$match": {"ns.coll": {"$in": names}}}]
    for_cluster = change_stream.get("allChangesForCluster") is True
    return Scope.of(database, collection or None, all_changes_for_cluster=for_cluster), []


def _change_stream(options: Mapping[str, str]) -> dict[str, Any]:
    found = dict(_document(options, "options") or {})
    for key, name in _STREAM_TEXTS.items():
        if key in options:
            found[name] = options[key]
    for key, name in _STREAM_FLAGS.items():
        if key in options:
            found[name] = _flag(options, key)
    for key, name in _STREAM_TOKENS.items():
        if key in options:
            text = options[key]
            found[name] = _document(options, key) if text.startswith("{") else {"_data": text}
    if "supportedevents" in options:
        found["supportedEvents"] = _json("supportedEvents", options["supportedevents"])
    start = _start_time(options)
    if start is not None:
        found["startAtOperationTime"] = start
    return found


def _start_time(options: Mapping[str, str]) -> Timestamp | None:
    if "startatoperationtime" in options:
        return _operation_time("startAtOperationTime", options["startatoperationtime"])
    if "startingtimestamp" in options:
        return Timestamp(_milliseconds("startingTimestamp", options["startingtimestamp"]) // 1000, 0)
    text = options.get("startupoperationtime", "-1")
    if options.get("startupmode") == "timestamp" and text != "-1":
        return _operation_time("change.stream.startup.mode.timestamp.start.at.operation.time", text)
    return None


def _operation_time(name: str, text: str) -> Timestamp:
    """``seconds``, ``seconds:increment``, an ISO 8601 time, or a timestamp in Extended JSON."""
    seconds, _, increment = text.partition(":")
    if seconds.isdigit() and (increment or "0").isdigit():
        return Timestamp(int(seconds), int(increment or "0"))
    if text.startswith("{"):
        value = _extended(name, text)
        if isinstance(value, Timestamp):
            return value
    else:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            pass
        else:
            return Timestamp(int(moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()), 0)
    raise UsageError(f"{name} must be seconds:increment or an ISO 8601 time, not {text!r}")


def _ending(options: Mapping[str, str]) -> int | None:
    if "endingtimestamp" in options:
        seconds = _milliseconds("endingTimestamp", options["endingtimestamp"]) // 1000
        return seconds << 32 | 0xFFFFFFFF
    text = options.get("endingoffsets", LATEST)
    return None if text == LATEST else from_timestamp(_operation_time("endingOffsets", text))


def _stages(options: Mapping[str, str]) -> list[dict[str, Any]]:
    if "pipeline" not in options:
        return []
    value = _extended("pipeline", options["pipeline"])
    stages = [value] if isinstance(value, dict) else value
    if not isinstance(stages, list) or not all(isinstance(stage, dict) for stage in stages):
        raise UsageError("pipeline must be an array of stages in Extended JSON, such as []")
    return stages


# -- rows --------------------------------------------------------------------------------------------------


def _layout(options: Mapping[str, str]) -> Layout:
    output = _choice(options, "output", Output, Output.COLUMNS)
    if _flag(options, "publishfulldocumentonly"):
        output = Output.DOCUMENT
    return Layout(
        output=output,
        documents=_choice(options, "documentsas", Documents, Documents.VARIANT),
        document_schema=options.get("documentschema"),
        mode=_choice(options, "mode", Mode, Mode.FAILFAST, str.upper),
        corrupt_column=options.get("columnnameofcorruptrecord"),
        changelog=_flag(options, "changelog"),
        extended_json=_flag(options, "outputextendedjson"),
    )


# -- single values -----------------------------------------------------------------------------------------


def _extended(name: str, text: str) -> Any:
    try:
        kind, raw = extjson.loads_value(text)
        return documents.decode_value(raw, kind, 0, len(raw))
    except (CommandError, RecursionError) as error:
        raise UsageError(f"the option {name} is no Extended JSON: {error}") from None


def _document(options: Mapping[str, str], name: str) -> dict[str, Any] | None:
    if name not in options:
        return None
    value = _extended(name, options[name])
    if not isinstance(value, dict):
        raise UsageError(f"the option {name} must be an Extended JSON document, such as {{}}")
    return value


def _flag(options: Mapping[str, str], name: str, *, default: bool = False) -> bool:
    text = options.get(name)
    if text is None:
        return default
    if text.lower() not in ("true", "false"):
        raise UsageError(f"the option {name} takes true or false, not {text!r}")
    return text.lower() == "true"


def _positive(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    if not text.isdigit() or int(text) < 1:
        raise UsageError(f"the option {name} must be a positive number, not {text!r}")
    return int(text)


def _milliseconds(name: str, text: str) -> int:
    if not text.isdigit():
        raise UsageError(f"{name} must be milliseconds since 1970, not {text!r}")
    return int(text)


def _choice(
    options: Mapping[str, str],
    name: str,
    choices: type[E],
    default: E,
    fold: Callable[[str], str] = str.lower,
) -> E:
    text = options.get(name)
    if text is None:
        return default
    try:
        return choices(fold(text))
    except ValueError:
        known = ", ".join(str(choice.value) for choice in choices)
        raise UsageError(f"the option {name} must be one of {known}, not {text!r}") from None
