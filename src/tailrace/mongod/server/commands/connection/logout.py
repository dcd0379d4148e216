"""`logout`: end the log-in of this connection."""

from tailrace.mongod.server.access.needs import LOGGED_IN
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.dispatch.fields import command


async def run(context: Context) -> Reply:
    """A user logs out on the database that the user belongs to."""
    context.arguments().finish()
    client = context.client
    if client.user is not None and client.user.principal.database == context.database:
        if context.node.options.audit is not None:
            users = [client.user.principal.to_document("user")]
            param = {"reason": "the client logged out", "initialUsers": users, "updatedUsers": []}
            context.node.options.audit.write(context, "logout", param, 0)
        client.user = None
    client.conversation = None
    return {}


_FIELDS = command({})

COMMAND = Command(
    "logout",
    run,
    needs=LOGGED_IN,
    help="End the authentication of this connection.",
    fields=_FIELDS,
    same_on_router=True,
)
