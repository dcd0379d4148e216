"""The last stage: an event that no reply can contain ends the stream."""

from tailrace.bson.raw import MAX_INTERNAL_SIZE
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.stages.stage import Batch, Row


def check_event_size(batch: Batch[Row]) -> Batch[Row]:
    """Fail at the first row that is larger than any BSON document may be."""
    for index, row in enumerate(batch.items):
        if len(row.raw) > MAX_INTERNAL_SIZE:
            error = CommandError(
                ErrorCode.BSONObjectTooLarge,
                f"an event of {len(row.raw)} bytes exceeds the limit of {MAX_INTERNAL_SIZE}; resume with "
                "$changeStreamSplitLargeEvent as the last stage, or with a projection",
            )
            return batch.having(batch.items[:index], error)
    return batch
