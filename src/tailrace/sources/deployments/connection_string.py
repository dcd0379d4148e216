"""Connection strings, and how their secrets stay secret.

A connection string travels: into logs and messages by its representation, and to Spark's workers pickled in
plans. Both show it without its secrets. A worker reads them from a file that only the user can read.

>>> uri = ConnectionString("mongodb://app:secret@a:1/?tls=true&tlsCertificateKeyFilePassword=key")
>>> uri
'mongodb://app:***@a:1/?tls=true&tlsCertificateKeyFilePassword=***'
"""

import atexit
import re
import tempfile
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import quote, unquote_plus

from tailrace.errors import UsageError

_SCHEMES: Final = ("mongodb://", "mongodb+srv://")
_CREDENTIALS: Final = re.compile(r"^(?P<scheme>[a-z+]+://)(?P<user>[^:@/]*)(?P<password>:[^/]*)?@")
_SECRET_OPTIONS: Final = re.compile(r"(?i)([?&;](?:tlsCertificateKeyFilePassword|sslPEMPassphrase)=)([^&;]*)")
_TOKEN: Final = re.compile(r"(?i)(AWS_SESSION_TOKEN(?::|%3A))([^&;,]*)")
_WITHOUT_PASSWORD: Final = re.compile(
    r"(?i)[?&;]authMechanism=(MONGODB-X509|GSSAPI|MONGODB-AWS|MONGODB-OIDC)"
)

_files: dict[str, str] = {}
"""Private files of this process, by what they contain."""


def is_uri(text: str) -> bool:
    return text.startswith(_SCHEMES)


class ConnectionString(str):
    """A connection string; its representation and its pickled form have no secrets."""

    _password_file: Path | None
    _file: str | None = None
    """The private file that it was read from."""

    def __new__(cls, text: str, password_file: Path | str | None = None) -> Self:
        """``password_file`` has the password of the user that the text names; it is read now."""
        path = None if password_file is None else Path(password_file)
        made = super().__new__(cls, text if path is None else with_password(text, read_secret(path)))
        made._password_file = path
        return made

    @property
    def user(self) -> str | None:
        """The user that it names."""
        found = _CREDENTIALS.match(self)
        return unquote_plus(found["user"]) if found is not None and found["user"] else None

    @property
    def has_secrets(self) -> bool:
        return self.shown != str(self)

    @property
    def lacks_password(self) -> bool:
        """Whether it names a user who logs in with a password, without the password."""
        found = _CREDENTIALS.match(self)
        is_named = found is not None and found["password"] is None
        return is_named and _WITHOUT_PASSWORD.search(self) is None

    @property
    def shown(self) -> str:
        """The text without secrets."""
        text = _CREDENTIALS.sub(
            lambda found: f"{found['scheme']}{found['user']}{':***' if found['password'] else ''}@", self
        )
        return _TOKEN.sub(r"\1***", _SECRET_OPTIONS.sub(r"\1***", text))

    def __repr__(self) -> str:
        return repr(self.shown)

    def __reduce__(self) -> tuple[Any, ...]:
        if not self.has_secrets:
            return ConnectionString, (str(self),)
        if self._password_file is not None and not ConnectionString(self.without_password()).has_secrets:
            return ConnectionString, (self.without_password(), str(self._password_file))
        return _from_file, (self._file or secret_file(str(self)),)

    def without_password(self) -> str:
        """The text that names the user only."""
        return _CREDENTIALS.sub(lambda found: f"{found['scheme']}{found['user']}@", self)

    @property
    def password(self) -> str | None:
        found = _CREDENTIALS.match(self)
        return None if found is None or found["password"] is None else unquote_plus(found["password"][1:])


def with_password(uri: str, password: str) -> str:
    """Add the password of the user that a connection string names."""
    found = _CREDENTIALS.match(uri)
    if found is None or not found["user"]:
        raise UsageError(
            "a password is given, but the connection string names no user, as mongodb://NAME@HOST/"
        )
    if found["password"] is not None:
        raise UsageError("the connection string has a password; leave out the other one")
    return f"{found['scheme']}{found['user']}:{quote(password, safe='')}@{uri[found.end() :]}"


def read_secret(path: Path) -> str:
    """The text of a file with one secret; `UsageError` if it cannot be read, or is empty."""
    try:
        text = path.read_text().strip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise UsageError(f"the secret cannot be read from {path}: {reason}") from None
    if not text:
        raise UsageError(f"the file {path} is empty; it should contain a secret")
    return text


def secret_file(text: str) -> str:
    """The path of a file with this text that only this user can read; it is removed with the process."""
    if text not in _files:
        if not _files:
            folder = tempfile.TemporaryDirectory(prefix="tailrace-secrets-")
            atexit.register(folder.cleanup)
            _files[""] = folder.name
        path = Path(_files[""]) / str(len(_files))
        path.touch(mode=0o600)
        path.write_text(text)
        _files[text] = str(path)
    return _files[text]


def _from_file(path: str) -> ConnectionString:
    """Read what `secret_file` wrote; another machine does not have it."""
    try:
        found = ConnectionString(Path(path).read_text())
    except OSError as error:
        raise UsageError(
            f"the connection string cannot be read from {path}: {error.strerror}; on several machines, put "
            "the password into a file that all of them have, and name it with --password-file or passwordFile"
        ) from None
    found._file = path
    return found
