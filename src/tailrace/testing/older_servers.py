"""Let the installed PyMongo connect to server releases that it no longer supports.

PyMongo refuses servers below a wire version before it sends them anything; PyMongo 4.19 accepts MongoDB 4.4
and later. A test of a driver on an emulated older server has to circumvent that.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pymongo import common

OLDEST_WIRE_VERSION: Final = 7
"""MongoDB 4.0, the oldest release that can be presented."""


@contextmanager
def older_servers_accepted() -> Iterator[None]:
    """Let PyMongo connect to all releases that can be presented, for the time of a block.

    PyMongo reads its minimum whenever it checks the topology, so clients have to be used inside the block.
    """
    minimum = common.MIN_SUPPORTED_WIRE_VERSION
    common.MIN_SUPPORTED_WIRE_VERSION = min(minimum, OLDEST_WIRE_VERSION)
    try:
        yield
    finally:
        common.MIN_SUPPORTED_WIRE_VERSION = minimum
