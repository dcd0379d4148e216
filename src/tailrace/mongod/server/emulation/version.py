"""The MongoDB version that the server presents by default; `release.py` has the older ones."""

from typing import Final

from tailrace.events.stream_release import CURRENT_RELEASE

VERSION: Final = CURRENT_RELEASE.version
GIT_VERSION: Final = "0" * 40
