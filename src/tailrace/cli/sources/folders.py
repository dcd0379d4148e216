"""Folders that arguments name."""

from pathlib import Path

from tailrace.places import history_place, is_object_store, local_path, refuse_data_of_others


def history_argument(text: str) -> str:
    """The place that a table is written to: an absolute path, or the URL of an object store."""
    place = history_place(text)
    if is_object_store(place):
        return place
    folder = Path(place).absolute()
    refuse_data_of_others(folder, "the folder")
    return str(folder)


def local_folder(text: str) -> Path:
    """A folder that has to be on this machine."""
    return Path(local_path(text, "the folder"))
