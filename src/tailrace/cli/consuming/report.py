"""What `tailrace consume` and `tailrace status` print about a group."""

import json
from datetime import UTC
from typing import Any, Final

from tailrace.bson import extjson
from tailrace.cli.asking import words
from tailrace.client.groups.control_flow import GroupStatus
from tailrace.client.groups.delivery import DeadLetter
from tailrace.client.groups.state import GroupMember
from tailrace.client.token_order import text_of
from tailrace.events.cluster_time import seconds_of
from tailrace.events.resume_token import cluster_time_of

_LABEL_WIDTH: Final = 12


def as_text(status: GroupStatus) -> str:
    rows = [
        ("group", f"{status.name}, consumes {status.namespace or 'everything'}"),
        ("state", _state(status)),
        ("position", words.moment(_seconds(status))),
        ("lag", _lag(status)),
        ("dead", f"{status.dead_letters:,} dead letters"),
        *(("worker", _worker(status, member)) for member in status.members),
    ]
    return "\n".join(f"{label:<{_LABEL_WIDTH}}{text}" for label, text in rows)


def as_line(status: GroupStatus) -> str:
    return (
        f"{status.name}  consumes {status.namespace or 'everything'}  {_state(status)}  "
        f"read until {words.moment(_seconds(status))}  lag {_lag(status)}  "
        f"{status.dead_letters:,} dead letters"
    )


def as_json(status: GroupStatus) -> str:
    return json.dumps(as_document(status))


def as_document(status: GroupStatus) -> dict[str, Any]:
    return {
        "group": status.name,
        "namespace": status.namespace,
        "paused": status.is_paused,
        "position": text_of(status.position),
        "positionTime": words.moment(_seconds(status)),
        "lagEvents": status.lag.events,
        "lagIsMore": not status.lag.is_all,
        "lagSeconds": status.lag.seconds,
        "failure": status.lag.failure,
        "deadLetters": status.dead_letters,
        "freeSlots": status.slots.get(None, 0),
        "workers": [
            {
                "id": member.id,
                "label": member.label,
                "slots": status.slots.get(member.id, 0),
                "seen": _seen(member),
            }
            for member in status.members
        ],
    }


def letter_line(letter: DeadLetter) -> str:
    """A dead letter as one line: why it failed, and the event as canonical Extended JSON."""
    known = {
        "position": letter.position,
        "error": letter.error,
        "tries": letter.tries,
        "at": letter.at.replace(tzinfo=UTC).isoformat(timespec="seconds"),
    }
    return f'{json.dumps(known)[:-1]}, "event": {extjson.dumps_canonical(letter.event)}}}'


def _state(status: GroupStatus) -> str:
    if status.is_paused:
        return "paused"
    return f"{len(status.members)} workers" if status.members else "no workers"


def _lag(status: GroupStatus) -> str:
    if status.lag.failure is not None:
        return f"{words.span(status.lag.seconds)}; the group cannot go on: {status.lag.failure}"
    more = "" if status.lag.is_all else "more than "
    return f"{more}{status.lag.events:,} events, {words.span(status.lag.seconds)}"


def _worker(status: GroupStatus, member: GroupMember) -> str:
    seen = _seen(member)
    return f"{member.label}  {status.slots.get(member.id, 0)} slots" + (f"  seen {seen}" if seen else "")


def _seen(member: GroupMember) -> str | None:
    return None if member.seen is None else words.moment(member.seen.replace(tzinfo=UTC).timestamp())


def _seconds(status: GroupStatus) -> float:
    return float(seconds_of(cluster_time_of(text_of(status.position))))
