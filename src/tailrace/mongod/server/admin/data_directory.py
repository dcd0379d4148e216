"""The data directory of a server: locked while it runs, or temporary."""

import fcntl
import json
import shutil
import tempfile
from pathlib import Path
from typing import IO, Final

from tailrace.errors import UsageError
from tailrace.mongod.language.aggregation.memory.spill_folder import remove_leftovers
from tailrace.mongod.store.tables import holds_store
from tailrace.places import refuse_data_of_others

CONFIG_SERVER: Final = "config"
"""The name of a cluster's config server, and of its folder in the cluster's data directory."""
_LOCK_FILE: Final = "tailrace.lock"
_SOURCE_FILE: Final = "source.json"
_DELTA_LOG: Final = "_delta_log"


def source_identity(path: Path) -> str | None:
    """Return the id of the deployment that the server of a data directory is in front of.

    None if it has data of its own, empty if the id is not known.
    """
    try:
        return str(json.loads((path / _SOURCE_FILE).read_text())["identity"])
    except FileNotFoundError:
        return None


class DataDirectory:
    """A directory that no other server can use until `close`."""

    def __init__(self, path: Path | None) -> None:
        """Lock the directory, which is created if necessary; without a path, a temporary one."""
        self._is_temporary = path is None
        self.path = Path(tempfile.mkdtemp(prefix="tailrace-")) if path is None else path
        self._lock: IO[bytes] | None = None
        try:
            self._refuse_others()
            self._lock = self._locked()
            remove_leftovers(self.path)
        except BaseException:
            self.close()
            raise

    def _refuse_others(self) -> None:
        """Raise `UsageError` for the data of another product, which two programs must not share."""
        refuse_data_of_others(self.path, "the data directory")
        if (self.path / _DELTA_LOG).exists():
            raise UsageError(
                f"the data directory {self.path} has the folder {_DELTA_LOG}, so it is that of a Delta "
                "table; name another directory"
            )

    def _locked(self) -> IO[bytes]:
        remedy = "name a directory that can be written to"
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = open(self.path / _LOCK_FILE, "ab")  # noqa: SIM115 - open as long as the server runs
        except OSError as error:
            reason = error.strerror or error
            raise UsageError(f"cannot use the data directory {self.path}: {reason}; {remedy}") from None
        try:
            # The system releases this lock when the process ends, even by a kill.
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            raise UsageError(
                f"the data directory {self.path} is used by another server; "
                "end that one or name another directory"
            ) from None
        return lock

    def check_for_replica_set(self) -> None:
        """Raise `UsageError` if the data is a cluster's."""
        if not holds_store(self.path) and holds_store(self.path / CONFIG_SERVER):
            raise UsageError(
                f"the data directory {self.path} holds a cluster, not a replica set; use --shards, "
                "or name another directory"
            )

    def check_for_cluster(self) -> None:
        """Raise `UsageError` if the data is a replica set's."""
        if holds_store(self.path):
            raise UsageError(
                f"the data directory {self.path} holds a replica set, not a cluster; leave out --shards, "
                "or name another directory"
            )

    def set_source(self, address: str, identity: str) -> None:
        """Store which deployment the server is in front of; see `source_identity`."""
        text = json.dumps({"address": address, "identity": identity})
        (self.path / _SOURCE_FILE).write_text(text + "\n")

    def close(self) -> None:
        """Unlock the directory; a temporary one is removed."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None
        if self._is_temporary:
            shutil.rmtree(self.path, ignore_errors=True)
