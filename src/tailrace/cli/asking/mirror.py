"""A mirror as its folder shows it, without the process that follows the source."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tailrace.cli.asking import words
from tailrace.events.cluster_time import seconds_of

if TYPE_CHECKING:
    from tailrace.lake.mirror.mirror_table import MirrorTable

_MOST_TABLES: Final = 20
_NEWEST_CHANGES: Final = 5


@dataclass(frozen=True, slots=True)
class MirroredTable:
    """One table of a mirror."""

    namespace: str
    kind: str
    rows: int
    files: int
    bytes: int
    copied: float
    """The part of its ranges that was copied."""
    dead_letters: int
    """Rows that do not fit the given schema."""

    @classmethod
    def of(cls, table: "MirrorTable") -> "MirroredTable":
        state = table.copy_state
        return cls(
            table.namespace,
            table.kind,
            table.rows,
            len(table.files),
            sum(file.size for file in table.files),
            len(state.done) / (len(state.bounds) + 1),
            sum(file.rows for file in table.letters),
        )

    def as_document(self) -> dict[str, Any]:
        return {
            "ns": self.namespace,
            "kind": self.kind,
            "rows": self.rows,
            "files": self.files,
            "bytes": self.bytes,
            "copied": round(self.copied, 3),
            "deadLetters": self.dead_letters,
        }

    def in_words(self) -> str:
        copied = "" if self.copied == 1 else f", {self.copied:.0%} of the copy done"
        refused = f", {self.dead_letters:,} dead letters" if self.dead_letters else ""
        rows, files = words.counted(self.rows, "row"), words.counted(self.files, "file")
        return f"{self.namespace}  {self.kind}  {rows} in {files}, {words.size(self.bytes)}{copied}{refused}"


@dataclass(frozen=True, slots=True)
class MirrorFacts:
    place: str
    through: int
    """The cluster time up to which changes were applied."""
    lag_seconds: float
    tables: Sequence[MirroredTable]
    schema_changes: Sequence[Mapping[str, Any]]
    """The newest ones, the last one first."""

    def as_document(self) -> dict[str, Any]:
        return {
            "place": self.place,
            "through": words.moment(seconds_of(self.through)),
            "lagSeconds": round(self.lag_seconds),
            "tables": [table.as_document() for table in self.tables],
            "schemaChanges": [
                {
                    "ns": change["ns"],
                    "column": change["column"],
                    "what": change["what"],
                    "type": change["new_type"],
                    "time": _moment(change),
                }
                for change in self.schema_changes
            ],
        }

    def lines(self) -> list[tuple[str, str]]:
        """Labels and texts for people."""
        rows = sum(table.rows for table in self.tables)
        through = words.moment(seconds_of(self.through))
        tables = words.counted(len(self.tables), "table")
        found = [("mirror", f"{self.place}: {tables}, {words.counted(rows, 'row')}, through {through}")]
        found += [("table", table.in_words()) for table in self.tables[:_MOST_TABLES]]
        if len(self.tables) > _MOST_TABLES:
            found.append(("table", f"and {len(self.tables) - _MOST_TABLES} more; --json lists all"))
        found.append(("lag", words.span(self.lag_seconds)))
        found += [
            ("schema", f"{each['ns']}  {each['what']}: {each['column']} {each['new_type']}  {_moment(each)}")
            for each in self.schema_changes
        ]
        return found


def _moment(change: Mapping[str, Any]) -> str:
    return words.moment(change["cluster_time"].timestamp())


def mirror_in(place: str, now: float) -> MirrorFacts | None:
    """The mirror in a folder; None if there is none, or nothing here can read it."""
    try:
        from tailrace.lake.mirror.mirror_table import MirrorTable
        from tailrace.lake.mirror.schema_changes import SchemaChangeTable
        from tailrace.lake.storage.log_store import open_store
        from tailrace.pipeline.mirror.mirror_state import MirrorState
        from tailrace.pipeline.mirror.scope import table_place
    except ImportError:
        return None
    state = MirrorState.load(open_store(place))
    if state is None:
        return None
    tables = [MirrorTable.open(table_place(place, name)) for name in sorted(state.namespaces)]
    return MirrorFacts(
        place,
        state.through,
        max(now - seconds_of(state.through), 0.0),
        [MirroredTable.of(table) for table in tables],
        SchemaChangeTable(place).newest(_NEWEST_CHANGES),
    )
