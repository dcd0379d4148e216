"""The client of a connection."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tailrace.bson.documents import encode
from tailrace.bson.values import is_string
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError

if TYPE_CHECKING:
    from tailrace.mongod.server.access.login import PendingLogin
    from tailrace.mongod.server.access.stored import LoggedIn, StoredAccess
    from tailrace.mongod.server.dispatch.context import Context
    from tailrace.mongod.server.dispatch.ownership import Ownership

_MAX_METADATA_SIZE: Final = 512
_MAX_APP_NAME_SIZE: Final = 128


@dataclass(slots=True, eq=False)
class Client:
    """One connection, as commands see it."""

    id: int
    address: str
    """Host and port of the client."""
    metadata: Mapping[str, Any] | None = None
    """The driver's description of itself, from its first hello."""
    app_name: str | None = None
    operation: "Context | None" = None
    """The command that runs for it now."""
    is_gone: bool = False
    """Whether it has disconnected."""
    guard: "StoredAccess | None" = None
    """Who may do what; None if this client may do everything."""
    user: "LoggedIn | None" = None
    """Who has logged in."""
    conversation: "PendingLogin | None" = None
    """A log-in that has begun."""
    server_host: str = ""
    """The address of this server that it has connected to."""
    certificate: str | None = None
    """The subject of its certificate, if it has presented one."""
    ownership: "Ownership | None" = None
    """Which documents this shard owns, if the client is a router."""
    created: dict[str, None] = field(default_factory=dict)
    """The collections that were created for a router's command, for the audit log."""

    @property
    def host(self) -> str:
        """The client's address without its port."""
        return self.address.rpartition(":")[0].strip("[]")

    @property
    def name(self) -> str:
        """The name of the connection in the log and in currentOp."""
        return f"conn{self.id}"

    def set_metadata(self, metadata: Mapping[str, Any]) -> None:
        """Store the metadata of the handshake; it can be sent only once."""
        if self.metadata is not None:
            reason = "the client metadata document may only be sent in the first hello"
            raise CommandError(ErrorCode.ClientMetadataCannotBeMutated, reason)
        if len(encode(metadata)) > _MAX_METADATA_SIZE:
            reason = f"the client metadata document must be less than or equal to {_MAX_METADATA_SIZE} bytes"
            raise CommandError(ErrorCode.ClientMetadataDocumentTooLarge, reason)
        _require_text(metadata, "driver", "name")
        _require_text(metadata, "driver", "version")
        _require_text(metadata, "os", "type")
        app_name = None
        if "application" in metadata:
            app_name = _subdocument(metadata, "application").get("name")
            if app_name is not None and not is_string(app_name):
                raise _wrong_type("application.name", "string")
        if app_name is not None and len(app_name.encode()) > _MAX_APP_NAME_SIZE:
            reason = f"the application name must be less than or equal to {_MAX_APP_NAME_SIZE} bytes"
            raise CommandError(ErrorCode.ClientMetadataAppNameTooLarge, reason)
        self.metadata = metadata
        self.app_name = app_name


def _require_text(metadata: Mapping[str, Any], section: str, name: str) -> None:
    value = _subdocument(metadata, section).get(name)
    if value is None:
        reason = f"missing required field '{section}.{name}' in the client metadata document"
        raise CommandError(ErrorCode.ClientMetadataMissingField, reason)
    if not is_string(value):
        raise _wrong_type(f"{section}.{name}", "string")


def _subdocument(metadata: Mapping[str, Any], section: str) -> Mapping[str, Any]:
    found = metadata.get(section)
    if found is None:
        reason = f"missing required sub-document '{section}' in the client metadata document"
        raise CommandError(ErrorCode.ClientMetadataMissingField, reason)
    if not isinstance(found, dict):
        raise _wrong_type(section, "document")
    return found


def _wrong_type(path: str, expected: str) -> CommandError:
    return CommandError(
        ErrorCode.TypeMismatch, f"the field '{path}' in the client metadata document must be a {expected}"
    )
