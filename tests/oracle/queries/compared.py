"""Compare many reads, and require that nearly all are equal."""

from collections.abc import Iterable
from typing import Any, Final

from tailrace.errors import WireError
from tests.oracle.comparison import differences
from tests.oracle.seeds import some
from tests.oracle.twins import Tally, Twins

Document = dict[str, Any]
EQUAL_SHARE: Final = 0.995
_INTERNAL_ERROR: Final = 1
_MOST_COMMANDS: Final = 600


def compare(twins: Twins, commands: Iterable[Document], *, is_unordered: bool = False) -> Tally:
    """Run commands on both servers; with ``is_unordered`` neither documents nor sets in them have an order.

    A reply that cannot be read is not compared: a mongod may cut the text of an error inside a character.
    """
    tally = twins.tally = Tally()
    for command in commands:
        try:
            real, ours = (side.call({**command, "$db": "test"}) for side in (twins.real, twins.ours))
        except WireError:
            twins.close()
            continue
        assert ours.get("code") != _INTERNAL_ERROR, (command, ours)
        for reply in (real, ours) if is_unordered else ():
            _sort(reply)
        tally.add(command, differences(real, ours))
    return tally


def _sort(reply: Document) -> None:
    batch = reply.get("cursor", {}).get("firstBatch", [])
    for document in batch:
        for value in document.values():
            if isinstance(value, list):
                value.sort(key=repr)
    batch.sort(key=repr)


def require_equal(twins: Twins, commands: Iterable[Document], *, is_unordered: bool = False) -> None:
    """Compare, and fail if more than five in a thousand differ; in `make test` a sample."""
    tally = compare(twins, some(commands, _MOST_COMMANDS), is_unordered=is_unordered)
    print(tally)
    assert tally.equal_share >= EQUAL_SHARE, tally


def evaluation(expression: Any, document: Document) -> Document:
    """The command that evaluates an expression on a document."""
    stages = [{"$documents": {"$literal": [document]}}, {"$replaceWith": {"r": expression}}]
    return {"aggregate": 1, "pipeline": stages, "cursor": {}}
