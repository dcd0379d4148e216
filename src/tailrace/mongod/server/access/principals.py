"""The names of users and roles in commands: text, or a document with the name and its database."""

import hashlib
from typing import Any, NamedTuple

from tailrace.bson.compare import type_name
from tailrace.bson.values import is_string
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError


class Principal(NamedTuple):
    """A user or a role."""

    name: str
    database: str

    def __str__(self) -> str:
        return f"{self.name}@{self.database}"

    @property
    def identity(self) -> str:
        """The `_id` of the stored document."""
        return f"{self.database}.{self.name}"

    @property
    def digest(self) -> bytes:
        """What the ids of a user's sessions have as `uid`."""
        return hashlib.sha256(str(self).encode()).digest()

    def to_document(self, kind: str) -> dict[str, str]:
        """``kind`` is the name of the first field: user or role."""
        return {kind: self.name, "db": self.database}


def is_all(wanted: Any) -> bool:
    """Whether a command names all users or roles of a database: by the number 1."""
    return isinstance(wanted, int | float) and not isinstance(wanted, bool) and 1 <= wanted < 2


def principals(wanted: Any, kind: str, database: str, *, strict: bool) -> list[Principal]:
    """The users or roles (``kind``) that one value names; with ``strict`` unknown fields are refused."""
    named = wanted if isinstance(wanted, list) else [wanted]
    return [_principal(each, kind, database, strict=strict) for each in named]


def stored_principals(documents: Any, kind: str) -> list[Principal]:
    """The users or roles of a list in a stored document; what has no name is left out."""
    return [
        Principal(each[kind], each["db"])
        for each in (documents if isinstance(documents, list) else ())
        if isinstance(each, dict) and type(each.get(kind)) is str and type(each.get("db")) is str
    ]


def _principal(named: Any, kind: str, database: str, *, strict: bool) -> Principal:
    title = f"{kind.capitalize()}Name"
    if is_string(named):
        return Principal(named, database)
    if not isinstance(named, dict):
        raise CommandError(ErrorCode.BadValue, f"{title} must be either a string or an object")
    unknown = [field for field in named if field not in (kind, "db")]
    if strict and unknown:
        raise CommandError(ErrorCode.BadValue, f"{title} contains an unknown field named: '{unknown[0]}'")
    for field in (kind, "db"):
        if field not in named:
            raise CommandError(ErrorCode.BadValue, f"{title} must contain a field named: {field}")
        if type(named[field]) is not str:
            found = type_name(named[field])
            reason = f"{title} must contain a string field named: {field}. But, has type {found}"
            raise CommandError(ErrorCode.BadValue, reason)
    return Principal(named[kind], named["db"])
