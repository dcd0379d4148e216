"""The deployment that is tested, and which requirements of the tests it meets."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pymongo import MongoClient

Document = dict[str, Any]
Version = tuple[int, ...]

CLIENT_OPTIONS: Final[Document] = {"serverSelectionTimeoutMS": 5000, "heartbeatFrequencyMS": 500}
"""Of every client in a test. After an error of a shutdown the driver does not know the server until the next
heartbeat, which by default comes later than the time limit."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """The properties of a deployment that tests have requirements for."""

    uri: str
    version: Version
    topology: str
    routers: str | None = None
    """The connection string with all routers, if there are several. `uri` has one, for fail points."""

    @classmethod
    def at(cls, uri: str) -> "Deployment":
        """Ask the server."""
        with MongoClient[Document](uri, **CLIENT_OPTIONS) as client:
            build = client.admin.command("buildInfo")
            hello = client.admin.command("hello")
        version = tuple(build["versionArray"][:3])
        if hello.get("msg") != "isdbgrid":
            return cls(uri, version, "replicaset" if "setName" in hello else "single")
        one = _first_host(uri)
        return cls(one, version, "sharded", None if one == uri else uri)

    def objection_to_versions(self, oldest: str | None, newest: str | None) -> str | None:
        """Why a test for servers of these versions does not apply, or None if it does."""
        mine = ".".join(map(str, self.version))
        if oldest is not None and self.version < parse_version(oldest):
            return f"it is for servers from version {oldest} on, and this is {mine}"
        if newest is not None and self.version > parse_version(newest):
            return f"it is for servers up to version {newest}, and this is {mine}"
        return None

    def objection_to_topologies(self, topologies: Iterable[str] | None) -> str | None:
        """Why a test for these topologies does not apply, or None if it does."""
        if topologies is None or self.topology in topologies:
            return None
        return f"it is for the topology {' or '.join(topologies)}, and this is a {self.topology}"


def _first_host(uri: str) -> str:
    """The connection string with the first host only.

    >>> _first_host("mongodb://u:p@a:1,b:2/db?x=1")
    'mongodb://u:p@a:1/db?x=1'
    """
    scheme, _, rest = uri.partition("://")
    hosts, slash, options = rest.partition("/")
    user, at, names = hosts.rpartition("@")
    return f"{scheme}://{user}{at}{names.split(',')[0]}{slash}{options}"


def parse_version(text: str) -> Version:
    """A version as three numbers.

    >>> parse_version("4.2")
    (4, 2, 0)
    """
    numbers = tuple(map(int, text.split(".")))
    return (*numbers, 0, 0, 0)[:3]


def options_of(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Translate the tests' names of a change stream's options to PyMongo's.

    >>> options_of({"fullDocument": "updateLookup", "maxAwaitTimeMS": 5})
    {'full_document': 'updateLookup', 'max_await_time_ms': 5}
    """
    return {_snake(name): value for name, value in arguments.items()}


def _snake(name: str) -> str:
    name = name.replace("MS", "Ms")
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
