"""The options of ``format("tailrace.pipeline")``, named as those of the other formats."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tailrace.errors import UsageError
from tailrace.events.stream_release import StreamRelease
from tailrace.lake.storage.store_options import store_options
from tailrace.pipeline.history.batches import BatchPlan
from tailrace.pipeline.history.settings import PIECES_PER_CORE, PipelineSettings
from tailrace.pipeline.options.oplog_options import SOURCES, named_source
from tailrace.pipeline.options.option_values import PASSWORD_FILE, STORE_FILE, VIA, OptionValues, via_of
from tailrace.places import history_place, is_object_store
from tailrace.sources.archives.files import FilesSource
from tailrace.sources.recorded.choice import open_deployment

HISTORY: Final = "history"
_WRITER: Final = (HISTORY, STORE_FILE)
_READER: Final = (
    *SOURCES, PASSWORD_FILE, "preImages", *_WRITER, "maxEntriesPerTrigger", "maxBytesPerTrigger",
    "partitions", "keepSeconds", "keepBytes", "serverVersion", "ns", "exclude", "backfill", VIA,
)  # fmt: skip
_SPARKS: Final = ("checkpointlocation", "queryname", "outputmode")
"""Spark passes its own options to a sink, too."""
_PARTITIONS: Final = 64
"""A task has about 8 MB at least, so it does not matter if this is more than the cluster has cores for."""


def read_plan(given: Mapping[str, str]) -> BatchPlan:
    """The plan of a query that its options describe; `UsageError` if one of them is wrong."""
    values = _values(given, _READER)
    partitions = values.positive("partitions") or _PARTITIONS
    version = values.text("serverVersion")
    settings = PipelineSettings(
        _history(values),
        max_entries=values.positive("maxEntriesPerTrigger"),
        max_bytes=values.positive("maxBytesPerTrigger"),
        keep_seconds=values.positive("keepSeconds"),
        keep_bytes=values.positive("keepBytes"),
        release=None if version is None else StreamRelease.parse(version),
        kept=values.namespaces(),
        backfill=values.flag("backfill"),
    )
    uri, oplogs = named_source(values)
    store_file = values.text(STORE_FILE)
    store = None if store_file is None else store_options(store_file)
    images = values.paths_by_key("preImages") if "preImages" in values else {}
    source = (
        FilesSource(oplogs or {}, {shard or None: paths for shard, paths in images.items()}, store=store)
        if uri is None
        else open_deployment(uri, via_of(values, uri))
    )
    cores = max(partitions // PIECES_PER_CORE, 1)
    return BatchPlan(source, settings, None, cores, store_file=store_file)


def read_sink(given: Mapping[str, str]) -> tuple[str, str | None]:
    """The history that a sink commits to, and the file with the options of its store."""
    values = _values({name: text for name, text in given.items() if name.lower() not in _SPARKS}, _WRITER)
    return _history(values), values.text(STORE_FILE)


def _values(given: Mapping[str, str], names: tuple[str, ...]) -> OptionValues:
    known = {name.lower() for name in names}
    for name in given:
        if name.lower() not in known:
            raise UsageError(f"tailrace.pipeline has no option {name!r}; there are: {', '.join(names)}")
    return OptionValues({name.lower(): value for name, value in given.items()})


def _history(values: OptionValues) -> str:
    text = values.text(HISTORY)
    if not text:
        raise UsageError("name the history: a folder, or its URL in an object store, as the option history")
    place = history_place(text)
    return place if is_object_store(place) else str(Path(place).absolute())
