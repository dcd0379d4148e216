"""MongoDB's match language: a filter compiled once, asked of many documents.

>>> matcher = compile_match({"ns.coll": "orders", "fullDocument.qty": {"$gte": 10}})
>>> matcher({"ns": {"db": "shop", "coll": "orders"}, "fullDocument": {"qty": 12}})
True
>>> compile_match({"a": {"$gt": 5}}).array_position({"a": [3, 9, 7]})
1

Supported:

=============  ==========================================================================================
comparison     ``$eq $ne $gt $gte $lt $lte $in $nin``, and a value or regex without an operator
logical        ``$and $or $nor $not``
element        ``$exists $type``
array          ``$all $elemMatch $size``
evaluation     ``$expr $regex`` (with ``$options``) ``$mod $jsonSchema $sampleRate $comment``
bitwise        ``$bitsAllSet $bitsAllClear $bitsAnySet $bitsAnyClear``
constant       ``$alwaysTrue $alwaysFalse``
=============  ==========================================================================================

Refused when the filter is compiled: ``$where $text $near $nearSphere $geoNear $geoWithin $geoIntersects``.
Everything that can be wrong with a filter is found then; a matcher itself can fail only inside ``$expr``.

The base is MongoDB 8: null does not match undefined, and ``{"a.b": null}`` does not match arrays of plain
values in ``a``. `scope` holds the grammar, `operators` the tables; every other file is a family of
operators.
"""

from collections.abc import Mapping
from typing import Any

from tailrace.query.expressions.scope import Collating
from tailrace.query.match.needles import needles_of
from tailrace.query.match.nodes import Document, Node, Position
from tailrace.query.match.operators import FIELD_OPERATORS, TOP_OPERATORS
from tailrace.query.match.scope import Scope

__all__ = ["Matcher", "compile_match"]


class Matcher:
    """Tells whether documents match a filter."""

    __slots__ = ("_matches", "_needles", "_node")

    def __init__(self, node: Node, needles: tuple[bytes, ...] = ()) -> None:
        """``needles`` are bytes that every document has that matches."""
        self._node = node
        self._matches = node.matches
        self._needles = needles

    def __call__(self, document: Document) -> bool:
        """Whether the document matches."""
        return self._matches(document)

    def may_match(self, raw: bytes) -> bool:
        """Whether a document that is not decoded yet has a chance to match."""
        return not self._needles or all(needle in raw for needle in self._needles)

    def array_position(self, document: Document) -> int | None:
        """The index that the positional operator ``$`` of an update refers to.

        None if the document does not match, or matches without an array element having decided it. If several
        parts of the filter are about arrays, the last one counts.
        """
        position = Position()
        return position.index if self._node.locate(document, position) else None


def compile_match(
    filter: Mapping[str, Any],  # noqa: A002 - what MongoDB calls it
    *,
    variables: Mapping[str, Any] | None = None,
    collation: Collating | None = None,
) -> Matcher:
    """Compile a filter; ``variables`` are what ``$expr`` can refer to with ``$$``, ``NOW`` among them."""
    scope = Scope(FIELD_OPERATORS, TOP_OPERATORS, {} if variables is None else variables, collation)
    return Matcher(scope.filter(filter), needles_of(filter) if collation is None else ())
