"""The MongoDB version that the server presents by default; `release.py` has the older ones."""

from typing import Final

VERSION: Final = "8.2.1"
GIT_VERSION: Final = "0" * 40
