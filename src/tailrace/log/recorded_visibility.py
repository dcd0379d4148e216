"""Whether a stream sees an event that the history holds: what the first two stages decide, for one operation.

On the way from the oplog an entry is asked first and then, if it is a transaction or a batch, each operation
inside. The history keeps operations; what they must know of the entry that committed them stands in their
extras.
"""

from tailrace.events.change_event import ChangeEvent
from tailrace.events.oplog_entry import PLAIN
from tailrace.events.stages.oplog_match import EntryFilter
from tailrace.lake.deferred_entries import is_untold


def is_seen(event: ChangeEvent, visible: EntryFilter, *, marks_end: bool) -> bool:
    """Whether a recorded event gets to a stream; an untold entry, whether the stream has to work it out.

    ``marks_end`` says whether ends of transactions are events on this server: the history always has them.
    """
    entry = event.entry
    extras = entry.extras
    if not extras.in_apply_ops or is_untold(event):
        is_usual = extras is PLAIN or not (extras.from_migrate or extras.is_timeseries)
        decision = visible.sees_plain(entry.head) if is_usual else None
        return visible.sees(entry) if decision is None else decision
    if not visible.sees_outer(extras):
        return False
    if entry.head.op == "n":
        return marks_end and visible.sees(entry)
    return visible.sees_inner(entry)
