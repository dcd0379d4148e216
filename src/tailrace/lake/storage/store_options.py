"""Options of object stores: addresses and credentials, from the environment or from a file.

Their names are those of the cloud's own tools. They are never arguments of a command or options of a query,
which other users see. A driver passes them to its executors inside of pickled tasks.
"""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from tailrace.errors import UsageError

FILE_VARIABLE: Final = "TAILRACE_STORE_FILE"
"""Names a file with lines NAME=VALUE, which win over the environment"""
NAMES: Final = (
    "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL", "AWS_ALLOW_HTTP", "AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "AWS_SKIP_SIGNATURE",
    "AWS_REQUEST_PAYER",
    "GOOGLE_SERVICE_ACCOUNT", "GOOGLE_SERVICE_ACCOUNT_KEY", "GOOGLE_APPLICATION_CREDENTIALS",
    "AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_SAS_KEY",
    "AZURE_STORAGE_CLIENT_ID", "AZURE_STORAGE_CLIENT_SECRET", "AZURE_STORAGE_TENANT_ID",
    "AZURE_STORAGE_ENDPOINT", "AZURE_STORAGE_USE_EMULATOR",
)  # fmt: skip
_GOOGLE_FILES: Final = ("google_service_account", "google_application_credentials")
_GOOGLE_KEY: Final = "google_service_account_key"


class StoreOptions(dict[str, str]):
    """Options by name, in lower case; shown without their values."""

    def __repr__(self) -> str:
        return f"StoreOptions({', '.join(self)})"


def store_options(file: str | None = None, environment: Mapping[str, str] | None = None) -> StoreOptions:
    """The options of this process; `UsageError` if the file that has them cannot be read.

    ``file`` is that file, by default the one that the environment names.

    >>> store_options(environment={"AWS_SECRET_ACCESS_KEY": "secret", "HOME": "/"})
    StoreOptions(aws_secret_access_key)
    """
    given = os.environ if environment is None else environment
    found = StoreOptions((name.lower(), given[name]) for name in NAMES if given.get(name))
    if path := file or given.get(FILE_VARIABLE):
        found.update(_in_file(path))
    for name in _GOOGLE_FILES:
        if name in found:
            # Another machine does not have the file.
            with suppress(OSError, ValueError):
                account = json.loads(Path(found[name]).read_text())
                if account.get("type") == "service_account":
                    del found[name]
                    found[_GOOGLE_KEY] = json.dumps(account)
    return found


def file_text(options: Mapping[str, str]) -> str:
    r"""The content of a file with these options.

    >>> file_text({"aws_region": "eu-west-1"})
    'AWS_REGION=eu-west-1\n'
    """
    return "".join(f"{name.upper()}={text}\n" for name, text in options.items())


def _in_file(path: str) -> dict[str, str]:
    try:
        lines = Path(path).read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise UsageError(f"the file {path} of {FILE_VARIABLE} cannot be read: {reason}") from None
    found = {}
    for number, line in enumerate(lines, 1):
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        if not name or name.startswith("#"):
            continue
        if not equals or name.strip().upper() not in NAMES:
            raise UsageError(
                f"line {number} of {path} is not NAME=VALUE with a name that object stores have; "
                "docs/object-stores.md lists them"
            )
        found[name.strip().lower()] = _unquoted(value.strip())
    return found


def _unquoted(value: str) -> str:
    is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
    return value[1:-1] if is_quoted else value
