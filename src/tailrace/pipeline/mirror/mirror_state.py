"""The position of a mirror as a whole, beside its tables.

A table that has no changes in a batch is not committed. So the mirror has a small file with the position up
to which its tables are complete, written after them. If it is old, a restart reads changes again that tables
have; each table knows its own position, and skips them. A table that the file does not name was not followed
up to this position, and is copied again.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tailrace.errors import HistoryError
from tailrace.events.entry_mark import EntryMark
from tailrace.lake.storage.log_store import LogStore

STATE_FILE: Final = "_mirror.json"
_FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class MirrorState:
    identity: str
    """The deployment that is mirrored."""
    through: int
    newest: Mapping[str, EntryMark] = field(default_factory=dict)
    """The newest entry of each shard that was read; they show that the source is still the same."""
    membership: Mapping[str, Any] = field(default_factory=dict)
    """The shards at that position, if they may change."""
    namespaces: frozenset[str] = frozenset()
    """The collections whose tables are complete up to there, as far as they were copied."""

    def store_in(self, store: LogStore) -> None:
        document = {
            "format": _FORMAT,
            "identity": self.identity,
            "through": self.through,
            "newest": {shard: [mark.time, mark.term, mark.digest] for shard, mark in self.newest.items()},
            "membership": self.membership,
            "namespaces": sorted(self.namespaces),
        }
        store.replace(STATE_FILE, json.dumps(document).encode())

    @classmethod
    def load(cls, store: LogStore) -> "MirrorState | None":
        """Read what `store_in` wrote; None if there is nothing."""
        try:
            document = json.loads(store.read(STATE_FILE))
            if document["format"] != _FORMAT:
                raise HistoryError(
                    f"the mirror in {store.place} was written by another release of Tailrace, with format "
                    f"{document['format']}; install that release, or name another folder"
                )
            newest = {shard: EntryMark(*mark) for shard, mark in document["newest"].items()}
            return cls(
                document["identity"],
                document["through"],
                newest,
                document["membership"],
                frozenset(document["namespaces"]),
            )
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError):
            raise HistoryError(f"the file {store.path_of(STATE_FILE)} is damaged; restore it") from None
