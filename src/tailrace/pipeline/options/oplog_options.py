"""The options of ``format("tailrace.oplog")``, named as Kafka's source names its own."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tailrace.errors import UsageError
from tailrace.events.cluster_time import before_timestamp, through_timestamp
from tailrace.events.position import EARLIEST, LATEST, Position
from tailrace.lake.storage.store_options import store_options
from tailrace.pipeline.options.option_values import PASSWORD_FILE, STORE_FILE, OptionValues
from tailrace.sources.archives.files import FilesSource
from tailrace.sources.deployments.connection_string import is_uri
from tailrace.sources.deployments.deployment import DeploymentSource
from tailrace.sources.planning import UNLIMITED
from tailrace.sources.source import OplogSource

SOURCES: Final = ("uri", "path", "oplog", "oplogs")
_NAMES: Final = {
    name.lower(): name
    for name in (
        *SOURCES, PASSWORD_FILE, STORE_FILE, "startingOffsets", "startingTimestamp", "endingOffsets",
        "endingTimestamp", "failOnDataLoss", "maxEntriesPerTrigger", "maxBytesPerTrigger", "partitions",
    )
}  # fmt: skip
_ONLY_BATCH: Final = ("endingOffsets", "endingTimestamp")


@dataclass(frozen=True)
class OplogOptions:
    """All options; `docs/spark.md` explains them."""

    uri: str | None
    oplogs: Mapping[str, tuple[str, ...]] | None
    starting: str | Position | int | None
    """`earliest`, `latest`, a position, or the cluster time after which to begin; None for the default."""
    ending: str | Position | int
    fail_on_data_loss: bool
    max_entries: int
    max_bytes: int
    partitions: int | None
    store_file: str | None = None
    """A file with the options of the object store that the files are in."""

    def open(self) -> OplogSource:
        if self.uri is not None:
            return DeploymentSource(self.uri)
        store = None if self.store_file is None else store_options(self.store_file)
        return FilesSource(self.oplogs or {}, store=store)

    def start(self, source: OplogSource, default: str) -> Position:
        """Return where a query begins."""
        starting = default if self.starting is None else self.starting
        if starting == EARLIEST:
            return Position({shard: source.beginning(shard) for shard in source.shards()})
        return _position("startingOffsets", starting, source)

    def end(self, source: OplogSource) -> Position:
        """Return where a batch query ends: never after what every shard has promised."""
        promised = source.promised()
        if self.ending == LATEST:
            return Position.at(source.shards(), promised)
        wanted = _position("endingOffsets", self.ending, source)
        return Position({shard: min(time, promised) for shard, time in wanted.times.items()})


def _position(option: str, value: str | Position | int, source: OplogSource) -> Position:
    shards = source.shards()
    if isinstance(value, int):
        return Position.at(shards, value)
    if not isinstance(value, Position):
        return Position.at(shards, source.promised())
    unknown = sorted(set(value.times) - set(shards))
    missing = sorted(set(shards) - set(value.times))
    if unknown or missing:
        what = (
            f"names the shard {unknown[0]!r}, which" if unknown else f"lacks the shard {missing[0]!r}, which"
        )
        raise UsageError(f"{option} {what} the source {'does not have' if unknown else 'has'}")
    return value


def read_oplog_options(given: Mapping[str, str], *, streaming: bool = False) -> OplogOptions:
    """Read all options; `UsageError` if one of them is wrong."""
    for name in given:
        if name.lower() not in _NAMES:
            known = ", ".join(_NAMES.values())
            raise UsageError(f"tailrace.oplog has no option {name!r}; there are: {known}")
    values = OptionValues({name.lower(): value for name, value in given.items()})
    for name in _ONLY_BATCH:
        if streaming and name in values:
            raise UsageError(f"{name} is for batch queries; a streaming query ends when it is stopped")
    uri, oplogs = named_source(values)
    return OplogOptions(
        uri,
        oplogs,
        _starting(values),
        _ending(values),
        values.flag("failOnDataLoss", default=True),
        values.positive("maxEntriesPerTrigger") or UNLIMITED,
        values.positive("maxBytesPerTrigger") or UNLIMITED,
        values.positive("partitions"),
        values.text(STORE_FILE),
    )


def named_source(values: OptionValues) -> tuple[str | None, dict[str, tuple[str, ...]] | None]:
    """The connection string or the archived files by shard that the options name."""
    name = values.one_of(
        SOURCES, "name one source: uri for a deployment; path, oplog or oplogs for archived files"
    )
    text = values.text(name) or ""
    if name == "uri" or (name == "path" and is_uri(text)):
        return values.uri(text), None
    return None, values.paths_by_key(name) if name == "oplogs" else {"": values.paths(name)}


def _starting(values: OptionValues) -> str | Position | int | None:
    milliseconds = values.milliseconds("startingTimestamp")
    if milliseconds is not None:
        return before_timestamp(milliseconds)
    text = values.text("startingOffsets")
    if text is None or text.lower() in (EARLIEST, LATEST):
        return None if text is None else text.lower()
    return Position.parse(text, "startingOffsets")


def _ending(values: OptionValues) -> str | Position | int:
    milliseconds = values.milliseconds("endingTimestamp")
    if milliseconds is not None:
        return through_timestamp(milliseconds)
    text = values.text("endingOffsets")
    if text is None or text.lower() == LATEST:
        return LATEST
    if text.lower() == EARLIEST:
        raise UsageError("endingOffsets cannot be earliest: nothing is before it")
    return Position.parse(text, "endingOffsets")
