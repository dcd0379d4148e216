"""Connections to the servers of a deployment, and raw batches of their cursors."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any, Final, TypeAlias, cast
from urllib.parse import quote_plus, urlencode

import pymongo
from pymongo import MongoClient, ReadPreference
from pymongo.client_session import ClientSession
from pymongo.cursor import Cursor, RawBatchCursor
from pymongo.uri_parser import parse_uri

from tailrace.errors import UsageError
from tailrace.events.cluster_time import to_timestamp
from tailrace.sources.process_cache import Owner, ProcessCache
from tailrace.sources.raw_documents import split_documents

Client: TypeAlias = MongoClient[dict[str, Any]]

SELECTION_MS: Final = 10_000
"""How long a source waits for a server, unless the URI sets another time."""
_OF_THE_ROUTER: Final = frozenset({"replicaset", "directconnection", "loadbalanced"})

_SECONDS_TO_CLOSE: Final = 1.0
"""How long a server may take to end the sessions of a client that is closed."""
_AT_ONCE: Final = 0.001


def close_client(client: Client) -> None:
    """Close a client. A source that is away is not waited for: its sessions there end by themselves."""
    if client.topology_description.has_readable_server(ReadPreference.PRIMARY_PREFERRED):
        _close_within(client, _SECONDS_TO_CLOSE)
    else:
        # In a thread, because PyMongo looks for a server all the same, for half a second at least.
        Thread(target=_close_within, args=(client, _AT_ONCE), name="tailrace-close", daemon=True).start()


def _close_within(client: Client, seconds: float) -> None:
    with pymongo.timeout(seconds):
        client.close()


_clients: Final[ProcessCache[Client]] = ProcessCache(close_client)


def client_of(owner: Owner, uri: str) -> Client:
    """Return the client of a source (``owner``) for one connection string."""
    return _clients.get(owner, uri, lambda: open_client(uri))


def close_clients(owner: Owner) -> None:
    """Close the clients of one source in this process."""
    _clients.release(owner)


def open_client(uri: str) -> Client:
    """Return a client that raises within seconds if no server answers."""
    try:
        if "serverselectiontimeoutms" in uri.lower():
            return MongoClient(uri, appname="tailrace")
        return MongoClient(uri, appname="tailrace", serverSelectionTimeoutMS=SELECTION_MS)
    except Exception as error:  # PyMongo raises several kinds, all about the text of the URI
        raise UsageError(f"the URI of the source is no connection string: {error}") from None


def shard_uri(router_uri: str, host: str) -> str:
    """Return the connection string of a shard that `listShards` names (``set/host:port,...``).

    Credentials and options are those of the router.

    >>> shard_uri("mongodb://u:p@router:27017/?tls=true", "rs0/a:1,b:2")
    'mongodb://u:p@a:1,b:2/?replicaSet=rs0&tls=true'
    """
    set_name, _, hosts = host.rpartition("/")
    parsed = parse_uri(router_uri, validate=False, warn=False, normalize=False)
    options = {name: _option_texts(value) for name, value in parsed["options"].items()}
    lowered = {name.lower() for name in options}
    for name in [name for name in options if name.lower() in _OF_THE_ROUTER]:
        del options[name]
    if router_uri.startswith("mongodb+srv://") and not lowered & {"tls", "ssl"}:
        options["tls"] = ["true"]
    if set_name:
        options["replicaSet"] = [set_name]
    user = ""
    if parsed["username"]:
        user = quote_plus(parsed["username"])
        user += f":{quote_plus(parsed['password'])}@" if parsed["password"] is not None else "@"
    query = urlencode(sorted(options.items()), doseq=True)
    return f"mongodb://{user}{hosts}/{parsed['database'] or ''}?{query}"


def member_uri(uri: str, host: str) -> str:
    """Return the connection string of one member of a replica set, which is asked whatever it becomes.

    >>> member_uri("mongodb://u:p@a:1,b:2/?replicaSet=rs0&readPreference=secondary", "b:2")
    'mongodb://u:p@b:2/?directConnection=true&readPreference=secondary'
    """
    base, _, options = shard_uri(uri, host).partition("?")
    return f"{base}?directConnection=true{'&' if options else ''}{options}"


@contextmanager
def session_at(client: Client, time: int) -> Iterator[ClientSession]:
    """A session whose reads are at least as new as a cluster time.

    A primary that was deposed and does not know it, and one that was just elected, do not answer before they
    have that time majority committed.
    """
    with client.start_session(causal_consistency=True) as session:
        session.advance_operation_time(to_timestamp(time))
        yield session


def _option_texts(value: Any) -> list[str]:
    """An option that can be repeated has several texts, in order."""
    values = value if isinstance(value, list) else [value]
    return [str(each).lower() if isinstance(each, bool) else str(each) for each in values]


def raw_batches(cursor: Cursor[dict[str, Any]]) -> Iterator[bytes]:
    """Iterate a raw cursor; PyMongo declares the type of a decoded document."""
    return cast("Iterator[bytes]", iter(cursor))


def documents_of(cursor: RawBatchCursor[dict[str, Any]]) -> Iterator[bytes]:
    """Return the raw documents of a cursor one by one; it is closed with the iterator."""
    with cursor:
        for batch in raw_batches(cursor):
            yield from split_documents(batch)
