"""A worker process of the kill tests: it appends a line to a file for each event that it handles.

    python -m tests.client.groups.worker DEPLOYMENT GROUP NAMESPACE FILE LEASE_SECONDS

SIGTERM ends it gracefully. A line is written at once: a kill loses none.
"""

import json
import os
import signal
import sys

from tailrace import Delivery, consume


def line_of(delivery: Delivery) -> bytes:
    event = delivery.event
    fields = {
        "key": (event.get("documentKey") or {}).get("_id"),
        "number": _number(delivery),
        "kind": event["operationType"],
        "slot": delivery.slot,
        "epoch": delivery.epoch,
    }
    return json.dumps(fields).encode() + b"\n"


def _number(delivery: Delivery) -> int | None:
    update = delivery.event.get("updateDescription")
    found = update["updatedFields"] if update else delivery.event.get("fullDocument") or {}
    number: int | None = found.get("number")
    return number


def main() -> None:
    deployment, group, namespace, path, lease = sys.argv[1:]
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    with consume(deployment, group, ns=namespace, lease_seconds=float(lease)) as consumer:
        signal.signal(signal.SIGTERM, lambda *_: consumer.stop())
        print("ready", flush=True)
        consumer.run(lambda delivery: os.write(file, line_of(delivery)))


if __name__ == "__main__":
    main()
