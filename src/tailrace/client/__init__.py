"""Change streams for applications, as the drivers' specification defines them, on PyMongo's connections.

`watch` (`sync.py`) is the blocking one, `watch_async` (`aio.py`) the one for asyncio. Both run the same flow
(`stream.py`) around the same state machine (`change_stream.py`), which does no I/O.
"""
