"""What the oplog says of an update: a diff, or the whole new document."""

from tailrace.bson.documents import encode
from tailrace.events.update_diff import compute_diff, delta_of
from tailrace.mongod.language.update import UpdateResult
from tailrace.mongod.server.emulation.release import LOGGED_DIFFS, Release


def logged_update(result: UpdateResult, before: bytes, after: bytes, release: Release) -> bytes:
    """For an update by a client: operators give a diff, a replacement is logged whole.

    So is a document that a pipeline has made, on releases that could not log the difference.
    """
    if result.is_replacement or (result.diff is None and not release.has(LOGGED_DIFFS)):
        return after
    if result.diff is None:
        return logged_difference(before, after)
    return delta_of(encode(result.diff))


def logged_difference(before: bytes, after: bytes) -> bytes:
    """For a document that was made anew: what differs, or the document if that is smaller."""
    diff = compute_diff(before, after)
    if diff is None:
        return after
    return delta_of(diff)
