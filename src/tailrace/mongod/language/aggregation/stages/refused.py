"""Stages that MongoDB has but that cannot run here; each has its own error."""

from typing import Any, Final, NoReturn

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.language.aggregation.scope import StageScope

_NEEDS_STREAM: Final = "$changeStreamSplitLargeEvent"


def refuse_change_stream(name: str, _spec: Any, _scope: StageScope) -> NoReturn:
    """`$changeStream` is not an ordinary stage; commands that open a stream handle it before."""
    if name == _NEEDS_STREAM:
        raise CommandError(ErrorCode.IllegalOperation, f"{name} can only be used in a $changeStream pipeline")
    raise CommandError(ErrorCode.IllegalOperation, f"{name} cannot be run as an ordinary stage here")


def refuse_search(name: str, _spec: Any, _scope: StageScope) -> NoReturn:
    """Full-text and vector search, which MongoDB without a search process refuses, too."""
    raise CommandError(31082, f"{name} is not enabled: there is no search process to ask")


def refuse_geo_near(name: str, _spec: Any, _scope: StageScope) -> NoReturn:
    """`$geoNear` needs a geospatial index, which does not exist here."""
    raise CommandError(
        ErrorCode.IndexNotFound, f"{name} requires a 2d or 2dsphere index, but none were found"
    )
