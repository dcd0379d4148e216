"""Names of columns: what every reader of the table can use, one for each field, whatever the field is called.

The layout has the names of field and column beside each other, so a column leads back to its field.
"""

import re
from collections.abc import Iterable
from typing import Final

_REFUSED: Final = re.compile(r"[\x00-\x20\x7f ,;{}()=.`\"']")
"""What Delta and Parquet writers refuse in a name, and what separates or quotes names in SQL"""


class Names:
    """The names of the columns of one struct; those that differ only by case are the same to Spark."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = {name.lower() for name in taken}

    def take(self, wanted: str) -> str:
        """A free name as close as possible to the wanted one.

        >>> names = Names(["_token"])
        >>> [names.take(field) for field in ("a.b", "A_b", "", "_token", "größe")]
        ['a_b', 'A_b__2', '_', '_token__2', 'größe']
        """
        readable = _REFUSED.sub("_", wanted) or "_"
        name, number = readable, 1
        while name.lower() in self._taken:
            number += 1
            name = f"{readable}__{number}"
        self._taken.add(name.lower())
        return name
