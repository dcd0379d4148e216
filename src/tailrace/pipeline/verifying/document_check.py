"""Compare the documents of a sink with those of the source."""

from collections.abc import Callable, Iterable
from hashlib import blake2b

from tailrace.bson import raw as rawbson
from tailrace.lake.document_keys import id_text
from tailrace.pipeline.verifying.faults import Example, FaultKind, Report, first_difference


def check_documents(expected: Iterable[bytes], found: Callable[[], Iterable[bytes]]) -> Report:
    """Compare documents by their `_id`; ``found`` reads the sink, twice if something differs."""
    report = Report()
    known: dict[bytes, bytes] = {}
    for raw in found():
        identity = _identity(raw)
        if identity in known:
            report.add(FaultKind.DOUBLED, Example(_name(raw), None, raw))
        else:
            known[identity] = _digest(raw)
    different: dict[bytes, bytes] = {}
    for raw in expected:
        report.compared += 1
        identity = _identity(raw)
        digest = known.pop(identity, None)
        if digest is None:
            report.add(FaultKind.MISSING, Example(_name(raw), raw, None))
        elif digest != _digest(raw):
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
    return id_text(raw) or "{}"


def _digest(raw: bytes) -> bytes:
    return blake2b(raw, digest_size=16).digest()
