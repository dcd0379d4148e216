"""What a driver hears from a server that it watches."""

from pymongo.monitoring import (
    ServerHeartbeatFailedEvent,
    ServerHeartbeatListener,
    ServerHeartbeatStartedEvent,
    ServerHeartbeatSucceededEvent,
)


class Heartbeats(ServerHeartbeatListener):
    """Counts the hellos that a driver did not have to ask for."""

    streamed = 0

    def started(self, event: ServerHeartbeatStartedEvent) -> None:
        pass

    def succeeded(self, event: ServerHeartbeatSucceededEvent) -> None:
        self.streamed += event.awaited

    def failed(self, event: ServerHeartbeatFailedEvent) -> None:
        pass
