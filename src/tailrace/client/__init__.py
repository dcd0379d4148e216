"""The driver's side: change streams by the drivers' specification, on top of PyMongo.

`watch` is the blocking one, `tailrace.client.aio.watch` its twin for asyncio. Both drive the same state
machine, `change_stream.ChangeStreamMachine`, which does no I/O.
"""

from tailrace.client.errors import MissingResumeTokenError
from tailrace.client.sync import ChangeStream, watch

__all__ = ["ChangeStream", "MissingResumeTokenError", "watch"]
