"""What applying an update gives."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class UpdateResult:
    """The document after an update, and how to log the change."""

    document: dict[str, Any]
    diff: dict[str, Any] | None
    """The ``$v: 2`` diff of an update made of operators; None for others, and if nothing changed."""
    is_replacement: bool
    """Whether the update was a whole document, which is logged as such."""
    modified: bool
    """Whether the document's bytes changed; if not, there is nothing to write or log."""
