"""The addresses from which a user may log in (`authenticationRestrictions`)."""

import ipaddress
from collections.abc import Iterable, Mapping
from typing import Any, Final

from tailrace.bson.compare import type_name
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError

_FIELDS: Final = ("clientSource", "serverAddress")


def check_restrictions(restrictions: list[Any]) -> None:
    """Refuse what is no list of restrictions."""
    for restriction in restrictions:
        if not isinstance(restriction, dict):
            found = type_name(restriction)
            reason = f"authenticationRestrictions is an array of objects, not of {found}"
            raise CommandError(ErrorCode.UnsupportedFormat, reason)
        for name, value in restriction.items():
            if name not in _FIELDS:
                raise CommandError(ErrorCode.UnsupportedFormat, f"{name} is no authentication restriction")
            for address in _texts(value):
                _network(address)


def may_connect(restrictions: Iterable[Mapping[str, Any]], client: str, server: str) -> bool:
    """Whether at least one restriction is satisfied, or there is none."""
    given = list(restrictions)
    if not given:
        return True
    addresses = {"clientSource": client, "serverAddress": server}
    return any(
        all(_is_in(addresses[name], each.get(name)) for name in _FIELDS if name in each) for each in given
    )


def _is_in(address: str, networks: Any) -> bool:
    try:
        own = ipaddress.ip_address(address)
    except ValueError:
        return False
    return any(own in _network(text) for text in _texts(networks))


def _texts(value: Any) -> list[str]:
    texts = value if isinstance(value, list) else [value]
    if not all(type(text) is str for text in texts):
        raise CommandError(ErrorCode.UnsupportedFormat, "an address is a string")
    return texts


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise CommandError(ErrorCode.BadValue, "Invalid IP address in CIDR string") from None
