"""The order of resume tokens, which is the order of the stream."""

from typing import Any, Final

from tailrace.client.options import Document
from tailrace.events.resume_token import Resume, ResumeToken, cluster_time_of, compare_for_resume

READ: Final = "read"
"""In a position of a group that begins with a snapshot: the place that it has come to"""


def comes_after(token: Document, position: Document) -> bool:
    """Whether an event is after a position; the two tokens may be of different releases of the server.

    >>> early, late = "8263515EAC000000022B0429296E1404", "8263515EAC000000032B0429296E1404"
    >>> comes_after({"_data": late}, {"_data": early}), comes_after({"_data": early}, {"_data": early})
    (True, False)
    """
    data, other = text_of(token), text_of(position)
    if data == other:
        return bool(token.get(READ, "") > position.get(READ, ""))
    if cluster_time_of(data) != cluster_time_of(other):
        return data > other
    # Texts of one time compare by the version of the format first, which says nothing about order.
    event, mark = ResumeToken.parse_data(data), ResumeToken.parse_data(other)
    return data > other if event.version == mark.version else _surpasses(event, mark)


def order_of(position: Document) -> tuple[str, str]:
    """What positions of one group sort by."""
    return text_of(position), position.get(READ, "")


def _surpasses(event: ResumeToken, mark: ResumeToken) -> bool:
    return compare_for_resume(event, mark) is Resume.SURPASSED


def text_of(token: Document) -> str:
    """The hex text of a token, which sorts like the stream."""
    data: Any = token["_data"]
    return str(data)


def high_water_mark(time: int, version: int = 1) -> dict[str, Any]:
    """The token of a cluster time; every server since MongoDB 4.2 accepts version 1."""
    return {"_data": ResumeToken.high_water_mark(time, version).data}
