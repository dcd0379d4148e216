"""`tailrace spec-test`: run the drivers' spec tests for change streams against any server.

It prints one line for each test, with the reason if it was skipped or failed, and the numbers at the end. The
exit code is 0 if no test failed.
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pymongo.errors import PyMongoError

from tailrace.cli.output import print_line
from tailrace.cli.sources.connection import add_connection_arguments, connection_string
from tailrace.errors import UsageError
from tailrace.mongod.server.emulation.version import VERSION
from tailrace.mongod.server.options import DEFAULT_REPLICA_SET
from tailrace.sources.deployments.connection_string import ConnectionString
from tailrace.spectest.deployment import Deployment
from tailrace.spectest.drivers import DRIVERS
from tailrace.spectest.outcome import Outcome, Status
from tailrace.spectest.suite import SpecTest, find_tests
from tailrace.testing.older_servers import older_servers_accepted
from tailrace.testing.replica_set import ReplicaSet
from tailrace.testing.sharded_cluster import ShardedCluster

HELP: Final = "run the drivers' spec tests for change streams"

_OWN_TOPOLOGIES: Final = ("replicaset", "single", "sharded")
_ROUTERS: Final = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("paths", nargs="+", type=Path, metavar="PATH", help="files of spec tests (JSON) or folders of them")
    add("--uri", metavar="URI", help="the server to test; default: one that the command starts")
    add_connection_arguments(parser)
    add(
        "--topology",
        choices=_OWN_TOPOLOGIES,
        default="replicaset",
        help="kind of the server that the command starts; default: %(default)s",
    )
    add(
        "--server-version",
        metavar="X.Y.Z",
        default=VERSION,
        help="MongoDB version that this server presents, 4.0 or later; default: %(default)s",
    )
    add(
        "--driver",
        choices=sorted(DRIVERS),
        default="tailrace",
        help="whose change stream is tested; default: %(default)s",
    )
    add("--json", action="store_true", help="print one JSON object for each test")


def run(arguments: argparse.Namespace) -> int:
    # Not from the environment: the tests remove collections.
    uri = connection_string(arguments, arguments.uri, from_environment=False)
    tests = find_tests(arguments.paths)
    with older_servers_accepted(), _deployment(arguments, uri) as deployment:
        counts: Counter[Status] = Counter()
        file = None
        for test in tests:
            outcome = test.run(deployment, DRIVERS[arguments.driver])
            counts[outcome.status] += 1
            if arguments.json:
                print_line(_as_json(outcome))
                continue
            if test.file != file:
                file = test.file
                print_line(str(file))
            print_line(_as_text(test, outcome))
    if not arguments.json:
        numbers = ", ".join(f"{counts[status]} {status}" for status in Status)
        print_line(f"{len(tests)} tests with {arguments.driver}: {numbers}")
    return 1 if counts[Status.FAILED] else 0


def _own_server(topology: str, version: str) -> ReplicaSet | ShardedCluster:
    if topology == "sharded":
        return ShardedCluster(routers=_ROUTERS, server_version=version)
    return ReplicaSet(
        replica_set=DEFAULT_REPLICA_SET if topology == "replicaset" else None, server_version=version
    )


@contextmanager
def _deployment(arguments: argparse.Namespace, uri: ConnectionString | None) -> Iterator[Deployment]:
    if uri is None:
        with _own_server(arguments.topology, arguments.server_version) as ours:
            yield Deployment.at(ours.uri)
        return
    try:
        deployment = Deployment.at(uri)
    except (PyMongoError, ValueError) as error:
        raise UsageError(f"there is no server at {uri.shown}: {error}") from None
    yield deployment


def _as_json(outcome: Outcome) -> str:
    fields = {
        "file": str(outcome.file),
        "test": outcome.test,
        "status": outcome.status.value,
        "reason": outcome.reason,
    }
    return json.dumps(fields, ensure_ascii=False)


def _as_text(test: SpecTest, outcome: Outcome) -> str:
    reason = f": {outcome.reason}" if outcome.reason else ""
    return f"  {outcome.status:<8} {test.name}{reason}"
