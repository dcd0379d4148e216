"""What the stages of a plan did, for `executionStats`."""

from dataclasses import dataclass
from typing import Any, Final

from tailrace.mongod.server.reads.explained.plans import Stage

_LOOKUPS: Final = ("IDHACK", "EXPRESS_IXSCAN", "EXPRESS_CLUSTERED_IXSCAN")
WRITES: Final = ("UPDATE", "DELETE", "BATCHED_DELETE")
COUNTS: Final = ("COUNT", "RECORD_STORE_FAST_COUNT")


@dataclass(slots=True)
class Run:
    """What reading gave."""

    keys: int = 0
    documents: int = 0
    """Documents that were read, without those that the index ruled out."""
    matched: int = 0
    matched_bytes: int = 0
    """What the documents that matched count in memory."""
    may_use_disk: bool = True
    is_exhausted: bool = True
    """Whether everything was read, because nothing limited it."""
    milliseconds: int = 0
    upserts: int = 0
    returns_document: bool = False
    """Whether a write returns what it wrote."""
    counted: int = 0


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one stage."""

    shown: dict[str, Any]
    returned: int
    works: int
    is_eof: bool
    documents: int = 0
    keys: int = 0


def figures(stage: Stage, run: Run, *, is_inner: bool = False) -> Figures:
    """The figures of a stage and those below it; ``is_inner`` below a stage that writes or counts."""
    name = stage.name
    below = None
    if stage.source is not None:
        below = figures(stage.source, run, is_inner=is_inner or name in WRITES or name in COUNTS)
    returned, works, is_eof, extra = _own(stage, run, below, is_inner=is_inner)
    # Steps that only find the end: some stages know it without one.
    int(is_eof and not (is_inner and name in (*_LOOKUPS, "LIMIT")))
    shown: dict[str, Any] = {"stage": name}
    if stage.filter:
        shown["filter"] = dict(stage.filter)
    shown |= {
        "nReturned": returned,
        "executionTimeMillisEstimate": run.milliseconds,
        "works": works,
        "advanced": returned,
        "needTime": max(
            0, works - returned - int(is_eof and not (is_inner and name in (*_LOOKUPS, "LIMIT")))
        ),
        "needYield": 0,
        "saveState": 0,
        "restoreState": 0,
        "isEOF": int(is_eof),
    }
    shown |= {**extra, **stage.fields} if name == "COUNT_SCAN" else {**stage.fields, **extra}
    if below is not None:
        shown["inputStage"] = below.shown
    documents = extra.get("docsExamined", 0) + (0 if below is None else below.documents)
    keys = extra.get("keysExamined", 0) + (0 if below is None else below.keys)
    return Figures(shown, returned, works, is_eof, documents, keys)


def _own(
    stage: Stage, run: Run, below: Figures | None, *, is_inner: bool
) -> tuple[int, int, bool, dict[str, Any]]:
    """Results, steps, whether it is at its end, and the fields of this kind of stage."""
    name, end = stage.name, int(run.is_exhausted)
    if below is None:
        return _leaf(stage, run, is_inner=is_inner)
    match name:
        case "FETCH":
            returned = run.matched if stage.filter else below.returned
            extra: dict[str, Any] = {"docsExamined": below.returned, "alreadyHasObj": 0}
            return returned, below.works, below.is_eof, extra
        case "SORT":
            returned = min(below.returned, stage.fields.get("limitAmount", below.returned))
            spills = 0
            if run.may_use_disk and "limitAmount" not in stage.fields:
                spills = run.matched_bytes // max(1, stage.fields["memLimit"])
            extra = {"totalDataSizeSorted": 0, "usedDisk": spills > 0, "spills": spills}
            return returned, below.works + returned + 1, True, extra
        case "SKIP":
            return max(0, below.returned - stage.fields["skipAmount"]), below.works, below.is_eof, {}
        case "LIMIT":
            returned = min(below.returned, stage.fields["limitAmount"])
            return returned, below.works + (0 if below.is_eof or is_inner else 1), True, {}
        case "UPDATE":
            changed = below.returned
            extra = {"nMatched": changed, "nWouldModify": changed, "nWouldUpsert": run.upserts}
            return _write(below, run, extra)
        case "DELETE" | "BATCHED_DELETE":
            return _write(below, run, {"nWouldDelete": below.returned})
        case "COUNT":
            steps = below.works - int(below.is_eof and below.shown["stage"] not in _LOOKUPS)
            return 0, max(1, steps + 1), True, {"nCounted": run.counted, "nSkipped": 0}
        case "UNPACK_TS_BUCKET":
            return run.matched, below.works, bool(end), {}
        case _:
            return below.returned, below.works, below.is_eof, {}


def _write(below: Figures, run: Run, extra: dict[str, Any]) -> tuple[int, int, bool, dict[str, Any]]:
    if run.returns_document:
        return below.returned, below.works + min(1, below.returned), True, extra
    steps = below.works - int(below.is_eof and below.shown["stage"] not in _LOOKUPS)
    return 0, max(1, steps + 1), True, extra


def _leaf(stage: Stage, run: Run, *, is_inner: bool) -> tuple[int, int, bool, dict[str, Any]]:
    end = int(run.is_exhausted)
    match stage.name:
        case "EOF":
            return 0, 0 if is_inner else 1, True, {}
        case "RECORD_STORE_FAST_COUNT":
            return 0, 1, True, {"nCounted": run.counted, "nSkipped": 0}
        case name if name in _LOOKUPS:
            extra = {"keysExamined": run.matched, "docsExamined": run.matched}
            return run.matched, run.matched + (0 if is_inner and run.matched else 1), True, extra
        case "IXSCAN":
            is_multikey = bool(stage.fields.get("isMultiKey"))
            extra = {
                "keysExamined": run.keys,
                "seeks": 1,
                "dupsTested": run.keys if is_multikey else 0,
                "dupsDropped": run.keys - run.documents if is_multikey else 0,
            }
            return run.documents, run.keys + end, bool(end), extra
        case "COUNT_SCAN":
            return run.matched, run.keys + end, bool(end), {"keysExamined": run.keys + end}
        case "DISTINCT_SCAN":
            return run.matched, run.matched + 1, True, {"keysExamined": run.matched}
        case _:
            return run.matched, run.documents + end, bool(end), {"docsExamined": run.documents}
