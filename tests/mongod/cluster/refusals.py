"""The error codes with which commands are refused."""

from collections.abc import Callable
from typing import Any

import pytest
from pymongo.database import Database
from pymongo.errors import OperationFailure

from tailrace.testing.in_thread import Document


def refusal(act: Callable[[], object]) -> int | None:
    """The code with which a call is refused; fails if it is not refused."""
    with pytest.raises(OperationFailure) as caught:
        act()
    return caught.value.code


def code_of(database: Database[Document], *command: Any, **fields: Any) -> int | None:
    """The code with which a command is refused."""
    return refusal(lambda: database.command(*command, **fields))
