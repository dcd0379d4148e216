"""Pass the options of an object store to the processes that Spark starts on the driver's machine.

Java may have been started before they were set in the environment, and Spark shows options in plans. So an
option names a private file that has them.
"""

from os import PathLike

from tailrace.lake.storage.store_options import file_text, store_options
from tailrace.places import is_object_store
from tailrace.sources.deployments.connection_string import secret_file


def private_store_file(history: str | PathLike[str]) -> str | None:
    """A file with the options for a history in an object store; it is removed with this process.

    None if the history is elsewhere, or there are no options.
    """
    options = store_options() if is_object_store(history) else {}
    return secret_file(file_text(options)) if options else None
