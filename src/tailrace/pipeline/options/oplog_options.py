"""The options of ``format("tailrace.oplog")``, named as Kafka's source names its own."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tailrace.errors import UsageError
from tailrace.events.cluster_time import before_timestamp, through_timestamp
from tailrace.events.position import EARLIEST, LATEST, Position
from tailrace.sources.archives.files import FilesSource
from tailrace.sources.deployments.deployment import DeploymentSource
from tailrace.sources.planning import UNLIMITED
from tailrace.sources.source import OplogSource

_SOURCES: Final = ("uri", "path", "oplog", "oplogs")
_NAMES: Final = {
    name.lower(): name
    for name in (
        *_SOURCES, "startingOffsets", "startingTimestamp", "endingOffsets", "endingTimestamp",
        "failOnDataLoss", "maxEntriesPerTrigger", "maxBytesPerTrigger", "partitions",
    )
}  # fmt: skip
_ONLY_BATCH: Final = ("endingoffsets", "endingtimestamp")
_URIS: Final = ("mongodb://", "mongodb+srv://")


@dataclass(frozen=True)
class OplogOptions:
    """Everything the options say; see `docs/spark.md`."""

    uri: str | None
    oplogs: Mapping[str, tuple[str, ...]] | None
    starting: str | Position | int | None
    """`earliest`, `latest`, a position, or the cluster time behind which to begin; None for the default"""
    ending: str | Position | int
    fail_on_data_loss: bool
    max_entries: int
    max_bytes: int
    partitions: int | None

    def open(self) -> OplogSource:
        """The source they name."""
        if self.uri is not None:
            return DeploymentSource(self.uri)
        return FilesSource(self.oplogs or {})

    def start(self, source: OplogSource, default: str) -> Position:
        """Where to begin."""
        starting = default if self.starting is None else self.starting
        if starting == EARLIEST:
            return Position({shard: source.beginning(shard) for shard in source.shards()})
        return _position("startingOffsets", starting, source)

    def end(self, source: OplogSource) -> Position:
        """Where a batch query ends: never behind what every shard has promised."""
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
    """Read all options; `UsageError` says what is wrong with one of them."""
    options = {name.lower(): value for name, value in given.items()}
    for name in given:
        if name.lower() not in _NAMES:
            known = ", ".join(_NAMES.values())
            raise UsageError(f"tailrace.oplog has no option {name!r}; there are: {known}")
    for name in _ONLY_BATCH:
        if streaming and name in options:
            raise UsageError(
                f"{_NAMES[name]} is for batch queries; a streaming query ends when it is stopped"
            )
    uri, oplogs = _source(options)
    return OplogOptions(
        uri,
        oplogs,
        _starting(options),
        _ending(options),
        _flag(options, "failondataloss"),
        _positive(options, "maxentriespertrigger") or UNLIMITED,
        _positive(options, "maxbytespertrigger") or UNLIMITED,
        _positive(options, "partitions"),
    )


def _source(options: Mapping[str, str]) -> tuple[str | None, dict[str, tuple[str, ...]] | None]:
    named = [name for name in _SOURCES if name in options]
    if len(named) != 1:
        raise UsageError(
            "name one source: uri for a deployment; path, oplog or oplogs for archived files"
            + (f"; {' and '.join(named)} exclude each other" if named else "")
        )
    text = options[named[0]]
    if named[0] == "uri" or (named[0] == "path" and text.startswith(_URIS)):
        return text, None
    if named[0] == "oplogs":
        found = _json("oplogs", text)
        if not isinstance(found, dict) or not found:
            raise UsageError('oplogs must be JSON such as {"shard0": ["oplog.bson"], "shard1": "folder"}')
        return None, {name: _paths("oplogs", paths) for name, paths in found.items()}
    paths = _json(named[0], text) if text.startswith("[") else text
    return None, {"": _paths(named[0], paths)}


def _paths(option: str, value: Any) -> tuple[str, ...]:
    paths = [value] if isinstance(value, str) else value
    if not isinstance(paths, list) or not paths or not all(isinstance(path, str) for path in paths):
        raise UsageError(f"{option} must be a path or a JSON array of paths, not {value!r}")
    return tuple(paths)


def _starting(options: Mapping[str, str]) -> str | Position | int | None:
    if "startingtimestamp" in options:
        return before_timestamp(_milliseconds(options, "startingtimestamp"))
    text = options.get("startingoffsets")
    if text is None or text.lower() in (EARLIEST, LATEST):
        return None if text is None else text.lower()
    return Position.parse(text, "startingOffsets")


def _ending(options: Mapping[str, str]) -> str | Position | int:
    if "endingtimestamp" in options:
        return through_timestamp(_milliseconds(options, "endingtimestamp"))
    text = options.get("endingoffsets", LATEST)
    if text.lower() == EARLIEST:
        raise UsageError("endingOffsets cannot be earliest: nothing lies before it")
    return LATEST if text.lower() == LATEST else Position.parse(text, "endingOffsets")


def _milliseconds(options: Mapping[str, str], name: str) -> int:
    text = options[name]
    if not text.isdigit():
        raise UsageError(f"{_NAMES[name]} must be milliseconds since 1970, not {text!r}")
    return int(text)


def _positive(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    if not text.isdigit() or int(text) < 1:
        raise UsageError(f"{_NAMES[name]} must be a whole number of at least 1, not {text!r}")
    return int(text)


def _flag(options: Mapping[str, str], name: str) -> bool:
    text = options.get(name, "true").lower()
    if text not in ("true", "false"):
        raise UsageError(f"{_NAMES[name]} must be true or false, not {text!r}")
    return text == "true"


def _json(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise UsageError(f"the option {name} is no JSON: {error}") from None
