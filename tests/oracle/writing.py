"""Write to both servers, and compare replies, stored documents, oplog entries and events."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from tests.oracle.comparison import Difference, Document, value_differences
from tests.oracle.seeds import some
from tests.oracle.twins import Pair, Twins

_MOST_CASES: Final = 80


@dataclass
class Case:
    """An update of one document, which is inserted before unless it is None."""

    document: Document | None
    update: Any
    query: Document = field(default_factory=dict)
    options: Document = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.document} {self.update} {self.query or ''} {self.options or ''}"


class Writer:
    """Runs commands on one collection of both servers and collects what differs."""

    def __init__(self, twins: Twins, collection: str) -> None:
        self.twins = twins
        self.collection = collection
        self.commands = 0
        self.problems: list[str] = []
        # The newest entry is then a write: a stream that began with a drop would be invalidated.
        twins.run({"insert": "marks", "documents": [{}]}, "marks")
        self._began = twins.operation_time(f"before {collection}")
        self._identifier = 0

    def run(self, command: Document, note: object = None, *, database: str = "test") -> Document:
        """Run a command on both servers, and return the real reply."""
        return self.run_pair(command, database, note).real

    def run_pair(self, command: Document, database: str = "test", note: object = None) -> Pair:
        """Run a command on both servers, and return both replies."""
        self.commands += 1
        pair = self.twins.run(command, database)
        self._note(command if note is None else note, pair.differences)
        return pair

    def update(self, case: Case) -> None:
        """Run a case, and compare the stored document."""
        self._identifier += 1
        query = {"_id": self._identifier}
        if case.document is not None:
            document = {**query, **case.document}
            self.twins.run({"insert": self.collection, "documents": [document]})
        statement = {"q": {**query, **case.query}, "u": case.update, **case.options}
        self.run({"update": self.collection, "updates": [statement]}, case)
        self.run({"find": self.collection, "filter": query}, case)

    def finish(self) -> None:
        """Require that nothing differed, in the oplog and in the stream neither."""
        pair = self.twins.oplog(self._began)
        real, ours = (list(filter(_is_write, side["entries"])) for side in (pair.real, pair.ours))
        self._note("oplog", list(value_differences("oplog", real, ours)))
        spec = {"startAtOperationTime": self._began, "showExpandedEvents": True}
        match = {"$match": {"operationType": {"$in": ["insert", "update", "replace", "delete", "create"]}}}
        count = sum(entry["op"] in "iud" for entry in real)
        events = self.twins.events(spec, match, count=count)
        self._note("events", events.differences)
        assert not self.problems, f"{len(self.problems)} differ\n" + "\n".join(self.problems[:40])

    def _note(self, what: object, found: list[Difference]) -> None:
        if found:
            lines = "\n".join(f"    {difference}"[:600] for difference in found[:3])
            self.problems.append(f"{what}\n{lines}")


def _is_write(entry: Document) -> bool:
    """Whether an entry is of a write, of a transaction, or of a collection that a write created."""
    return entry["op"] != "c" or not {"create", "applyOps"}.isdisjoint(entry["o"])


def same_updates(twins: Twins, collection: str, cases: Iterable[Case]) -> None:
    """Run the cases, and require equal replies, documents, oplog entries and events."""
    writer = Writer(twins, collection)
    for case in some(cases, _MOST_CASES):
        writer.update(case)
    writer.finish()
