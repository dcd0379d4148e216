"""The value of a path that does not exist.

MongoDB distinguishes a missing field from null; so do the evaluators here. `MISSING` is never stored in a
document: a computed field that is missing is left out.
"""

from enum import Enum
from typing import Final


class Missing(Enum):
    """One member, so that type checkers can narrow on it."""

    MISSING = "missing"

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = Missing.MISSING
