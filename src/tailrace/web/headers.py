"""Headers of every answer, and the refusal of requests that another site has sent through a browser."""

import ipaddress
from typing import Final

from starlette.datastructures import Headers as RequestHeaders
from starlette.datastructures import MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
_ALWAYS: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


class Headers:
    """Wraps an application."""

    def __init__(self, app: ASGIApp, *, is_local: bool) -> None:
        """``is_local``: only names of this machine are accepted as host.

        A site whose name was changed to point to the loopback address could otherwise read the page.
        """
        self._app = app
        self._is_local = is_local

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _ALWAYS.items():
                    headers.setdefault(name, value)
            await send(message)

        if self._is_local and not names_this_machine(RequestHeaders(scope=scope).get("host", "")):
            refusal = PlainTextResponse("the page is for this machine only\n", status_code=421)
            await refusal(scope, receive, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)


def names_this_machine(host: str) -> bool:
    """Whether the header Host has a name or an address of the loopback interface.

    >>> names_this_machine("localhost:27080"), names_this_machine("[::1]:80"), names_this_machine("a.example")
    (True, True, False)
    """
    name = host.rpartition("]")[0].lstrip("[") if host.startswith("[") else host.partition(":")[0]
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
