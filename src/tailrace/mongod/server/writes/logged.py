"""How an update is logged: as a diff, or as the whole new document."""

from tailrace.bson.documents import encode
from tailrace.events.update_diff import compute_diff, delta_of
from tailrace.mongod.language.update import UpdateResult
from tailrace.mongod.server.emulation.release import LOGGED_DIFFS, Release


def logged_update(result: UpdateResult, before: bytes, after: bytes, release: Release) -> bytes:
    """The logged form of a client's update: a diff for operators, the document for a replacement.

    On releases that could not log the difference, the result of a pipeline is logged as a document too.
    """
    if result.is_replacement or (result.diff is None and not release.has(LOGGED_DIFFS)):
        return after
    if result.diff is None:
        return logged_difference(before, after)
    return delta_of(encode(result.diff))


def logged_difference(before: bytes, after: bytes) -> bytes:
    """The logged form of a computed document: the difference, or the document if that is smaller."""
    diff = compute_diff(before, after)
    if diff is None:
        return after
    return delta_of(diff)
