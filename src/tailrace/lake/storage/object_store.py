"""A history in an object store: S3 and what is compatible with it, Google Cloud Storage, Azure.

A file gets its name by one conditional request, which the store refuses if there is an object of that name.
No object is ever renamed, and only `_delta_log/_last_checkpoint` is replaced.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from tailrace.errors import HistoryError, StoreUnavailableError, UsageError
from tailrace.lake.storage.log_store import LogStore, NewFile, StoredFile
from tailrace.lake.storage.range_file import RangeFile
from tailrace.lake.storage.store_options import StoreOptions, store_options

try:
    from obstore.exceptions import (
        AlreadyExistsError,
        BaseError,
        PermissionDeniedError,
        UnauthenticatedError,
    )
    from obstore.store import from_url
except ImportError:
    raise UsageError(
        "an object store needs the package obstore; install it with pip install 'tailrace[objects]'"
    ) from None

if TYPE_CHECKING:
    from obstore.store import ObjectStore as Client

_POLL_SECONDS: Final = 0.25
_CHECKPOINT_SECONDS: Final = 10.0
_RETRY: Final[Any] = {"max_retries": 5}
_CLIENT: Final = {"timeout": "60s", "connect_timeout": "5s"}
_PREFIXES: Final = {"s3": "aws_", "s3a": "aws_", "gs": "google_"}
_AZURE: Final = "azure_"
_ALLOW_HTTP: Final = "aws_allow_http"
_ENDPOINTS: Final = ("aws_endpoint_url", "azure_storage_endpoint")


class ObjectStore(LogStore):
    """The objects under one prefix of a bucket."""

    poll_seconds = _POLL_SECONDS
    checkpoint_seconds = _CHECKPOINT_SECONDS
    cold_bytes = 256 << 20  # a new object is held in memory

    def __init__(self, url: str, options: Mapping[str, str] | None = None) -> None:
        self.place = url
        prefix = _PREFIXES.get(url.partition(":")[0].lower(), _AZURE)
        given = store_options() if options is None else options
        self._options = StoreOptions((name, text) for name, text in given.items() if name.startswith(prefix))
        self._client = self._connect()

    def _connect(self) -> "Client":
        config: Any = dict(self._options)
        allows_http = config.pop(_ALLOW_HTTP, "false").lower() in ("true", "1")
        client: Any = {**_CLIENT, "allow_http": allows_http}
        if not allows_http and any(config.get(name, "").startswith("http://") for name in _ENDPOINTS):
            raise UsageError(
                f"the object store of {self.place} has an address with http://; set AWS_ALLOW_HTTP=true to "
                "use it without encryption"
            )
        try:
            return from_url(self.place, config=config, client_options=client, retry_config=_RETRY)
        except (BaseError, ValueError, TypeError) as error:
            raise UsageError(f"{self.place} cannot be used: {_in_short(error)}") from None

    @property
    def delta_options(self) -> Mapping[str, str]:
        return self._options

    @contextmanager
    def _reported(self) -> Iterator[None]:
        """Turn the client's errors into those of the port, without the text of requests."""
        try:
            yield
        except (PermissionDeniedError, UnauthenticatedError):
            raise HistoryError(
                f"the object store of {self.place} refuses the credentials, or their rights are too few; "
                "docs/object-stores.md lists what is needed"
            ) from None
        except BaseError as error:
            raise StoreUnavailableError(
                f"the object store of {self.place} does not answer: {_in_short(error)}; check its address "
                "and the credentials; docs/object-stores.md lists them"
            ) from None

    def prepare(self) -> None:
        """An object store has no folders."""

    def create(self, name: str, content: bytes) -> bool:
        # A request that was repeated may find what its first attempt has stored.
        return self._put(name, content) or self.read(name) == content

    def _put(self, name: str, content: bytes | memoryview) -> bool:
        with self._reported():
            try:
                self._client.put(name, content, mode="create", use_multipart=False)
            except AlreadyExistsError:
                return False
        return True

    def replace(self, name: str, content: bytes) -> None:
        with self._reported():
            self._client.put(name, content, use_multipart=False)

    def new_file(self, name: str, *, durable: bool = True) -> NewFile:  # noqa: ARG002
        return _NewObject(self)

    def read(self, name: str) -> bytes:
        with self._reported():
            return bytes(self._client.get(name).bytes())

    def open(self, name: str, size: int | None = None, *, mapped: bool = True) -> pa.NativeFile:  # noqa: ARG002
        if size is None:
            found = self.head(name)
            if found is None:
                raise FileNotFoundError(self.path_of(name))
            size = found.size

        def fetch(start: int, end: int) -> memoryview:
            with self._reported():
                return memoryview(self._client.get_range(name, start=start, end=end))

        return pa.PythonFile(RangeFile(fetch, size), mode="r")

    def read_range(self, name: str, start: int, end: int) -> bytes:
        """A part of a file that may be large."""
        with self._reported():
            return bytes(self._client.get_range(name, start=start, end=end))

    def head(self, name: str) -> StoredFile | None:
        with self._reported():
            try:
                return _stored(self._client.head(name))
            except FileNotFoundError:
                return None

    def list(self, folder: str = "") -> Iterator[StoredFile]:
        with self._reported():
            found = self._client.list_with_delimiter(folder or None)["objects"]
        yield from map(_stored, found)

    def delete(self, name: str) -> None:
        with self._reported():
            try:
                self._client.delete(name)
            except FileNotFoundError:
                return

    def settle(self) -> None:
        """What was stored is durable."""


class _NewObject(NewFile):
    """Held in memory: a conditional request has to have all content, and disks of workers stay clean."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self.content = BytesIO()

    def place(self, name: str) -> bool:
        assert isinstance(self.content, BytesIO)
        with self.content.getbuffer() as content:
            return self._store._put(name, content)

    def discard(self) -> None:
        self.content.close()


def _stored(found: Any) -> StoredFile:
    tag = f"{found['e_tag']} {found['last_modified']}"
    return StoredFile(found["path"], found["size"], found["last_modified"].timestamp(), tag)


def _in_short(error: Exception) -> str:
    """What went wrong, without the addresses of requests, which may contain signatures."""
    last = str(error).strip().rpartition(" - ")[2].partition("\n")[0]
    return last.partition(" for url")[0].partition("http://")[0].partition("https://")[0].strip(" :(")[:200]
