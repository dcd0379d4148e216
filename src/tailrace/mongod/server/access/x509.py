"""MONGODB-X509: log in with the certificate of the TLS connection.

The certificate was verified in the handshake; its subject is the name of a user of the database `$external`.
"""

from typing import TYPE_CHECKING, Any, Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.access.changing import existing_user
from tailrace.mongod.server.access.login import admit
from tailrace.mongod.server.access.passwords import EXTERNAL
from tailrace.mongod.server.access.principals import Principal

if TYPE_CHECKING:
    from tailrace.mongod.server.dispatch.context import Context

MECHANISM: Final = "MONGODB-X509"


def log_in_by_certificate(context: "Context", wanted: str | None, database: str) -> dict[str, Any]:
    """Log in the user of the client's certificate; ``wanted`` is the name that the client gives, if any."""
    subject = context.client.certificate
    if subject is None:
        reason = "No verified subject name available from client"
        raise CommandError(ErrorCode.AuthenticationFailed, reason)
    if database != EXTERNAL:
        reason = f"X.509 authentication must always use the {EXTERNAL} database."
        raise CommandError(ErrorCode.ProtocolError, reason)
    if wanted and wanted != subject:
        reason = "There is no x.509 client certificate matching the user."
        raise CommandError(ErrorCode.AuthenticationFailed, reason)
    principal = Principal(subject, EXTERNAL)
    admit(context, principal, existing_user(context.node.access, principal), MECHANISM)
    return {"dbname": EXTERNAL, "user": subject}
