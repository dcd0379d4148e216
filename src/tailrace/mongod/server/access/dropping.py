"""Take roles that are removed away from everybody who has them."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from tailrace.mongod.server.access.changing import own_roles, to_documents, update
from tailrace.mongod.server.access.principals import Principal
from tailrace.mongod.server.access.stored import ROLES, USERS, StoredAccess

if TYPE_CHECKING:
    from tailrace.mongod.server.dispatch.context import Context


async def revoke_everywhere(
    context: "Context", access: StoredAccess, is_removed: Callable[[Principal], bool]
) -> None:
    """Remove roles from users and from other roles, before the roles themselves are removed."""
    for collection, kind, documents in ((USERS, "user", access.users()), (ROLES, "role", access.roles())):
        for document in documents:
            roles = own_roles(document)
            kept = [role for role in roles if not is_removed(role)]
            if len(kept) < len(roles):
                holder = Principal(document[kind], document["db"])
                await update(context, collection, holder, {"$set": {"roles": to_documents(kept)}})
