"""What is read for a mirror: the changes that the stages make of each entry, many at a time."""

from itertools import pairwise
from pathlib import Path

from tailrace.bson import raw as rawbson
from tailrace.bson.id_key import id_key
from tailrace.events.change_event import ChangeEvent
from tailrace.events.event_token import resume_token
from tailrace.events.interval import Interval
from tailrace.lake.mirror.merge import CLEAR, DELETE, DIFF, WRITE, RowChange
from tailrace.pipeline.mirror.changes import read_changes
from tailrace.pipeline.mirror.scope import is_mirrored, mirrored_namespaces
from tailrace.sources.archives.files import FilesSource
from tests.support.history import History, dump
from tests.support.seeds import check_histories
from tests.support.shared_events import shared_events
from tests.support.workload import Features

EVERYTHING = mirrored_namespaces()
FIRST_SEED = 20_261_120
UNDERSTOOD = Features(background=False)
"""Without the entries that end a mirror"""


def change_of(event: ChangeEvent) -> RowChange:
    key = event.document_key or b""
    if event.operation_type == "delete":
        kind, payload = DELETE, key
    elif event.full_document is not None:
        kind, payload = WRITE, event.full_document
    else:
        kind, payload = DIFF, rawbson.subdocument(event.update or b"", b"diff") or b""
    token = rawbson.first_text(resume_token(event).to_bson()) or ""
    visible = event.entry.extras.commit_timestamp or event.entry.ts
    return RowChange(id_key(key), kind, payload, event.entry.ts, token, visible)


def test_changes_are_those_of_the_events(tmp_path: Path) -> None:
    def law(history: History) -> None:
        path = tmp_path / f"{history.seed}.bson"
        path.write_bytes(dump(history.entries))
        source = FilesSource({"": [str(path)]})
        cuts = [0, history.timestamps[len(history.timestamps) // 3], source.promised()]
        for after, through in pairwise(cuts):
            found = read_changes(source, EVERYTHING, Interval(after, through), has_past=True)
            expected: dict[str, list[RowChange]] = {}
            for event in (event for some in shared_events(source, after, through) for event in some):
                namespace = f"{event.kind.database}.{event.kind.collection}"
                extras = event.entry.extras
                is_moved = extras.from_migrate or extras.outer_from_migrate
                if event.document_key is not None and is_mirrored(EVERYTHING, namespace) and not is_moved:
                    expected.setdefault(namespace, []).append(change_of(event))
            changes = {
                namespace: [change for change in collection.changes if change.kind != CLEAR]
                for namespace, collection in found.collections.items()
            }
            assert {name: made for name, made in changes.items() if made} == expected

    check_histories(range(FIRST_SEED, FIRST_SEED + 40), law, UNDERSTOOD)
