"""Folders that arguments name."""

from pathlib import Path

from tailrace.places import history_place, local_path


def history_folder(text: str) -> Path:
    """The argument of --history."""
    return Path(history_place(text))


def local_folder(text: str) -> Path:
    """A folder that has to be on this machine."""
    return Path(local_path(text, "the folder"))
