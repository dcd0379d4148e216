"""What a change stream raises by itself; everything else is PyMongo's and passes through as it is."""

from pymongo.errors import InvalidOperation


class MissingResumeTokenError(InvalidOperation):
    """An event came without a resume token, so that the stream could not be resumed behind it.

    A stage of the pipeline removed `_id`. The stream is closed. Who wants such events can run an aggregation
    with a `$changeStream` stage, and do without resuming.
    """

    def __init__(self) -> None:
        super().__init__("Cannot provide resume functionality when the resume token is missing.")
