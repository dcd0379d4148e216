"""A server with a page, as a process, and its HTTP."""

import json
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import Message
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from pymongo import MongoClient

Document = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes
    headers: Message
    """By name, in any case."""

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Site:
    uri: str
    url: str
    client: MongoClient[Document]
    trusted: Path | None = None
    """The authority of its certificate."""

    def get(self, path: str, headers: Mapping[str, str] | None = None, **query: object) -> Answer:
        return self._send(urllib.request.Request(self._url(path, query), headers=dict(headers or {})))

    def post(self, path: str, body: object) -> Answer:
        sent = json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        return self._send(urllib.request.Request(self._url(path, {}), sent, headers))

    def follow(
        self, path: str, headers: Mapping[str, str] | None = None, **query: object
    ) -> Generator[tuple[str, Any]]:
        """The server-sent events of a path: kinds and data."""
        request = urllib.request.Request(self._url(path, query), headers=dict(headers or {}))
        kind = ""
        with urllib.request.urlopen(request, timeout=30, context=_context(self.trusted)) as response:
            for line in response:
                name, _, value = line.decode().rstrip("\n").partition(": ")
                if name == "event":
                    kind = value
                elif name == "data":
                    yield kind, json.loads(value)

    def _send(self, request: urllib.request.Request) -> Answer:
        return send(request, self.trusted)

    def _url(self, path: str, query: Mapping[str, object]) -> str:
        return f"{self.url}{path}?{urlencode(query)}" if query else f"{self.url}{path}"


def _context(trusted: Path | None) -> ssl.SSLContext | None:
    return None if trusted is None else ssl.create_default_context(cafile=trusted)


def get(url: str) -> Answer:
    return send(urllib.request.Request(url))


def send(request: urllib.request.Request, trusted: Path | None = None) -> Answer:
    try:
        with urllib.request.urlopen(request, timeout=30, context=_context(trusted)) as response:
            return Answer(response.status, response.read(), response.headers)
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, error.read(), error.headers)


@contextmanager
def serving_page(
    *options: str | Path, user: tuple[str, str] | None = None, trusted: Path | None = None
) -> Iterator[Site]:
    """Run a server on free ports; the client logs in as ``user``."""
    command = [
        sys.executable,
        "-m",
        "tailrace",
        "serve",
        "--no-spark",
        "--port",
        "0",
        "--http",
        "127.0.0.1:0",
    ]
    with subprocess.Popen(
        [*command, "--log-level", "error", *map(str, options)], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            ready, page = (process.stdout.readline().split() for _ in range(2))
            assert (ready[0], page[0]) == ("ready", "page")
            name, password = user or (None, None)
            certificates: dict[str, Any] = {} if trusted is None else {"tlsCAFile": str(trusted)}
            with MongoClient[Document](ready[1], username=name, password=password, **certificates) as client:
                yield Site(ready[1], page[1].rstrip("/"), client, trusted)
        finally:
            process.terminate()
            process.wait()
