"""First stages that show the server's own state: operations, sessions, statistics."""

from typing import Any

from tailrace.mongod.language.aggregation.rows import PAUSE, Row, Rows
from tailrace.mongod.language.aggregation.scope import StageScope
from tailrace.mongod.language.aggregation.stage import Stage


def compile_server_state(name: str, spec: Any, scope: StageScope) -> Stage:
    """A stage whose specification is checked and whose documents are supplied by `Services.source`."""
    context = scope.context

    def run(_rows: Rows) -> Rows:
        for document in scope.services.source(name, spec, context.database, context.collection):
            yield document if document is PAUSE else Row(document)

    return run
