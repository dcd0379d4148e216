"""What a reader of Delta finds in a table of a mirror: its documents at a cluster time, by the columns."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
from bson import decode
from deltalake import DeltaTable

_END = 2**64


def documents_in(places: Sequence[str], time: int) -> list[bytes]:
    """The documents at a cluster time, in the order of keys; only a table with a past has earlier ones.

    Besides the table, ``places`` may have that of its dead letters.
    """
    rows = [row for place in places for row in pa.table(DeltaTable(place).scan()).to_pylist()]
    if rows and "_is_current" in rows[0]:
        return _of_versions(rows, time)
    if rows and "_change_type" in rows[0]:
        return _of_changes(rows, time)
    found = {row["_key"]: row["_bson"] for row in rows}
    assert len(found) == len(rows), "a document is there twice"
    return [document for _, document in sorted(found.items())]


def _of_versions(rows: list[dict[str, Any]], time: int) -> list[bytes]:
    by_key: defaultdict[bytes, list[tuple[int, int, bytes]]] = defaultdict(list)
    for row in rows:
        is_current = row["_valid_to"] is None
        assert is_current == row["_is_current"] == (row["_valid_to_increment"] is None)
        end = _END if is_current else _time(row["_valid_to"], row["_valid_to_increment"])
        by_key[row["_key"]].append((_time(row["_cluster_time"], row["_increment"]), end, row["_bson"]))
    found: list[bytes] = []
    for _, versions in sorted(by_key.items()):
        versions.sort()
        assert all(begin <= end for begin, end, _ in versions), "a version ends before it begins"
        assert all(left[1] <= right[0] for left, right in pairwise(versions)), "two versions overlap"
        found += [document for begin, end, document in versions if begin <= time < end]
    return found


def _of_changes(rows: list[dict[str, Any]], time: int) -> list[bytes]:
    """Fold changes, in the order that the documentation states."""
    rows.sort(
        key=lambda row: (
            _time(row["_cluster_time"], row["_increment"]),
            row["_token"] or "",
            row["_change_type"],
        )
    )
    state: dict[bytes, bytes] = {}
    added: set[str] = set()
    for row in rows:
        if _time(row["_cluster_time"], row["_increment"]) > time:
            break
        key, change = row["_key"], row["_change_type"]
        if change == "schema":
            column = decode(row["_bson"])["column"]
            assert column not in added, f"the column {column} was added twice"
            added.add(column)
            continue
        assert (key in state) == (change != "insert"), f"{change} of a key that is {state.get(key)!r}"
        if change == "delete":
            del state[key]
        else:
            state[key] = row["_bson"]
    return [document for _, document in sorted(state.items())]


def _time(moment: Any, increment: int) -> int:
    return int(moment.timestamp()) << 32 | increment
