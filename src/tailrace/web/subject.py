"""What a page is about: a deployment, a pipeline, a history; each of them may be missing."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

Figures: TypeAlias = dict[str, Any]
"""A report of some part, as serverStatus has it."""
OnFault: TypeAlias = Callable[[Exception], None]
"""Logs an exception that nobody expected: the page continues."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What the process that serves the page is, and what the page may ask."""

    command: str
    """serve or pipeline"""
    source: str | None
    """The connection string that the page itself uses; None for archived oplogs."""
    clients_uri: str
    """The connection string as clients of the deployment write it, without a password."""
    has_users: bool = False
    """Whether visitors have to log in as a user of the deployment."""
    is_own: bool = False
    """Whether the deployment is this process."""
    data: Path | None = None
    """The data directory."""
    history: str | None = None
    """A folder, or the URL of an object store."""
    keep_seconds: float | None = None
    keep_bytes: int | None = None
    pipeline: Callable[[], Figures] | None = None
    """The state of the pipeline of this process; a server has it in its serverStatus."""
