"""``python -m attack [OPTION...] [PART...]``: attack servers and print what a good client waits meanwhile.

Parts: `network`, `expensive`, `fuzz`, and only if it is named, `soak`. Where a real mongod can be had, it is
attacked in the same way. A row fails if the 99th percentile of the good client's pings or inserts is above
50 ms and above five times the real server's, if the attack cannot be ended, or if the server dies. The exit
code is 1 if a row fails. With ``--short`` each part takes about a minute; with ``--only`` there are only the
rows with one of these texts in their names. With ``--held`` each row is followed by what kept the event loop
for some milliseconds, and no real server is attacked.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from attack import expensive, fuzz, network, soak
from attack.ending import run_and_end
from attack.good_client import GoodClient, Waits
from attack.servers import Server, alone, real_mongod, tailrace
from bench.figures import percentile

PARTS = ("network", "expensive", "fuzz")
SOAK = "soak"
SOAK_SECONDS = 900
SHORT_SOAK_SECONDS = 60
WAIT_LIMIT_SECONDS = 0.05
END_LIMIT_SECONDS = 0.1
REAL_FACTOR = 5
ATTACK_SECONDS = 3
SHORT_SECONDS = 1
FUZZ_MESSAGES = 1_000_000
SHORT_FUZZ_MESSAGES = 20_000
FUZZ_CLIENTS = 8
FUZZ_GROWTH_MEGABYTES = 64
HELD_SHOWN = 4
_USER = ("root", "attack")


@dataclass(slots=True)
class Row:
    """One attack on one server."""

    waits: Waits
    peak: float
    outcome: str
    end_seconds: float = 0
    """How long the attack went on after it was to be ended."""

    def figures(self) -> str:
        pings, inserts = self.waits.pings, self.waits.inserts
        numbers = (percentile(pings, 50), self.waits.ping_p99, max(pings), max(inserts))
        shown = " ".join(f"{number * 1000:7.1f}" for number in numbers)
        return f"{shown} {self.end_seconds * 1000:6.0f} {self.peak:6.0f}"


@dataclass(slots=True)
class Report:
    """Prints the rows, and remembers what failed."""

    failures: list[str] = field(default_factory=list)

    def head(self, title: str) -> None:
        columns = f"{'p50':>7} {'p99':>7} {'max':>7} {'insert':>7} {'end':>6} {'MB':>6}"
        print(f"\n{title}")
        print("Waits of the good client in ms (ping p50, p99, max; insert max), ms until ended, peak memory")
        print(f"{'':<50}{'Tailrace':^45}  {'mongod':^45}")
        print(f"{'':<50}{columns}  {columns}", flush=True)

    def row(self, name: str, ours: Row, real: Row | None) -> None:
        ping_limit = max(WAIT_LIMIT_SECONDS, REAL_FACTOR * real.waits.ping_p99 if real else 0)
        insert_limit = max(WAIT_LIMIT_SECONDS, REAL_FACTOR * real.waits.insert_p99 if real else 0)
        end_limit = max(END_LIMIT_SECONDS, REAL_FACTOR * real.end_seconds if real else 0)
        verdict = "ok"
        if ours.waits.ping_p99 > ping_limit:
            verdict = f"FAILED: ping p99 above {ping_limit * 1000:.0f} ms"
        elif ours.waits.insert_p99 > insert_limit:
            verdict = f"FAILED: insert p99 above {insert_limit * 1000:.0f} ms"
        elif ours.end_seconds > end_limit:
            verdict = f"FAILED: not ended within {end_limit * 1000:.0f} ms"
        elif ours.outcome.startswith("FAILED"):
            verdict = ours.outcome
        if verdict != "ok":
            self.failures.append(f"{name}: {verdict}")
        beside = real.figures() if real else "-"
        print(f"{name[:49]:<50}{ours.figures()}  {beside:<45}  {ours.outcome}; {verdict}", flush=True)

    def check(self, name: str, holds: bool, text: str) -> None:
        if not holds:
            self.failures.append(f"{name}: {text}")
        print(f"{name[:49]:<50}{text}; {'ok' if holds else 'FAILED'}", flush=True)


def measured(run: Callable[[Server], tuple[str, float]], server: Server) -> Row:
    """Run an attack beside a good client."""
    server.reset_peak()
    good = GoodClient(server.port)
    try:
        outcome, end_seconds = run(server)
    except (OSError, ConnectionError) as error:
        outcome, end_seconds = f"FAILED: {type(error).__name__}: {error}", 0.0
    waits = good.waits()
    if not server.is_alive():
        return Row(waits, 0, "FAILED: the server has died", end_seconds)
    return Row(waits, server.peak_megabytes(), outcome, end_seconds)


@dataclass(slots=True)
class Attacks:
    """Runs attacks on all servers."""

    servers: list[Server]
    report: Report
    only: Sequence[str]
    held: Path | None

    def expensive(self, *, short: bool) -> None:
        self.report.head("Expensive commands")
        seconds = SHORT_SECONDS if short else ATTACK_SECONDS
        for name, command in expensive.commands():
            self._row(name, partial(run_and_end, command, seconds))

    def network(self) -> None:
        self.report.head("Connections and messages")
        for name, attack in network.attacks():
            self._row(name, partial(_run_through, attack))

    def _row(self, name: str, run: Callable[[Server], tuple[str, float]]) -> None:
        if self.only and not any(text in name for text in self.only):
            return
        if self.held is not None:
            os.truncate(self.held, 0)
        rows = []
        for server in self.servers:
            with alone(server, self.servers):
                rows.append(measured(run, server))
        self.report.row(name, rows[0], rows[1] if len(rows) > 1 else None)
        if self.held is not None:
            gaps = [line.split("\t") for line in self.held.read_text().splitlines()]
            for held, collected, stack in sorted(gaps, key=_size)[:HELD_SHOWN]:
                print(f"    {held} ms ({collected} ms of them to collect garbage) {stack}", flush=True)


def _size(gap: Sequence[str]) -> int:
    """Large gaps first, by the clock if that is in the line."""
    by_clock = gap[2].split(" ", 1)[0]
    return -(int(by_clock) if by_clock.isdecimal() else int(gap[0]))


def _run_through(attack: network.Attack, server: Server) -> tuple[str, float]:
    return attack(server), 0.0


def attack_by_fuzz(report: Report, messages: int) -> None:
    print(f"\nDamaged messages: {messages:,} in all", flush=True)
    with TemporaryDirectory() as folder:
        password = Path(folder) / "password"
        password.write_text(_USER[1])
        guarded = ("--auth", "--auth-user", _USER[0], "--auth-password-file", str(password))
        targets: tuple[tuple[str, float, tuple[str, ...], tuple[str, str] | None], ...] = (
            ("a replica set", 0.4, (), None),
            ("a replica set with users, logged in", 0.2, guarded, _USER),
            ("a replica set with users, not logged in", 0.1, guarded, None),
            ("a router of two shards", 0.3, ("--shards", "2"), None),
        )
        for number, (name, share, options, login) in enumerate(targets):
            with tailrace("tailrace", *options) as server:
                _fuzz(server, name, int(messages * share), 1000 * number + 1, login, report)


def _fuzz(
    server: Server, name: str, messages: int, seed: int, login: tuple[str, str] | None, report: Report
) -> None:
    began = time.perf_counter()
    seen = fuzz.clients(server.port, seed, messages // 4, FUZZ_CLIENTS, login)
    warm = server.megabytes() if server.is_alive() else 0
    seen.add(fuzz.clients(server.port, seed + 100, messages - messages // 4, FUZZ_CLIENTS, login))
    rate = seen.sent / (time.perf_counter() - began)
    if not server.is_alive():
        report.check(name, False, "the server has died")
        return
    with server.connect() as probe:
        answers = probe.call({"ping": 1, "$db": "admin"})["ok"] == 1
    growth = server.megabytes() - warm
    holds = answers and not seen.faults and not seen.silent and growth < FUZZ_GROWTH_MEGABYTES
    report.check(
        name,
        holds,
        f"{seen.sent:,} sent, {seen.answered:,} answered, {seen.closed:,} connections closed, "
        f"{len(seen.silent)} silent, {len(seen.faults)} internal errors, "
        f"{warm:.0f} MB after a quarter, {growth:+.0f} MB later, {rate:.0f} a second",
    )
    print(*(f"    {fault}" for fault in seen.faults + seen.silent), sep="\n", flush=True)


def attack_by_soak(report: Report, seconds: float) -> None:
    print(f"\nOrdinary and careless use for {seconds:.0f} seconds", flush=True)
    with tailrace("tailrace", *soak.OPTIONS) as server:
        samples, counts, errors = soak.soak(server, seconds)
        middle, last = samples[len(samples) // 2 - 1], samples[-1]
        growth = last.megabytes - middle.megabytes
        done = ", ".join(f"{count:,} {what}" for what, count in counts.items())
        report.check(
            "memory of a server in use",
            growth < soak.GROWTH_MEGABYTES and not errors,
            f"{growth:+.0f} MB in the second half; {done}; {len(errors)} errors",
        )
        print(*(f"    {error}" for error in errors[:5]), sep="\n", flush=True)


def _prepared(stack: ExitStack, report: Report, options: argparse.Namespace) -> Attacks:
    held: Path | None = None
    if options.held:
        held = Path(stack.enter_context(TemporaryDirectory())) / "held"
        held.touch()
    servers = [stack.enter_context(tailrace(held=held))]
    if held is None:
        real = stack.enter_context(real_mongod())
        if real is None:
            print("SKIPPED: there is no real mongod to compare with")
        else:
            servers.append(real)
    for server in servers:
        with server.connect() as connection:
            expensive.prepare(connection)
    return Attacks(servers, report, options.only, held)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m attack", description="attack servers and print a table")
    parser.add_argument(
        "parts",
        nargs="*",
        choices=(*PARTS, SOAK),
        default=PARTS,
        metavar="PART",
        help=", ".join((*PARTS, SOAK)),
    )
    parser.add_argument("--short", action="store_true", help="about a minute for each part")
    parser.add_argument(
        "--only", action="append", default=[], metavar="TEXT", help="rows with this text in their names"
    )
    parser.add_argument("--held", action="store_true", help="show what kept the event loop")
    parser.add_argument("--messages", type=int, help=f"damaged messages; {FUZZ_MESSAGES:,} by default")
    options = parser.parse_args()
    report = Report()
    with ExitStack() as stack:
        if "network" in options.parts or "expensive" in options.parts:
            attacks = _prepared(stack, report, options)
            if "network" in options.parts:
                attacks.network()
            if "expensive" in options.parts:
                attacks.expensive(short=options.short)
    if "fuzz" in options.parts:
        messages = SHORT_FUZZ_MESSAGES if options.short else FUZZ_MESSAGES
        attack_by_fuzz(report, options.messages or messages)
    if SOAK in options.parts:
        attack_by_soak(report, SHORT_SOAK_SECONDS if options.short else SOAK_SECONDS)
    print(f"\n{len(report.failures)} rows failed")
    print(*report.failures, sep="\n")
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
