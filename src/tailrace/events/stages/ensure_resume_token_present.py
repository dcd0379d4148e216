"""Stage 10: check that the event the client resumed after is there.

Runs after the user's stages, as on the server: a filter that removes the resume event makes the stream fail
as soon as a later event arrives. All events equal to the client's token are dropped; several shards may
deliver the same one. Until something arrives, there is no error.
"""

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.resume_token import Resume, compare_for_resume
from tailrace.events.stages.resume_point import ResumePoint
from tailrace.events.stages.stage import Batch, Row


class EnsureResumeTokenPresent:
    """Drops rows up to and including the client's token."""

    def __init__(self, resume: ResumePoint) -> None:
        self._resume = resume
        self._surpassed = not resume.is_event

    def __call__(self, batch: Batch[Row]) -> Batch[Row]:
        client = self._resume.token
        if self._surpassed or client is None:
            return batch
        for index, row in enumerate(batch.items):
            outcome = compare_for_resume(row.token, client)
            if outcome is Resume.FOUND:
                self._resume.found = True
            elif outcome is Resume.SURPASSED:
                if not self._resume.found:
                    return batch.having([], _not_found(client.data))
                self._surpassed = True
                return batch.having(batch.items[index:])
            elif outcome is Resume.NEEDS_SPLIT:
                return batch.having([], _not_split())
        return batch.having([])


def _not_found(data: str) -> CommandError:
    return CommandError(
        ErrorCode.ChangeStreamFatalError,
        f"the resume token was not found: no event of this stream has the token {data}; if the pipeline "
        "hides it, start at the token's time; otherwise resume with the scope and options that produced it",
    )


def _not_split() -> CommandError:
    return CommandError(
        ErrorCode.ChangeStreamFatalError,
        "the resume token names a fragment of a split event, but this pipeline does not split events; add "
        "$changeStreamSplitLargeEvent as its last stage",
    )
