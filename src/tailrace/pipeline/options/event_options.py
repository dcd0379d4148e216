"""The options of ``format("tailrace")``: which stream, from what, and what its rows look like.

The names that the MongoDB Spark Connector has for the same things are accepted too, with or without
``spark.mongodb.`` or ``spark.mongodb.read.`` before them, so that a job switches by changing its format. An
unknown name is refused: a stream with a misspelt filter would show too much.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlsplit

from bson import Timestamp

from tailrace.errors import UsageError
from tailrace.events.cluster_time import from_timestamp, through_timestamp
from tailrace.events.options import OPTIONS, OptionForm
from tailrace.events.position import EARLIEST, LATEST, SNAPSHOT
from tailrace.events.scope import Scope
from tailrace.events.stream_release import CURRENT_RELEASE, StreamRelease
from tailrace.lake.past.rebuilt_images import Images
from tailrace.namespaces import NamespaceChoice
from tailrace.pipeline.options.option_values import PASSWORD_FILE, STORE_FILE, VIA, OptionValues, via_of
from tailrace.pipeline.rows.schema import Documents, FaultMode, Output, RowLayout
from tailrace.pipeline.streams.open_source import SourceOptions
from tailrace.pipeline.streams.stream_spec import StreamSpec
from tailrace.places import history_place, is_object_store, local_path
from tailrace.sources.archives.documents import is_archive_name
from tailrace.sources.deployments.connection_string import is_uri

_PREFIXES: Final = ("spark.mongodb.read.", "spark.mongodb.", "read.")
_STARTUP_TIME: Final = "change.stream.startup.mode.timestamp.start.at.operation.time"
_ALIASES: Final = {
    "startupoperationtime": _STARTUP_TIME,
    "connection.uri": "uri",
    "aggregation.pipeline": "pipeline",
    "change.stream.lookup.full.document": "fulldocument",
    "change.stream.lookup.full.document.before.change": "fulldocumentbeforechange",
    "change.stream.publish.full.document.only": "publishfulldocumentonly",
    "change.stream.startup.mode": "startupmode",
    "change.stream.micro.batch.max.partition.count": "partitions",
    "connectionstring": "uri",
}
# Options that tune the connector and have no meaning here; a job that sets them need not be changed.
_IGNORED: Final = (
    "aggregation.allowdiskuse", "comment", "cursor.", "hint", "inferschema.", "mongoclientfactory",
    "partitioner", "readconcern.", "readpreference.", "samplesize", "sql.inferschema.", "sql.pipeline.",
)  # fmt: skip
_SOURCES: Final = ("uri", "history", "oplog", "oplogs", "path")
_OTHERS: Final = (
    "changelog", "collation", "collection", "columnNameOfCorruptRecord", "columns", "database",
    "documents", "documentsAs", "documentSchema", "endingOffsets", "endingTimestamp", "exclude",
    "failOnDataLoss", "images", "let",
    "maxBytesPerTrigger", "maxEntriesPerTrigger", "mode", "ns", "options", "output", "outputExtendedJson",
    "parameters", "partitions", "pipeline", "preImages", "publishFullDocumentOnly", "rawData",
    "serverVersion", PASSWORD_FILE, STORE_FILE, "startingOffsets", "startingTimestamp", "startupMode",
    _STARTUP_TIME, VIA,
)  # fmt: skip
_KNOWN: Final = frozenset(name.lower() for name in (*_OTHERS, *_SOURCES))


@dataclass(frozen=True)
class StreamRequest:
    """All options."""

    source: SourceOptions
    scope: Scope
    chosen: NamespaceChoice | None
    """The namespaces that are shown, if that is not the whole scope; the pipeline begins with them."""
    change_stream: Mapping[str, Any]
    """The `$changeStream` document."""
    pipeline: tuple[Mapping[str, Any], ...]
    further: Mapping[str, Any]
    """Further arguments of `StreamSpec`."""
    layout: RowLayout
    starting: str | None = None
    """`earliest`, `latest` or `snapshot`; None for the default."""
    ending: int | None = None
    """The last cluster time to show; None for all that is there."""
    max_entries: int | None = None
    max_bytes: int | None = None
    partitions: int | None = None
    fail_on_data_loss: bool = True
    release: StreamRelease | None = None
    """The server release that is imitated; None for that of the source."""

    @property
    def keeps_events(self) -> bool:
        """Whether the pipeline shows events whole, or not at all."""
        return all([*stage] == ["$match"] for stage in self.pipeline)

    def spec(self, *, is_cluster: bool, release: StreamRelease = CURRENT_RELEASE) -> StreamSpec:
        """Return the stream; raises `CommandError` if it is not allowed, on a cluster for further reasons.

        ``release`` is that of the source.
        """
        return StreamSpec.of(
            self.scope,
            self.change_stream,
            self.pipeline,
            on_router=is_cluster,
            release=self.release or release,
            **self.further,
        )


def read_options(given: Mapping[str, str]) -> StreamRequest:
    """Read all options; `UsageError` if one of them is wrong."""
    values = OptionValues(_known_options(given))
    change_stream = _change_stream(values)
    scope, chosen = _scope(values, change_stream)
    layout = _layout(values)
    if layout.output is Output.DOCUMENT and "publishFullDocumentOnly" in values:
        change_stream.setdefault("fullDocument", "updateLookup")
    further: dict[str, Any] = {
        name: value
        for name in ("collation", "let", "parameters")
        if (value := values.document(name)) is not None
    }
    if "rawData" in values:
        further["raw_data"] = values.flag("rawData")
    starting = values.text("startingOffsets" if "startingOffsets" in values else "startupMode")
    if starting is not None and starting not in (EARLIEST, LATEST, SNAPSHOT, "timestamp"):
        raise UsageError(f"startingOffsets must be {EARLIEST}, {LATEST} or {SNAPSHOT}, not {starting!r}")
    version = values.text("serverVersion")
    request = StreamRequest(
        _source(values),
        scope,
        chosen,
        change_stream,
        (*([] if chosen is None else [{"$match": chosen.stage()}]), *_stages(values)),
        further,
        layout,
        starting=None if starting == "timestamp" else starting,
        ending=_ending(values),
        max_entries=values.positive("maxEntriesPerTrigger"),
        max_bytes=values.positive("maxBytesPerTrigger"),
        partitions=values.positive("partitions"),
        fail_on_data_loss=values.flag("failOnDataLoss", default=True),
        release=None if version is None else StreamRelease.parse(version),
    )
    if starting == SNAPSHOT:
        _check_snapshot(request)
    return request


def _check_snapshot(request: StreamRequest) -> None:
    """Refuse what a stream with a snapshot cannot do; `UsageError`."""
    begins = {"resumeAfter", "startAfter", "startAtOperationTime"} & request.change_stream.keys()
    if begins:
        raise UsageError(f"startingOffsets=snapshot and {min(begins)} exclude each other; leave out one")
    if request.source.uri is None:
        raise UsageError("a snapshot is read from a deployment: name it with the option uri")
    if request.ending is not None:
        raise UsageError("a snapshot is read as of now, so endingOffsets and endingTimestamp have no meaning")
    if not request.keeps_events or request.further.keys() & {"collation", "let"}:
        raise UsageError("with startingOffsets=snapshot the pipeline may have only $match, without collation")


def _known_options(given: Mapping[str, str]) -> dict[str, str]:
    options: dict[str, str] = {}
    known = _KNOWN.union(map(str.lower, OPTIONS))
    for name, value in given.items():
        key = name.lower()
        key = next((key.removeprefix(prefix) for prefix in _PREFIXES if key.startswith(prefix)), key)
        key = _ALIASES.get(key, key)
        if key in known:
            options[key] = value
        elif not key.startswith(_IGNORED):
            raise UsageError(f"there is no option {name!r}; docs/spark.md lists those there are")
    return options


# -- source ------------------------------------------------------------------------------------------------


def _source(values: OptionValues) -> SourceOptions:
    name = values.one_of(
        _SOURCES,
        "name one source: uri for a deployment, history for a table, oplog or oplogs for archived files",
    )
    text = values.text(name) or ""
    uri = values.uri(text) if name == "uri" else None
    history = history_place(text) if name == "history" else None
    oplogs: dict[str, tuple[str, ...]] | None = None
    if name == "path" and is_uri(text):
        uri = values.uri(text)
    elif name == "path" and is_object_store(text) and is_archive_name(text):
        oplogs = {"": (text,)}
    elif name == "path" and is_object_store(text):
        history = history_place(text)
    elif name == "path":
        path = local_path(text, "a history or an archived oplog")
        if os.path.isdir(os.path.join(path, "_delta_log")):
            history = path
        else:
            oplogs = {"": (path,)}
    elif name in ("oplog", "oplogs"):
        oplogs = {"": values.paths(name)} if name == "oplog" else values.paths_by_key(name)
    images = values.paths_by_key("preImages") if "preImages" in values else None
    return SourceOptions(
        uri,
        history,
        oplogs,
        None
        if images is None
        else {shard if shard in (oplogs or {}) else None: paths for shard, paths in images.items()},
        values.paths_by_key("documents") if "documents" in values else None,
        values.text(STORE_FILE),
        _rebuilds_images(values, history),
        via_of(values, uri),
    )


def _rebuilds_images(values: OptionValues, history: str | None) -> bool:
    is_wanted = values.choice("images", Images.STORED) is Images.REBUILT
    if is_wanted and history is None:
        raise UsageError("images are rebuilt from a history: name one with the option history")
    return is_wanted


# -- stream ------------------------------------------------------------------------------------------------


def _scope(values: OptionValues, change_stream: Mapping[str, Any]) -> tuple[Scope, NamespaceChoice | None]:
    """What is watched, and what is shown of it if that is not everything."""
    database, collection = values.text("database"), values.text("collection")
    namespace, uri = values.text("ns"), values.text("uri")
    chosen = values.namespaces()
    if chosen is not None and not chosen.is_one_name:
        if database is not None or collection is not None:
            raise UsageError("name what is watched with ns and exclude, or with database and collection")
        names = values.names("ns")
        if any("." in name for name in names) and not all("." in name for name in names):
            raise UsageError(f"ns has names with and without a dot: {namespace}; a whole database is db.*")
        return Scope.cluster() if chosen.database is None else Scope.database(chosen.database), chosen
    if namespace is not None:
        database, dot, rest = namespace.partition(".")
        collection = rest if dot else None
    if database is None and uri is not None:
        database = urlsplit(uri).path.removeprefix("/").partition(".")[0] or None
    if database is None:
        if collection is not None:
            raise UsageError("a collection needs its database: set the option database too")
        return Scope.cluster(), None
    if collection == "*":
        collection = None
    if collection is not None and "," in collection:
        several = [f"{database}.{name.strip()}" for name in collection.split(",")]
        return Scope.database(database), NamespaceChoice.of(several)
    for_cluster = change_stream.get("allChangesForCluster") is True
    return Scope.of(database, collection or None, all_changes_for_cluster=for_cluster), None


def _change_stream(values: OptionValues) -> dict[str, Any]:
    found = dict(values.document("options") or {})
    for option in OPTIONS.values():
        if option.name in values and option.form is not OptionForm.TIME:
            found[option.name] = _READERS[option.form](values, option.name)
    start = _start_time(values)
    if start is not None:
        found["startAtOperationTime"] = start
    return found


def _token(values: OptionValues, name: str) -> Any:
    """A resume token: its document as JSON, or the text of its `_data`."""
    text = values.text(name) or ""
    return values.document(name) if text.startswith("{") else {"_data": text}


_READERS: Final[dict[OptionForm, Callable[[OptionValues, str], Any]]] = {
    OptionForm.FLAG: lambda values, name: values.flag(name),
    OptionForm.TEXT: OptionValues.text,
    OptionForm.TOKEN: _token,
    OptionForm.NAMES: OptionValues.json,
}


def _start_time(values: OptionValues) -> Timestamp | None:
    if "startAtOperationTime" in values:
        return _operation_time("startAtOperationTime", values)
    milliseconds = values.milliseconds("startingTimestamp")
    if milliseconds is not None:
        return Timestamp(milliseconds // 1000, 0)
    if values.text("startupMode") == "timestamp" and (values.text(_STARTUP_TIME) or "-1") != "-1":
        return _operation_time(_STARTUP_TIME, values)
    return None


def _operation_time(name: str, values: OptionValues) -> Timestamp:
    """``seconds``, ``seconds:increment``, an ISO 8601 time, or a timestamp in Extended JSON."""
    text = values.text(name) or ""
    seconds, _, increment = text.partition(":")
    if seconds.isdigit() and (increment or "0").isdigit():
        return Timestamp(int(seconds), int(increment or "0"))
    if text.startswith("{"):
        value = values.extended_json(name)
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


def _ending(values: OptionValues) -> int | None:
    milliseconds = values.milliseconds("endingTimestamp")
    if milliseconds is not None:
        return through_timestamp(milliseconds)
    if values.text("endingOffsets") in (None, LATEST):
        return None
    return from_timestamp(_operation_time("endingOffsets", values))


def _stages(values: OptionValues) -> list[dict[str, Any]]:
    value = values.extended_json("pipeline") if "pipeline" in values else []
    stages = [value] if isinstance(value, dict) else value
    if not isinstance(stages, list) or not all(isinstance(stage, dict) for stage in stages):
        raise UsageError("pipeline must be an array of stages in Extended JSON, such as []")
    return stages


def _layout(values: OptionValues) -> RowLayout:
    output = values.choice("output", Output.COLUMNS)
    if values.flag("publishFullDocumentOnly"):
        output = Output.DOCUMENT
    columns = values.text("columns")
    return RowLayout(
        output=output,
        documents=values.choice("documentsAs", Documents.VARIANT),
        document_schema=values.text("documentSchema"),
        mode=values.choice("mode", FaultMode.FAILFAST, str.upper),
        corrupt_column=values.text("columnNameOfCorruptRecord"),
        changelog=values.flag("changelog"),
        extended_json=values.flag("outputExtendedJson"),
        columns=None if columns is None else _names(columns),
    )


def _names(text: str) -> tuple[str, ...]:
    """Names between commas, each once."""
    return tuple(dict.fromkeys(name for part in text.split(",") if (name := part.strip())))
