"""The MongoDB version this server presents, so that drivers and mongosh know what it can do."""

from typing import Final

VERSION: Final = "8.2.1"
VERSION_ARRAY: Final = (8, 2, 1, 0)
FEATURE_COMPATIBILITY_VERSION: Final = "8.2"
MIN_WIRE_VERSION: Final = 0
MAX_WIRE_VERSION: Final = 27
GIT_VERSION: Final = "0" * 40
