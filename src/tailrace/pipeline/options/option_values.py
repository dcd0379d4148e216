"""Read single options of a Spark data source: flags, numbers, JSON, paths.

Spark passes options as text and ignores the case of their names. Errors are `UsageError`, and name the option
as `docs/spark.md` does.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, Final, TypeVar

from tailrace.bson import documents, extjson
from tailrace.errors import CommandError, UsageError
from tailrace.namespaces import NamespaceChoice
from tailrace.places import archive_place
from tailrace.sources.deployments.connection_string import ConnectionString
from tailrace.sources.recorded.via import Via

E = TypeVar("E", bound=Enum)
PASSWORD_FILE: Final = "passwordFile"
VIA: Final = "via"
STORE_FILE: Final = "storeFile"


class OptionValues:
    """Options by name; names are given as the documentation writes them.

    >>> values = OptionValues({"failondataloss": "FALSE"})
    >>> values.flag("failOnDataLoss"), values.positive("partitions")
    (False, None)
    """

    def __init__(self, by_lower_name: Mapping[str, str]) -> None:
        self._texts = by_lower_name

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._texts

    def text(self, name: str) -> str | None:
        return self._texts.get(name.lower())

    def one_of(self, names: Sequence[str], remedy: str) -> str:
        """Return the one option of several that is set; ``remedy`` tells the user which there are."""
        given = [name for name in names if name in self]
        if len(given) != 1:
            others = f"; {' and '.join(given)} exclude each other" if given else ""
            raise UsageError(f"{remedy}{others}")
        return given[0]

    def uri(self, text: str) -> str:
        """A connection string, with the password in the file that the option `passwordFile` names."""
        path = self.text(PASSWORD_FILE)
        return text if path is None else ConnectionString(text, path)

    def flag(self, name: str, *, default: bool = False) -> bool:
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            raise UsageError(f"the option {name} must be true or false, not {text!r}")
        return text.lower() == "true"

    def positive(self, name: str) -> int | None:
        text = self.text(name)
        if text is not None and (not text.isdigit() or int(text) < 1):
            raise UsageError(f"the option {name} must be a whole number of at least 1, not {text!r}")
        return None if text is None else int(text)

    def milliseconds(self, name: str) -> int | None:
        text = self.text(name)
        if text is not None and not text.isdigit():
            raise UsageError(f"the option {name} must be milliseconds since 1970, not {text!r}")
        return None if text is None else int(text)

    def choice(self, name: str, default: E, fold: Callable[[str], str] = str.lower) -> E:
        """Return the member of an enumeration whose value is given."""
        text = self.text(name)
        if text is None:
            return default
        choices = type(default)
        try:
            return choices(fold(text))
        except ValueError:
            known = ", ".join(str(choice.value) for choice in choices)
            raise UsageError(f"the option {name} must be one of {known}, not {text!r}") from None

    def json(self, name: str) -> Any:
        try:
            return json.loads(self._texts[name.lower()])
        except ValueError as error:
            raise UsageError(f"the option {name} is no JSON: {error}") from None

    def extended_json(self, name: str) -> Any:
        """Return a value in Extended JSON, decoded; None if the option is not set."""
        text = self.text(name)
        if text is None:
            return None
        try:
            kind, raw = extjson.loads_value(text)
            return documents.decode_value(raw, kind, 0, len(raw))
        except (CommandError, RecursionError) as error:
            raise UsageError(f"the option {name} is no Extended JSON: {error}") from None

    def document(self, name: str) -> dict[str, Any] | None:
        value = self.extended_json(name)
        if name not in self:
            return None
        if not isinstance(value, dict):
            raise UsageError(f"the option {name} must be an Extended JSON document, such as {{}}")
        return value

    def names(self, name: str) -> tuple[str, ...]:
        """Return names between commas, or those of a JSON array, each once."""
        text = self.text(name) or ""
        found = self.json(name) if text.startswith("[") else text.split(",")
        if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
            raise UsageError(f"the option {name} must be names between commas or a JSON array of names")
        return tuple(dict.fromkeys(name for one in found if (name := one.strip())))

    def namespaces(self) -> NamespaceChoice | None:
        """What the options ns and exclude choose; None if there are none."""
        if "ns" not in self and "exclude" not in self:
            return None
        return NamespaceChoice.of(self.names("ns"), self.names("exclude"))

    def paths(self, name: str) -> tuple[str, ...]:
        """Return one path, or those of a JSON array."""
        text = self._texts[name.lower()]
        return _paths(name, self.json(name) if text.startswith("[") else text)

    def paths_by_key(self, name: str) -> dict[str, tuple[str, ...]]:
        """Return the paths of each key of a JSON object; paths without an object have the key ``""``."""
        if not self._texts[name.lower()].startswith("{"):
            return {"": self.paths(name)}
        found = self.json(name)
        if not found:
            raise UsageError(f'the option {name} must be JSON such as {{"shard0": ["oplog.bson"]}}')
        return {key: _paths(name, paths) for key, paths in found.items()}


def _paths(name: str, value: Any) -> tuple[str, ...]:
    paths = [value] if isinstance(value, str) else value
    if not isinstance(paths, list) or not paths or not all(isinstance(path, str) for path in paths):
        raise UsageError(f"the option {name} must be a path or a JSON array of paths, not {value!r}")
    return tuple(archive_place(path, f"the option {name}") for path in paths)


def via_of(values: OptionValues, uri: str | None) -> Via | None:
    """How the deployment of a connection string is read."""
    text = values.text(VIA)
    if text is None:
        return None
    if uri is None:
        raise UsageError("via is for a deployment; name it with uri, or leave via out")
    return values.choice(VIA, Via.OPLOG)
