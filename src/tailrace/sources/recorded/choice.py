"""Choose how the changes of a deployment are read: from its oplog, or from its own change stream."""

import logging
from typing import Final, NamedTuple

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError, UsageError
from tailrace.events.recovered.entries import RECORDED, recorded_pipeline
from tailrace.log_lines import fields
from tailrace.sources.deployments.deployment import DeploymentSource
from tailrace.sources.deployments.driver_errors import hosts_of
from tailrace.sources.deployments.shard_oplog import ShardOplog
from tailrace.sources.recorded.recorded_source import RecordedSource
from tailrace.sources.recorded.stream_oplog import StreamOplog
from tailrace.sources.recorded.via import Via

_NOT_ALLOWED: Final = (ErrorCode.Unauthorized, 8000)
"""How servers refuse a user: MongoDB's, and a managed service that has a code of its own for it."""

NOTICE: Final = "Reading the change stream of the deployment instead of its oplog"
_LOG: Final = logging.getLogger("tailrace.pipeline")


class Choice(NamedTuple):
    via: Via
    refusal: CommandError | None = None
    """Why the oplog may not be read, if nobody has asked for the stream."""


def choose(oplog: ShardOplog, via: Via | None, *, is_router: bool) -> Choice:
    """Choose how a deployment is read; raises if it cannot be read as asked, or in no way."""
    if is_router and via is Via.STREAM:
        raise UsageError(
            f"{hosts_of(oplog.uri)} is a router, and the streams of a sharded cluster cannot be recorded; "
            "read its oplogs, with --via oplog"
        )
    if is_router or via is Via.OPLOG:
        return Choice(Via.OPLOG)
    refusal = None if via is Via.STREAM else _refusal(oplog)
    if via is None and refusal is None:
        return Choice(Via.OPLOG)
    _check_release(oplog)
    if refusal is not None and _refusal(StreamOplog.of(oplog)) is not None:
        raise refusal
    return Choice(Via.STREAM, refusal)


def _refusal(oplog: ShardOplog) -> CommandError | None:
    """Why the user may not read an oplog or a stream; None if that is allowed."""
    try:
        oplog.newest()
    except CommandError as error:
        if error.code in _NOT_ALLOWED:
            return error
        raise
    return None


def open_deployment(uri: str, via: Via | None = None) -> DeploymentSource:
    """Open a deployment as a source; a line of the log says so if nobody has asked for its stream."""
    source = DeploymentSource(uri)
    chosen = choose(source.entrance, via, is_router=source.is_routed)
    if chosen.refusal is not None:
        _LOG.warning(NOTICE, extra=fields(reason=str(chosen.refusal)))
    if chosen.via is Via.OPLOG:
        return source
    source.close()
    return RecordedSource(uri)


def _check_release(oplog: ShardOplog) -> None:
    """Refuse a deployment whose streams do not show everything that others are made of."""
    release = oplog.release()
    try:
        release.check(RECORDED, recorded_pipeline(release))
    except CommandError:
        raise UsageError(
            f"the change streams of {hosts_of(oplog.uri)}, which is of release {release.version}, do not "
            "show all changes; they can be recorded from 6.0 on; let the user read local.oplog.rs instead "
            "(docs/rights.md)"
        ) from None
