"""Streams that `tailrace replay` makes of an archive."""

import io
import re
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any, Final

from bson.raw_bson import RawBSONDocument

from tailrace.bson import documents as bsondocs
from tailrace.bson.extjson import dumps_canonical
from tailrace.cli.main import main
from tailrace.errors import CommandError
from tailrace.log.replay import replay
from tests.cli.console import tailrace
from tests.oracle.replay.archive import Archive
from tests.oracle.replay.stream_case import StreamCase
from tests.oracle.twins import RELEASE
from tests.support.client_workload import RAW_OPTIONS

_SPARK_SECONDS: Final = 240
_CODE: Final = re.compile(r"\((\d+) \w+\)$")


def arguments(archive: Archive, case: StreamCase) -> list[str]:
    """The arguments of `tailrace replay` for a stream of the archive."""
    found = [
        "replay",
        str(archive.oplog),
        "--pre-images",
        str(archive.pre_images),
        "--server-version",
        RELEASE,
    ]
    for namespace, path in archive.documents.items():
        found += ["--documents", f"{namespace}={path}"]
    if case.namespace is not None:
        found += ["--ns", case.namespace]
    stages = ", ".join(map(_json, case.pipeline))
    found += ["--options", _json(case.options), "--pipeline", f"[{stages}]"]
    if case.collation is not None:
        found += ["--collation", _json(case.collation)]
    if case.let is not None:
        found += ["--let", _json(case.let)]
    return found


def replayed_lines(archive: Archive, case: StreamCase, out: Path) -> tuple[list[str], int | None]:
    """The lines that the command writes, and the code of the error it ends with."""
    error = io.StringIO()
    with redirect_stderr(error):
        code = main([*arguments(archive, case), "--engine", "local", "--out", str(out)])
    return _lines_and_code(out, code, error.getvalue().strip())


def lines_by_spark(archive: Archive, case: StreamCase, out: Path) -> tuple[list[str], int | None]:
    """The same on Spark, in a process of its own: the command ends the session of its process."""
    command = [*arguments(archive, case), "--engine", "spark", "--master", "local[2]", "--out", str(out)]
    outcome = tailrace(*command, timeout=_SPARK_SECONDS)
    return _lines_and_code(out, outcome.code, outcome.error.strip())


def _lines_and_code(out: Path, code: int, sentence: str) -> tuple[list[str], int | None]:
    assert bool(code) == bool(sentence), (code, sentence)
    found = _CODE.search(sentence)
    assert not code or found, sentence
    return out.read_text().splitlines() if out.exists() else [], None if found is None else int(found[1])


def replayed_events(
    archive: Archive, case: StreamCase, version: str = RELEASE
) -> tuple[list[bytes], int | None]:
    """The events as BSON, from Python, and the code of the error that ends the stream."""
    events: list[bytes] = []
    try:
        found = replay(
            archive.oplog,
            case.namespace,
            case.options,
            case.pipeline,
            collation=case.collation,
            let=case.let,
            documents=archive.documents,
            pre_images=archive.pre_images,
            server_version=version,
            codec_options=RAW_OPTIONS,
        )
        for event in found:
            assert isinstance(event, RawBSONDocument)
            events.append(bytes(event.raw))
    except CommandError as error:
        return events, error.code
    return events, None


def _json(document: Any) -> str:
    return dumps_canonical(bsondocs.encode(dict(document)))
