"""Where a stream was resumed, and whether that place was met.

It has the client's token, the version of new tokens, and a state that two stages share: check-invalidate may
recognise the token of an invalidation for which ensure-resume-token-present waits.
"""

from dataclasses import dataclass

from tailrace.events.change_event import ChangeEvent
from tailrace.events.resume_token import CURRENT_VERSION, ResumeToken


@dataclass(slots=True)
class ResumePoint:
    """State of one stream, built from the client's token when it is opened."""

    token: ResumeToken | None = None
    found: bool = False
    newest_version: int = CURRENT_VERSION
    """The version of tokens that the server writes unless a client's is newer."""

    @property
    def is_event(self) -> bool:
        """Whether the client's token names one event, which then has to be there."""
        return self.token is not None and not self.token.is_high_water_mark

    @property
    def stream_version(self) -> int:
        """The version of tokens past the resume point."""
        newest = self.newest_version
        return newest if self.token is None else max(newest, self.token.version)

    def version_of(self, event: ChangeEvent) -> int:
        """Return the version of one event's token.

        Up to the client's token, events have the client's version, so that an old token finds its equal.
        """
        token = self.token
        if token is None or token.is_high_water_mark or event.entry.ts > token.cluster_time:
            return self.stream_version
        if event.entry.txn_op_index > token.txn_op_index:
            return self.stream_version
        return token.version
