"""``disambiguatedPaths``: what a dotted path in an update description means, where it is ambiguous.

``"a.0"`` may be element 0 of an array or field ``"0"`` of a document, ``"a.b"`` a nested field or a field
with a dot in its name. A path is ambiguous when one of its field names contains a dot, or is numeric and not
the first component. For each ambiguous path that the description reports (updated, removed or truncated)
there is an entry with its components: strings for field names, int32 for array indexes.

Few updates have an ambiguous path, so the describer only notices that there may be one; this second walk over
the diff then finds them, in the describer's order.
"""

from typing import Final, NamedTuple, TypeAlias

from tailrace.bson.raw import ARRAY, INT32, INT32_LE, STRING, document, element, elements
from tailrace.events.update_diff.grammar import is_array_diff, read_array_diff, read_document_diff

Component: TypeAlias = tuple[int, bytes]
"""A step of a path as a BSON value: type byte and value bytes."""

_DOT: Final = ord(".")
_ZERO: Final = ord("0")


def is_ambiguous_name(name: bytes, *, is_first: bool) -> bool:
    """Whether a field name makes a dotted path through it ambiguous.

    >>> [is_ambiguous_name(name, is_first=False) for name in (b"0", b"10", b"01", b"-1", b"a.b", b"")]
    [True, True, False, False, True, False]
    """
    if _DOT in name:
        return True
    return not is_first and name.isdigit() and (name[0] != _ZERO or len(name) == 1)


def disambiguated_paths(raw_diff: bytes) -> bytes:
    """The document ``{dotted path: [components]}`` of a diff.

    >>> from tailrace.bson.documents import decode, encode
    >>> decode(disambiguated_paths(encode({"u": {"x.y": 1, "0": 1}, "sa": {"d": {"0": False}}})))
    {'x.y': ['x.y'], 'a.0': ['a', '0']}
    """
    found: list[bytes] = []
    _visit_document(raw_diff, 0, _Path((), (), False), found)
    return document(*found)


class _Path(NamedTuple):
    names: tuple[bytes, ...]
    components: tuple[Component, ...]
    is_ambiguous: bool

    def to_field(self, name: bytes) -> "_Path":
        ambiguous = self.is_ambiguous or is_ambiguous_name(name, is_first=not self.names)
        step = (STRING, INT32_LE.pack(len(name) + 1) + name + b"\0")
        return _Path((*self.names, name), (*self.components, step), ambiguous)

    def to_index(self, index: int) -> "_Path":
        step = (INT32, INT32_LE.pack(index))
        return _Path((*self.names, b"%d" % index), (*self.components, step), self.is_ambiguous)

    def report(self, found: list[bytes]) -> None:
        if self.is_ambiguous:
            steps = [element(kind, b"%d" % i, value) for i, (kind, value) in enumerate(self.components)]
            found.append(element(ARRAY, b".".join(self.names), document(*steps)))


def _visit_document(raw: bytes, start: int, path: _Path, found: list[bytes]) -> None:
    deletes, updates, inserts, binaries, sub_diffs = read_document_diff(raw, start)
    for section in (updates, inserts, binaries, deletes):
        if section:
            for _, name, _, _ in elements(raw, section):
                path.to_field(name).report(found)
    for name, sub_start in sub_diffs:
        _visit_sub_diff(raw, sub_start, path.to_field(name), found)


def _visit_sub_diff(raw: bytes, start: int, path: _Path, found: list[bytes]) -> None:
    if not is_array_diff(raw, start):
        _visit_document(raw, start, path, found)
        return
    new_length, entries = read_array_diff(raw, start)
    if new_length is not None:
        path.report(found)
    for entry in entries:
        if entry.is_sub_diff:
            _visit_sub_diff(raw, entry.start, path.to_index(entry.position), found)
        else:
            path.to_index(entry.position).report(found)
