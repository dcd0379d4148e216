"""How an update is logged: as a diff, or as the whole new document."""

from typing import Any

from tailrace.bson.documents import encode
from tailrace.events.update_diff import compute_diff, delta_of
from tailrace.mongod.language.update import UpdateResult
from tailrace.mongod.server.emulation.release import LOGGED_DIFFS, Release


def logged_update(result: UpdateResult, before: bytes, after: bytes, release: Release) -> bytes:
    """The logged form of a client's update: a diff for operators, the document for a replacement.

    On releases that could not log the difference, the result of a pipeline is logged as a document too.
    """
    if result.diff is not None:
        return delta_of(encode(result.diff))
    built = after if result.as_built is None else encode(result.as_built)
    diff = None
    if not result.is_replacement and release.has(LOGGED_DIFFS):
        # As on a server, a pipeline's result without `_id` is logged as the removal of `_id`.
        diff = compute_diff(before, built)
    if diff is not None:
        return delta_of(diff)
    return after if result.as_built is None or "_id" not in result.as_built else built


def logged_metadata(result: UpdateResult, meta_field: str, before: bytes, after: bytes) -> bytes:
    """The logged form of an update of a bucket's metadata, which clients know by the name ``meta_field``."""
    if result.diff is None:
        return logged_difference(before, after)
    diff: dict[str, Any] = {}
    for section, value in result.diff.items():
        if section == f"s{meta_field}":
            diff["smeta"] = value
        else:
            diff[section] = {"meta": value[meta_field]}
    return delta_of(encode(diff))


def logged_difference(before: bytes, after: bytes) -> bytes:
    """The logged form of a computed document: the difference, or the document if that is smaller."""
    diff = compute_diff(before, after)
    if diff is None:
        return after
    return delta_of(diff)
