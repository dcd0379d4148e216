"""`tailrace check`: verify a data directory and its history, while no server uses them."""

import argparse
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tailrace.cli.asking import words
from tailrace.cli.output import print_line
from tailrace.errors import UsageError, missing_package
from tailrace.events.cluster_time import in_words
from tailrace.mongod.server.admin.data_directory import CONFIG_SERVER, DataDirectory, source_identity
from tailrace.mongod.store.files.store_check import StoreCheck
from tailrace.mongod.store.tables import holds_store
from tailrace.places import history_place, is_object_store

if TYPE_CHECKING:
    from tailrace.cli.checking.history import HistoryCheck

HELP: Final = "verify a data directory and its history"

_HISTORY_FOLDER: Final = "history"
_SOUND, _UNSOUND = 0, 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "directory",
        metavar="DIRECTORY",
        type=history_place,
        help="a data directory of `tailrace serve`, with its history if there is one, or a history",
    )
    parser.add_argument(
        "--history",
        metavar="DIR|URL",
        type=history_place,
        help="the history; default: the folder history in DIRECTORY",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Print what was checked and what is wrong."""
    is_remote = is_object_store(arguments.directory)
    folder = Path(arguments.directory)
    shards = {} if is_remote else _stores(folder)
    history = _history(arguments.directory, arguments.history)
    if not shards and history is None:
        raise UsageError(
            f"{arguments.directory} is neither a data directory nor a history; name a directory that is"
        )
    if not shards:
        return _report([], history, [], as_json=arguments.json)
    directory = DataDirectory(folder)
    try:
        return _report(list(shards.items()), history, [], as_json=arguments.json)
    finally:
        directory.close()


def _stores(folder: Path) -> dict[str, Path]:
    """The data directories of a deployment by the names of their shards; that of a replica set has none."""
    if holds_store(folder):
        return {"": folder}
    if not folder.is_dir():
        return {}
    return {found.name: found for found in sorted(folder.iterdir()) if holds_store(found)}


def _history(folder: str, named: str | None) -> "HistoryCheck | None":
    if named is not None and not _is_history(named):
        raise UsageError(f"there is no history in {named}; name another folder")
    inside = None if is_object_store(folder) else os.path.join(folder, _HISTORY_FOLDER)
    for place in (named, inside, folder):
        if place is not None and _is_history(place):
            return _new_check(place)
    return None


def _is_history(place: str) -> bool:
    """Whether it looks like one; an object store is asked when it is opened."""
    return is_object_store(place) or os.path.isdir(os.path.join(place, "_delta_log"))


def _new_check(place: str) -> "HistoryCheck":
    try:
        from tailrace.cli.checking.history import HistoryCheck
    except ImportError as error:
        raise missing_package("a history", error) from None
    return HistoryCheck(place)


def _report(
    stores: list[tuple[str, Path]], history: "HistoryCheck | None", faults: list[str], *, as_json: bool
) -> int:
    is_open = history is not None and history.open()
    checks = []
    for shard, path in stores:
        source = source_identity(path)
        # The oplog of a server in front of another deployment is not the one that a history is built from.
        has_oplog = history is not None and is_open and source is None
        check = StoreCheck(path, history.newest_entry(shard) if history is not None and has_oplog else None)
        check.run()
        checks.append(check)
        faults += check.faults
        if history is None or not is_open:
            continue
        if source is None:
            faults += _disagreements(check, history, shard)
        elif source and source != history.identity:
            faults.append(f"the history belongs to {history.identity}, and the data to a server of {source}")
    if history is not None:
        if is_open:
            history.run()
        faults += history.faults
    _print(checks, history, faults, as_json=as_json)
    return _UNSOUND if faults else _SOUND


def _disagreements(check: StoreCheck, history: "HistoryCheck", shard: str) -> list[str]:
    """What the oplog of a store and the history say differently."""
    if check.faults or shard == CONFIG_SERVER:
        return []
    found = []
    if not shard and check.identity and check.identity != history.identity:
        found.append(f"the history belongs to {history.identity}, and the data to {check.identity}")
    wanted = check.wanted
    if wanted is not None and wanted.time > check.truncated_through and wanted != check.found:
        found.append(
            f"the oplog in {check.path} does not have the entry of {in_words(wanted.time)} up to which the "
            "history was built"
        )
    if history.through < check.truncated_through:
        found.append(
            f"the history ends at {in_words(history.through)}, and the oplog in {check.path} begins after "
            f"{in_words(check.truncated_through)}: what is between is lost"
        )
    return found


def _print(
    checks: list[StoreCheck], history: "HistoryCheck | None", faults: list[str], *, as_json: bool
) -> None:
    if as_json:
        print_line(json.dumps(_as_document(checks, history, faults)))
        return
    for check in checks:
        print_line(
            f"data      {check.path}: {words.counted(check.collections, 'collection')}, "
            f"{words.counted(check.records, 'record')}, {check.entries:,} oplog entries, "
            f"{words.counted(check.pages, 'page')}"
        )
    if history is not None:
        print_line(
            f"history   {history.place}: {words.counted(history.files, 'file')}, "
            f"{words.counted(history.events, 'event')}, version {history.version}"
        )
    for fault in faults:
        print_line(f"wrong     {fault}")
    print_line("sound" if not faults else words.counted(len(faults), "fault"))


def _as_document(
    checks: list[StoreCheck], history: "HistoryCheck | None", faults: list[str]
) -> dict[str, Any]:
    data = [
        {
            "path": str(check.path),
            "collections": check.collections,
            "records": check.records,
            "oplogEntries": check.entries,
            "pages": check.pages,
        }
        for check in checks
    ]
    document: dict[str, Any] = {"sound": not faults, "data": data}
    if history is not None:
        document["history"] = {
            "path": history.place,
            "files": history.files,
            "events": history.events,
            "version": history.version,
        }
    return document | {"faults": faults}
