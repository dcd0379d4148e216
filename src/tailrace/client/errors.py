"""The error that a change stream raises in addition to PyMongo's errors."""

from pymongo.errors import InvalidOperation


class MissingResumeTokenError(InvalidOperation):
    """An event has no resume token, because a stage of the pipeline removed its `_id`.

    The stream is closed: it could not be resumed after this event. To read such events without resuming, run
    an aggregation with a `$changeStream` stage.
    """

    def __init__(self) -> None:
        super().__init__("Cannot provide resume functionality when the resume token is missing.")
