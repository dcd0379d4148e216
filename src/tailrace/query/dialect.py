"""What the language of filters and expressions does differently in MongoDB's releases."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Dialect:
    """The rules of one release; the defaults are those of the current one."""

    undefined_is_null: bool = False
    """Null in a filter finds undefined."""
    converts_binary: bool = True
    """`$convert` converts from and to binary data, and takes a format, a base and a byte order."""


CURRENT_DIALECT: Final = Dialect()
