"""An S3 on the loopback address, in a process of its own: moto's server, with one request at a time.

moto looks for an object before it stores another one, without a lock between; a store does both in one step.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import parse_qsl, urlencode
from urllib.request import Request, urlopen

BUCKET = "histories"
SECRET = "a-s3cret-of-the-store"
_FAULTS = "/-/faults"


@dataclass(frozen=True)
class ObjectStoreServer:
    """A running server with one empty bucket."""

    port: int

    def url(self, name: str) -> str:
        return f"s3://{BUCKET}/{name}"

    def fail(self, kind: Literal["lost", "refused"], method: str, path: str, count: int) -> None:
        """Answer the next requests for a path with an error; ``lost`` ones are executed before."""
        query = urlencode({"kind": kind, "method": method, "path": path, "count": count})
        urlopen(f"http://127.0.0.1:{self.port}{_FAULTS}?{query}", timeout=30).close()

    def environment(self, port: int | None = None) -> dict[str, str]:
        """The variables by which a process finds it, also through a proxy on another port."""
        return {
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port or self.port}",
            "AWS_ALLOW_HTTP": "true",
        }


@contextmanager
def object_store_server() -> Iterator[ObjectStoreServer]:
    command = [sys.executable, "-m", "tests.support.object_store"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            urlopen(Request(f"http://127.0.0.1:{port}/{BUCKET}", method="PUT"), timeout=30).close()
            yield ObjectStoreServer(port)
        finally:
            process.kill()


def _serve() -> None:
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Silent(WSGIRequestHandler):
        def log(self, *_: Any) -> None:
            """Write nothing."""

    application = DomainDispatcherApplication(create_backend_app)
    turn = threading.Lock()
    faults: list[dict[str, str]] = []

    def one_at_a_time(environment: Any, start: Any) -> Any:
        path = environment["PATH_INFO"]
        if path == _FAULTS:
            faults[:] = [dict(parse_qsl(environment["QUERY_STRING"]))]
            start("200 OK", [])
            return [b""]
        with turn:
            for fault in faults:
                if (
                    fault["path"] in path
                    and fault["method"] == environment["REQUEST_METHOD"]
                    and int(fault["count"])
                ):
                    fault["count"] = str(int(fault["count"]) - 1)
                    if fault["kind"] == "lost":
                        b"".join(application(environment, lambda *_: None))
                    start("500 Internal Server Error", [])
                    return [b""]
            return application(environment, start)

    server = make_server("127.0.0.1", 0, one_at_a_time, threaded=True, request_handler=Silent)
    print(server.server_port, flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()  # it ends with the process that started it
    os._exit(0)


if __name__ == "__main__":
    _serve()
