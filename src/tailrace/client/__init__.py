"""Change streams for applications, as the drivers' specification defines them, on PyMongo's connections.

`watch` is the blocking one, `aio.watch` the one for asyncio. Both run the same flow (`stream.py`) around the
same state machine (`change_stream.py`), which does no I/O.
"""

from tailrace.client.errors import MissingResumeTokenError
from tailrace.client.sync import ChangeStream, watch

__all__ = ["ChangeStream", "MissingResumeTokenError", "watch"]
