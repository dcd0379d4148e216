"""Connection strings for other users than the one that they name."""


def without_user(uri: str) -> str:
    """A connection string without name, password and how to log in.

    >>> without_user("mongodb://me:secret@a:1,b:2/?replicaSet=rs0&authSource=x")
    'mongodb://a:1,b:2/?replicaSet=rs0'
    """
    scheme, _, rest = uri.partition("://")
    hosts, slash, options = rest.partition("/")
    database, mark, shown = options.partition("?")
    kept = [part for part in shown.split("&") if part and not part.lower().startswith("auth")]
    return f"{scheme}://{hosts.rpartition('@')[2]}{slash}{database}{mark if kept else ''}{'&'.join(kept)}"
