"""Build MongoDB's database tools for the tests of `tests/clients`, from the Go module proxy.

::

    python -m tools.get_mongo_tools [DIR]   by default `.mongo-tools`, or the folder TAILRACE_MONGO_TOOLS names

The source's checksum is fixed here, and those of what it needs in its own `go.sum`. The tools are under the
Apache licence, but they are tools of the tests: never committed or shipped. Exit code 3 and one sentence
where they cannot be built.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

DEFAULT_FOLDER: Final = ".mongo-tools"
VARIABLE: Final = "TAILRACE_MONGO_TOOLS"
TOOLS: Final = (
    "bsondump",
    "mongodump",
    "mongoexport",
    "mongoimport",
    "mongorestore",
    "mongostat",
    "mongotop",
)
MODULE: Final = "github.com/mongodb/mongo-tools@v0.0.0-20250715155915-887641268977"
CHECKSUM: Final = "h1:J9wFLko0N7sbovyHahuRw1NyfMUsNhaauLK87wQ3ruc="
NOT_AVAILABLE: Final = 3


def folder() -> Path:
    """Where the tools are, or are to be."""
    return Path(os.environ.get(VARIABLE) or DEFAULT_FOLDER)


def build(target: Path) -> None:
    """Put the tools into a folder."""
    with TemporaryDirectory() as name:
        work = Path(name)
        # The checksum is compared below, so no database of checksums has to be asked.
        offline = {**os.environ, "GOSUMDB": "off", "GOFLAGS": ""}
        reported = subprocess.run(
            ["go", "mod", "download", "-json", MODULE], cwd=work, env=offline, check=True, capture_output=True
        )
        found = json.loads(reported.stdout)
        if found["Sum"] != CHECKSUM:
            raise ValueError(f"its checksum is {found['Sum']}")
        source = work / "source"
        # Its folder `vendor` has no packages, only their list, and Go would look for them there.
        shutil.copytree(found["Dir"], source, ignore=lambda *_: ["vendor"])
        for path in (source, *source.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        target.mkdir(parents=True, exist_ok=True)
        for tool in TOOLS:
            part = work / tool
            subprocess.run(["go", "build", "-o", part, f"./{tool}/main"], cwd=source, env=offline, check=True)
            shutil.move(part, target / tool)


def main() -> int:
    target = (Path(sys.argv[1]) if len(sys.argv) > 1 else folder()).absolute()
    if all((target / tool).exists() for tool in TOOLS):
        return 0
    if shutil.which("go") is None:
        print("SKIPPED: MongoDB's tools are built with Go, which is not on the path; their tests do not run")
        return NOT_AVAILABLE
    try:
        build(target)
    except (subprocess.CalledProcessError, ValueError) as error:
        print(f"SKIPPED: MongoDB's tools could not be built ({error}); their tests do not run")
        return NOT_AVAILABLE
    return 0


if __name__ == "__main__":
    sys.exit(main())
