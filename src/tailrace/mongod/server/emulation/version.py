"""The MongoDB version this server presents unless it is told to be an older one (`emulation.py`)."""

from typing import Final

VERSION: Final = "8.2.1"
GIT_VERSION: Final = "0" * 40
