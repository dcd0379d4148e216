"""Stage 5: drop what is before the resume point.

Each event's token is compared with the client's until one sorts after it. The event that is equal passes:
the stage after the user's pipeline checks by it that the stream continues where the client stopped. A
high-water mark names no event; everything at its cluster time or later passes.
"""

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.change_event import ChangeEvent
from tailrace.events.cluster_time import in_words
from tailrace.events.event_token import resume_token
from tailrace.events.resume_token import Resume, compare_for_resume
from tailrace.events.stages.resume_point import ResumePoint
from tailrace.events.stages.stage import Batch


class CheckResumability:
    """Drops events whose token sorts before the client's."""

    def __init__(self, resume: ResumePoint) -> None:
        self._resume = resume
        self._surpassed = not resume.is_event

    def __call__(self, batch: Batch[ChangeEvent]) -> Batch[ChangeEvent]:
        client = self._resume.token
        if self._surpassed or client is None:
            return batch
        kept: list[ChangeEvent] = []
        for index, event in enumerate(batch.items):
            token = resume_token(event, self._resume.version_of(event))
            outcome = compare_for_resume(token, client)
            if outcome is Resume.SURPASSED:
                self._surpassed = True
                kept += batch.items[index:]
                break
            if outcome is not Resume.CHECK_NEXT:
                kept.append(event)
        return batch.having(kept)


def history_lost(start: int) -> CommandError:
    """Return the error of a stream that starts before the oldest entry that is left."""
    return CommandError(
        ErrorCode.ChangeStreamHistoryLost,
        f"the resume point at {in_words(start)} is older than the oldest entry of the oplog",
    )
