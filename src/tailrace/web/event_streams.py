"""Server-sent events: answers that go on until their messages, the page or the connection end."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final, TypeAlias

from starlette.responses import Response, StreamingResponse

from tailrace.web.subject import OnFault

_MOST_WAITING: Final = 100
"""Messages that a visitor has not received yet; then their source waits."""

Message: TypeAlias = tuple[str, str]
"""Its kind and its data, which is JSON."""


class EventStreams:
    def __init__(self, ended: asyncio.Event, on_fault: OnFault) -> None:
        """``ended`` is set when all of them have to end."""
        self._ended = ended
        self._on_fault = on_fault

    def response(self, messages: AsyncGenerator[Message]) -> Response:
        """An answer with all messages; they are closed with it."""
        return StreamingResponse(
            self._framed(messages), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"}
        )

    async def _framed(self, messages: AsyncGenerator[Message]) -> AsyncGenerator[str]:
        # A task of its own reads the messages, so that what they have open is closed properly: in the task of
        # a connection that was lost, every further call would be cancelled, too.
        queue: asyncio.Queue[Message | None] = asyncio.Queue(_MOST_WAITING)
        reading = asyncio.create_task(self._read(messages, queue))
        ending = asyncio.create_task(self._ended.wait())
        taking = asyncio.create_task(queue.get())
        try:
            while True:
                await asyncio.wait([taking, ending], return_when=asyncio.FIRST_COMPLETED)
                message = taking.result() if taking.done() else None
                if message is None:
                    return
                kind, data = message
                yield f"event: {kind}\ndata: {data}\n\n"
                taking = asyncio.create_task(queue.get())
        finally:
            for task in (reading, ending, taking):
                task.cancel()

    async def _read(self, messages: AsyncGenerator[Message], queue: asyncio.Queue[Message | None]) -> None:
        try:
            async with aclosing(messages) as opened:
                async for message in opened:
                    await queue.put(message)
        except Exception as error:
            self._on_fault(error)
        await queue.put(None)
