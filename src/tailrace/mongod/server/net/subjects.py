r"""The subject of a client's certificate, as MongoDB names users by it (RFC 2253).

>>> subject_name(((("countryName", "DE"),), (("organizationName", "Shop, Inc."),), (("commonName", "app"),)))
'CN=app,O=Shop\\, Inc.,C=DE'
"""

import asyncio
from collections.abc import Iterable
from typing import Any, Final

_SHORT: Final = {
    "commonName": "CN",
    "countryName": "C",
    "domainComponent": "DC",
    "givenName": "GN",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "stateOrProvinceName": "ST",
    "streetAddress": "street",
    "surname": "SN",
    "userId": "UID",
}
"""OpenSSL's short names, where they differ from the long ones."""
_ESCAPED: Final = frozenset(b',+"\\<>;')


def subject_name(subject: Iterable[Iterable[tuple[str, str]]]) -> str:
    """Write the parts of a name, as Python's `ssl` returns them, most significant part last."""
    parts = [
        "+".join(f"{_SHORT.get(kind, kind)}={_escaped(value)}" for kind, value in part) for part in subject
    ]
    return ",".join(reversed(parts))


def peer_subject(transport: asyncio.BaseTransport) -> str | None:
    """The subject of the certificate that a client has presented and that was verified."""
    connection: Any = transport.get_extra_info("ssl_object")
    if connection is None:
        return None
    certificate = connection.getpeercert()
    return subject_name(certificate["subject"]) if certificate else None


def _escaped(value: str) -> str:
    data = value.encode()
    last = len(data) - 1
    return "".join(
        _escaped_byte(byte, is_first=place == 0, is_last=place == last) for place, byte in enumerate(data)
    )


def _escaped_byte(byte: int, *, is_first: bool, is_last: bool) -> str:
    if byte < 0x20 or byte >= 0x7F:
        return f"\\{byte:02X}"
    character = chr(byte)
    is_edge = (is_first and character in "# ") or (is_last and character == " ")
    return f"\\{character}" if byte in _ESCAPED or is_edge else character
