"""Compare the documents of a sink with those of the source."""

from collections.abc import Callable, Iterable
from hashlib import blake2b

from tailrace.bson import raw as rawbson
from tailrace.bson.extjson import dumps_canonical
from tailrace.pipeline.verifying.faults import Example, FaultKind, Report, first_difference


def check_documents(
    expected: Iterable[bytes], found: Callable[[], Iterable[bytes]], *, ordered: bool = True
) -> Report:
    """Compare documents by their `_id`; ``found`` reads the sink, twice if something differs.

    Without ``ordered`` the order of fields does not count.
    """
    report = Report()
    known: dict[bytes, bytes] = {}
    for raw in found():
        identity = _identity(raw)
        if identity in known:
            report.add(FaultKind.DOUBLED, Example(_name(raw), None, raw))
        else:
            known[identity] = _digest(raw, ordered=ordered)
    different: dict[bytes, bytes] = {}
    for raw in expected:
        report.compared += 1
        identity = _identity(raw)
        digest = known.pop(identity, None)
        if digest is None:
            report.add(FaultKind.MISSING, Example(_name(raw), raw, None))
        elif digest != _digest(raw, ordered=ordered):
            different[identity] = raw
    if different or known:
        _explain(report, found(), different, known)
    return report


def _explain(
    report: Report, found: Iterable[bytes], different: dict[bytes, bytes], unexpected: dict[bytes, bytes]
) -> None:
    for raw in found:
        identity = _identity(raw)
        if (wanted := different.pop(identity, None)) is not None:
            path = first_difference(wanted, raw)
            report.add(FaultKind.DIFFERENT, Example(_name(raw), wanted, raw, path))
        elif unexpected.pop(identity, None) is not None:
            report.add(FaultKind.UNEXPECTED, Example(_name(raw), None, raw))


def _identity(raw: bytes) -> bytes:
    found = rawbson.find(raw, b"_id")
    return b"" if found is None else bytes([found[0]]) + raw[found[2] : found[3]]


def _name(raw: bytes) -> str:
    found = rawbson.find(raw, b"_id")
    if found is None:
        return "{}"
    kind, name, start, end = found
    return dumps_canonical(rawbson.document(rawbson.element(kind, name, raw[start:end])))


def _digest(raw: bytes, *, ordered: bool) -> bytes:
    parts = raw if ordered else b"".join(sorted(_fields(raw)))
    return blake2b(parts, digest_size=16).digest()


def _fields(raw: bytes) -> Iterable[bytes]:
    for kind, name, start, end in rawbson.elements(raw):
        value = raw[start:end]
        if kind == rawbson.DOCUMENT:
            value = b"".join(sorted(_fields(value)))
        yield bytes([kind]) + name + b"\0" + value
