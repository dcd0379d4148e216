"""Positions in a SQLite file, for the workers of one machine."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import bson

from tailrace.client.flow import Flow
from tailrace.client.groups.delivery import DeadLetter
from tailrace.client.groups.state import GroupState, from_document, to_document
from tailrace.errors import UsageError

R = TypeVar("R")

_LOCK_SECONDS: Final = 30.0
_TABLES: Final = """
CREATE TABLE IF NOT EXISTS groups (name TEXT PRIMARY KEY, version INTEGER NOT NULL, state BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS dead_letters (
    name TEXT NOT NULL, position TEXT NOT NULL, letter BLOB NOT NULL, PRIMARY KEY (name, position)
);
"""


class FileGroups:
    """Opens the file for each operation, so that threads and processes share nothing else."""

    namespaces: tuple[str, ...] = ()

    def __init__(self, path: Path | str, call: Callable[[Callable[[], Any]], Any]) -> None:
        """``call`` runs a function that uses the disk: directly, or in a thread for asyncio."""
        self._path = Path(path)
        self._call = call
        self.place = str(path)
        with self._connection() as connection:
            connection.executescript(_TABLES)

    def load(self, group: str) -> Flow[GroupState | None]:
        rows = yield self._reading("SELECT state FROM groups WHERE name = ?", group)
        return from_document(_decoded(rows[0][0])) if rows else None

    def create(self, state: GroupState) -> Flow[bool]:
        statement = "INSERT INTO groups VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
        count: int = yield self._writing(
            statement, state.name, state.version, bson.encode(to_document(state))
        )
        return bool(count)

    def replace(self, state: GroupState) -> Flow[bool]:
        count: int = yield self._writing(
            "UPDATE groups SET version = ?, state = ? WHERE name = ? AND version = ?",
            *(state.version, bson.encode(to_document(state)), state.name, state.version - 1),
        )
        return bool(count)

    def delete(self, group: str) -> Flow[None]:
        yield self._writing("DELETE FROM groups WHERE name = ?", group)
        yield self._writing("DELETE FROM dead_letters WHERE name = ?", group)

    def groups(self) -> Flow[list[str]]:
        rows = yield self._reading("SELECT name FROM groups ORDER BY name")
        return [name for (name,) in rows]

    def bury(self, letter: DeadLetter) -> Flow[None]:
        statement = "INSERT OR REPLACE INTO dead_letters VALUES (?, ?, ?)"
        yield self._writing(statement, letter.group, letter.position, bson.encode(letter.to_document()))

    def letters(self, group: str, limit: int, after: str = "") -> Flow[list[DeadLetter]]:
        statement = (
            "SELECT letter FROM dead_letters WHERE name = ? AND position > ? ORDER BY position LIMIT ?"
        )
        rows = yield self._reading(statement, group, after, limit)
        return [DeadLetter.from_document(_decoded(letter)) for (letter,) in rows]

    def count_letters(self, group: str) -> Flow[int]:
        rows = yield self._reading("SELECT count(*) FROM dead_letters WHERE name = ?", group)
        count: int = rows[0][0]
        return count

    def discard(self, letter: DeadLetter) -> Flow[None]:
        statement = "DELETE FROM dead_letters WHERE name = ? AND position = ?"
        yield self._writing(statement, letter.group, letter.position)

    def _reading(self, statement: str, *values: Any) -> Callable[[], Any]:
        return partial(self._call, partial(self._run, statement, values, sqlite3.Cursor.fetchall))

    def _writing(self, statement: str, *values: Any) -> Callable[[], Any]:
        return partial(self._call, partial(self._run, statement, values, lambda cursor: cursor.rowcount))

    def _run(self, statement: str, values: tuple[Any, ...], result: Callable[[sqlite3.Cursor], R]) -> R:
        with self._connection() as connection, connection:
            return result(connection.execute(statement, values))

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self._path, timeout=_LOCK_SECONDS)) as connection:
                yield connection
        except sqlite3.Error as error:
            raise UsageError(f"the file of positions {self._path} cannot be used: {error}") from None


def _decoded(raw: bytes) -> dict[str, Any]:
    document: dict[str, Any] = bson.decode(raw)
    return document
