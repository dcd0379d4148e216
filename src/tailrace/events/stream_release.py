"""How change streams of older server releases differ, as far as clients can see it.

Stages take one of these and follow it; which release of the server has what is the server's knowledge
(`mongod/server/emulation/release.py`). The defaults are the release whose events all of `stages/` describes.
"""

from dataclasses import dataclass
from typing import Final

from tailrace.events.layout.token import CURRENT_VERSION


@dataclass(frozen=True, slots=True)
class StreamRelease:
    """What the streams of one release show and check."""

    token_version: int = CURRENT_VERSION
    """The version of new resume tokens; a higher one is not understood."""
    wall_time: bool = True
    """Whether events have `wallTime`."""
    ns_type: bool = True
    """Whether `create` events have `nsType`."""
    truncated_arrays: bool = True
    """Whether updates have `truncatedArrays`."""
    disambiguated_paths: bool = True
    """Whether updates of expanded streams have `disambiguatedPaths`."""
    keeps_resume_tokens: bool = True
    """Whether a pipeline that changes or removes `_id` fails; if not, the client has to notice."""

    @property
    def shows_inserts_as_now(self) -> bool:
        """Whether the event of an insert has the same bytes as in the current release."""
        return self.token_version == CURRENT_VERSION and self.wall_time


CURRENT_RELEASE: Final = StreamRelease()
