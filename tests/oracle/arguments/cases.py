"""Commands with changed fields: wrong types, bounds, unknown, missing and doubled ones."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from bson import Code

from tailrace.mongod.server.dispatch.kinds import as_number
from tests.oracle.arguments.administration import ADMINISTRATION
from tests.oracle.arguments.catalog import CATALOG
from tests.oracle.arguments.generic import GENERIC
from tests.oracle.arguments.reads import READS
from tests.oracle.arguments.samples import DATABASE, DOCUMENTS, Document, Sample
from tests.oracle.arguments.values import VALUES, Path, changed, paths, removed, value_at
from tests.oracle.arguments.writes import WRITES
from tests.oracle.comparison import Difference, differences
from tests.oracle.twins import Pair, Twins

SAMPLES: Final = (*READS, *WRITES, *CATALOG, *ADMINISTRATION)
_GENERIC_EVERYWHERE: Final = 3
"""How many values of a generic field are tried with each command; some commands get all."""
_WITH_ALL_GENERIC: Final = ("ping", "insert")
_TIMES: Final = ("maxTimeMS", "maxTimeMSOpOnly", "wtimeout")
_NEVER: Final = frozenset(
    {
        ("killSessions",), ("killAllSessions",), ("killAllSessionsByPattern",),
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    sample: Sample
    what: str
    path: Path
    command: Document
    doubled: bool = False

    def __str__(self) -> str:
        place = ".".join(map(str, self.path))
        return f"{self.sample.name}.{place} {self.what} {self.command}"


def single_cases(seed: int = 0) -> Iterator[Case]:
    """Every sample with one fault, or one valid change."""
    chooser = random.Random(seed)
    for sample in SAMPLES:
        yield Case(sample, "valid", (), sample.command)
        for path in paths(sample.command):
            yield from _at(sample, sample.command, path, own=True)
        for name, value in sample.extras.items():
            command = {**sample.command, name: value}
            yield Case(sample, "valid", (name,), command)
            for path in paths({name: value}):
                yield from _at(sample, command, path, own=False)
        for name, value in GENERIC.items():
            if name in sample.command or name in sample.extras:
                continue
            command = {**sample.command, name: value}
            found = [Case(sample, "valid", (name,), command)]
            for path in paths({name: value}):
                found += _at(sample, command, path, own=False)
            everything = sample.name in _WITH_ALL_GENERIC
            yield from found if everything else chooser.sample(found, min(_GENERIC_EVERYWHERE, len(found)))


def javascript_cases() -> Iterator[Case]:
    """Every text of every sample as JavaScript, which Python's driver decodes to a kind of string."""
    for sample in SAMPLES:
        for extra in ({}, *({name: value} for name, value in sample.extras.items())):
            command = {**sample.command, **extra}
            for path in paths(extra or command):
                text = value_at(command, path)
                if type(text) is str:
                    for code in (Code(text), Code(text, {})):
                        yield Case(sample, f"= {code!r}", path, changed(command, path, code))


def _at(sample: Sample, command: Document, path: Path, *, own: bool) -> Iterator[Case]:
    for value in VALUES:
        if path[-1] in _TIMES and _is_short(value):
            continue  # the command may or may not be done in this time
        yield Case(sample, f"= {value!r}", path, changed(command, path, value))
    if own and path != (sample.name,):
        yield Case(sample, "removed", path, removed(command, path))
    if isinstance(path[-1], str):
        yield Case(sample, "doubled", path, command, doubled=True)
        if len(path) > 1:
            yield Case(sample, "unknown", path, changed(command, (*path[:-1], "nothing"), 1))


def _is_short(value: Any) -> bool:
    number = as_number(value)
    return number is not None and 0 < number < 1000


def several_faults(seed: int, count: int) -> Iterator[Case]:
    """Random commands with two or three changes."""
    chooser = random.Random(seed)
    for _ in range(count):
        sample = chooser.choice(SAMPLES)
        command = sample.command
        optional = {**GENERIC, **sample.extras}
        for name in chooser.sample(sorted(optional), chooser.randint(0, 3)):
            command = {**command, name: optional[name]}
        changes = []
        for _ in range(chooser.randint(1, 2)):
            path = chooser.choice(list(paths(command)))
            value = chooser.choice(VALUES)
            if path[-1] in _TIMES:
                continue
            command = changed(command, path, value)
            changes.append(path)
        yield Case(sample, "several", changes[0] if changes else (), command)


_USUAL_CONCERNS: Final[Document] = {
    "setDefaultRWConcern": 1,
    "$db": "admin",
    "defaultReadConcern": {},
    "defaultWriteConcern": {"w": "majority", "wtimeout": 0},
}


def _is_cursor_id(difference: Difference) -> bool:
    """Cursors have other ids on each server."""
    name = difference.path.partition(".")[0]
    return difference.kind == "value" and (name in ("cursorsKilled", "cursorsNotFound", "help"))


def _in_order(reply: Document) -> Document:
    """Collections are listed in no order."""
    cursor = reply.get("cursor")
    if not isinstance(cursor, dict) or not str(cursor.get("ns")).endswith(".$cmd.listCollections"):
        return reply
    return {
        **reply,
        "cursor": {**cursor, "firstBatch": sorted(cursor["firstBatch"], key=lambda item: str(item["name"]))},
    }


class Comparison:
    """Runs cases on both servers."""

    def __init__(self, twins: Twins) -> None:
        self._twins = twins
        for database in (DATABASE, "arguments2"):  # other cases may have left something there
            twins.run({"dropDatabase": 1}, database)
        self._began = twins.operation_time()
        twins.run({"insert": "c", "documents": DOCUMENTS}, DATABASE)
        # A mongod that has just started writes entries of its own: the position of a stream that has read
        # everything is after them there, so it is to be after an entry of no stream here, too.
        twins.run({"appendOplogNote": 1, "data": {}}, "admin")

    def of(self, case: Case) -> tuple[Pair, list[Difference]]:
        sample, twins = case.sample, self._twins
        for command in sample.before:
            database = "arguments2" if sample.name == "renameCollection" else sample.database
            twins.both({**command, "$db": database})
        if sample.opens is not None:
            self._open(sample.opens)
        command = {**case.command}
        command.setdefault("$db", sample.database)
        if sample.name == "hello":
            twins.close()  # a client describes itself in the first message of a connection
        pair = twins.both(command, doubled=case.path if case.doubled else None)
        if sample.name == "hello":
            twins.close()  # it changes what the server thinks of the connection
        found = differences(_in_order(pair.real), _in_order(pair.ours))
        found = [difference for difference in found if not _is_cursor_id(difference)]
        if sample.name == "setDefaultRWConcern":
            twins.both(_USUAL_CONCERNS)
        if sample.outcome_only and pair.real.get("ok"):
            found = [difference for difference in found if difference.kind in ("outcome", "code")]
        return pair, found

    def _open(self, kind: str) -> None:
        twins = self._twins
        if kind == "cursor":
            pair = twins.both({"find": "c", "batchSize": 1, "$db": DATABASE})
        else:
            # There are events to return, so that no getMore waits.
            stage = {"$changeStream": {"startAtOperationTime": self._began}}
            cursor = {"cursor": {"batchSize": 0}, "$db": DATABASE}
            pair = twins.both({"aggregate": "c", "pipeline": [stage], **cursor})
        assert pair.real.get("ok"), pair
        assert pair.ours.get("ok"), pair
        twins.remember(kind, pair, ["cursor", "id"])
