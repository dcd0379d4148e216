"""The value of a path that leads nowhere.

MongoDB tells a missing field from one that is null; so do the evaluators here. `MISSING` never enters a
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
