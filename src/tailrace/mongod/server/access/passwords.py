"""The credentials of users: what is stored of a password, for each way to log in."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.access.scram import MECHANISMS, SHA_256

if TYPE_CHECKING:
    from tailrace.mongod.server.admin.parameters import Parameters

EXTERNAL: Final = "$external"
"""The database of users whose passwords are stored elsewhere."""
_NOT_PREPARED: Final = 50687


def checked_mechanisms(given: Sequence[str] | None) -> list[str]:
    """The ways to log in that a command names; by default all."""
    if given is None:
        return list(MECHANISMS)
    if not given:
        raise CommandError(ErrorCode.BadValue, "mechanisms field must not be empty")
    for name in given:
        if name not in MECHANISMS:
            raise CommandError(ErrorCode.BadValue, f"Unknown auth mechanism '{name}'")
    return [name for name in MECHANISMS if name in given]


def credentials(
    user: str, password: str, mechanisms: Sequence[str], parameters: "Parameters", *, is_digested: bool
) -> dict[str, Any]:
    """What is stored of a password; raises if it cannot be used."""
    if is_digested and SHA_256 in mechanisms:
        raise CommandError(ErrorCode.BadValue, f"Use of {SHA_256} requires undigested passwords")
    if not password:
        raise CommandError(_NOT_PREPARED, "a password cannot be empty")
    made = {}
    for name in mechanisms:
        mechanism = MECHANISMS[name]
        try:
            secret = mechanism.secret(user, password, is_digested=is_digested)
        except ValueError as error:
            raise CommandError(ErrorCode.BadValue, f"the password cannot be used: {error}") from None
        made[name] = mechanism.credential(secret, parameters[mechanism.iterations_parameter])
    return made
