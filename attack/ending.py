"""Run a command until it is ended by killOp, as an operator would do it."""

import threading
import time
from contextlib import suppress
from typing import Any

from attack.servers import Server

Document = dict[str, Any]
LAST_RESORT_SECONDS = 10


def run_and_end(command: Document, seconds: float, server: Server) -> tuple[str, float]:
    """Run a command for some seconds, then end it by killOp; return its outcome, and how long that took."""
    answered = threading.Event()
    code: list[int] = []

    def run() -> None:
        with suppress(OSError), server.connect(seconds + 2 * LAST_RESORT_SECONDS) as one:
            code.append(one.call({**command, "comment": "attack"}).get("code", 0))
            answered.set()

    threading.Thread(target=run, daemon=True).start()
    if answered.wait(seconds):
        return f"answered, code {code[0]}", 0.0
    began = time.perf_counter()
    while not answered.wait(0.01):
        if time.perf_counter() - began > LAST_RESORT_SECONDS:
            return "FAILED: it cannot be ended", LAST_RESORT_SECONDS
        _kill_attacks(server)
    return f"ended, code {code[0]}", time.perf_counter() - began


def _kill_attacks(server: Server) -> None:
    with server.connect() as other:
        running = other.call({"currentOp": 1, "command.comment": "attack", "$db": "admin"})
        for operation in running["inprog"]:
            other.call({"killOp": 1, "op": operation["opid"], "$db": "admin"})
