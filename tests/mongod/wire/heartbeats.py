"""The heartbeats of a driver."""

from pymongo.monitoring import (
    ServerHeartbeatFailedEvent,
    ServerHeartbeatListener,
    ServerHeartbeatStartedEvent,
    ServerHeartbeatSucceededEvent,
)


class Heartbeats(ServerHeartbeatListener):
    """Counts replies to hello that the server sent without a request."""

    streamed = 0

    def started(self, event: ServerHeartbeatStartedEvent) -> None:
        pass

    def succeeded(self, event: ServerHeartbeatSucceededEvent) -> None:
        self.streamed += event.awaited

    def failed(self, event: ServerHeartbeatFailedEvent) -> None:
        pass
