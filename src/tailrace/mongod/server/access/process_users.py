"""Users of this process alone: what a process of the server's own logs in as.

They are not stored, and cannot be changed.
"""

import secrets
from collections.abc import Iterable, Mapping
from typing import Any, Final

from tailrace.mongod.server.access.principals import Principal
from tailrace.mongod.server.access.scram import MECHANISMS, SHA_256
from tailrace.mongod.server.access.stored import StoredAccess

_ITERATIONS: Final = 5000
"""Few: the password is random and long."""


def _find(database: str, collection: str) -> dict[str, Any]:
    return {"resource": {"db": database, "collection": collection}, "actions": ["find"]}


PIPELINE_PRIVILEGES: Final = (
    _find("local", "oplog.rs"),
    _find("config", "system.preimages"),
    _find("config", "shards"),
    _find("config", "removedShards"),
    _find("config", "version"),
    _find("config", "transactions"),
    {"resource": {"cluster": True}, "actions": ["replSetGetConfig"]},
)
"""What the pipeline needs (docs/rights.md)."""


def add_process_user(
    access: StoredAccess, name: str, password: str, privileges: Iterable[Mapping[str, Any]]
) -> None:
    """Let somebody log in who knows the password, as a user of the database admin."""
    mechanism = MECHANISMS[SHA_256]
    principal = Principal(name, "admin")
    access.extra_users[principal] = {
        "_id": principal.identity,
        "userId": secrets.token_bytes(16),
        **principal.to_document("user"),
        "credentials": {SHA_256: mechanism.credential(mechanism.secret(name, password), _ITERATIONS)},
        "roles": [],
        "privileges": list(privileges),
    }
