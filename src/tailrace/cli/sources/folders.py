"""Folders that arguments name."""

from pathlib import Path

from tailrace.places import history_place, is_object_store, local_path


def history_argument(text: str) -> str:
    """The argument of --history: an absolute path, or the URL of an object store."""
    place = history_place(text)
    return place if is_object_store(place) else str(Path(place).absolute())


def local_folder(text: str) -> Path:
    """A folder that has to be on this machine."""
    return Path(local_path(text, "the folder"))
