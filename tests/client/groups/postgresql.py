"""A PostgreSQL server for one test, from the packages of the system."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_BINARIES = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
_USER = "postgres"
"""The server refuses to run as root; Debian's packages have this user for it."""


def missing_postgresql() -> str | None:
    """Return why no server can be started here, or None."""
    if not _BINARIES:
        return "no PostgreSQL under /usr/lib/postgresql; `apt-get install postgresql` installs one"
    try:
        import psycopg  # noqa: F401
    except ImportError:
        return "psycopg is not installed; `pip install 'psycopg[binary]'` installs it"
    return None


@contextmanager
def postgresql() -> Iterator[str]:
    """What `psql` takes to connect."""
    folder = Path(tempfile.mkdtemp(prefix="pg"))  # short: the path of a socket has at most 107 bytes
    user = _USER if os.geteuid() == 0 else None
    if user is not None:
        shutil.chown(folder, user)
    bin_folder = _BINARIES[-1].parent

    def run(program: str, *arguments: str) -> None:
        command = [str(bin_folder / program), *arguments]
        subprocess.run(
            command, check=True, stdout=subprocess.DEVNULL, user=user, cwd=folder, env={"LC_ALL": "C"}
        )

    data = str(folder / "data")
    try:
        run("initdb", "-D", data, "-U", "shop", "-A", "trust", "--encoding=UTF8", "--no-sync")
        options = f"-c listen_addresses='' -c unix_socket_directories='{folder}' -c fsync=off"
        run("pg_ctl", "-D", data, "-w", "-l", str(folder / "log"), "-o", options, "start")
        try:
            yield f"host={folder} user=shop dbname=postgres"
        finally:
            run("pg_ctl", "-D", data, "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
