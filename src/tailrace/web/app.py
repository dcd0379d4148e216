"""The routes: the page, its JSON and its server-sent events, metrics and probes."""

import asyncio
import base64
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Final, TypeAlias

from pymongo.errors import PyMongoError
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from tailrace.errors import TailraceError
from tailrace.events.token_explanation import explain_token, token_rows
from tailrace.web.deployment import Client, in_short
from tailrace.web.event_streams import EventStreams, Message
from tailrace.web.headers import Headers
from tailrace.web.metrics import CONTENT_TYPE, metrics_text
from tailrace.web.resume_code import Token, resume_code
from tailrace.web.subject import OnFault, Subject
from tailrace.web.tail import Tail, WrongFilterError
from tailrace.web.timeline import SERIES
from tailrace.web.visitors import RefusedError, Visitor, Visitors, cookie_name, session_of
from tailrace.web.watcher import Watcher

_STATIC: Final = Path(__file__).parent / "static"
_PROBE_SECONDS: Final = 5.0
_LONGEST_BODY: Final = 4096
_DAY: Final = 86_400.0
_USER_PLACE: Final = "://<user>:<password>@"

Answer: TypeAlias = Callable[[Request], Awaitable[Response]]


def new_app(
    subject: Subject, watcher: Watcher, visitors: Visitors, on_fault: OnFault, *, is_local: bool
) -> Starlette:
    """The application; ``is_local``: only this machine can connect to it."""
    pages = _Pages(subject, watcher, visitors, on_fault)
    return Starlette(
        routes=[
            Route("/", pages.page),
            Route("/healthz", pages.healthz),
            Route("/readyz", pages.readyz),
            Route("/metrics", pages.guarded(pages.metrics)),
            Route("/api/session", pages.session),
            Route("/api/login", pages.login, methods=["POST"]),
            Route("/api/logout", pages.logout, methods=["POST"]),
            Route("/api/state", pages.guarded(pages.state)),
            Route("/api/live", pages.guarded(pages.live)),
            Route("/api/timeline", pages.guarded(pages.timeline)),
            Route("/api/history", pages.guarded(pages.history)),
            Route("/api/tail", pages.guarded(pages.tail)),
            Route("/api/events", pages.guarded(pages.events)),
            Route("/api/token", pages.guarded(pages.token)),
            Mount("/static", StaticFiles(directory=_STATIC)),
        ],
        middleware=[Middleware(Headers, is_local=is_local)],
        exception_handlers={RefusedError: _refused, PyMongoError: _failed, Exception: pages.failed},
    )


class _Pages:
    def __init__(self, subject: Subject, watcher: Watcher, visitors: Visitors, on_fault: OnFault) -> None:
        self._on_fault = on_fault
        self._event_streams = EventStreams(watcher.ended, on_fault)
        self._subject = subject
        self._watcher = watcher
        self._visitors = visitors

    def guarded(self, answer: Answer) -> Answer:
        """Answer only visitors who may see the state of the deployment."""

        async def checked(request: Request) -> Response:
            visitor = await self._visitors.of(request)
            await visitor.check_may_monitor()
            request.state.visitor = visitor
            return await answer(request)

        return checked

    async def failed(self, _request: Request, error: Exception) -> Response:
        """Answer a request that failed in a way that nobody expected."""
        self._on_fault(error)
        return _error(500, "the page failed; the log has the reason")

    # -- probes and metrics ---------------------------------------------------------------------------------

    async def healthz(self, _request: Request) -> Response:
        """Whether the process works: a deployment of its own has to answer, another one need not."""
        reason = await self._fault() if self._subject.is_own else ""
        return _probe(reason)

    async def readyz(self, _request: Request) -> Response:
        """Whether it does what it is for: the deployment answers, and the pipeline of this process runs."""
        reason = await self._fault()
        if not reason and self._subject.pipeline is not None:
            pipeline = self._subject.pipeline()
            if pipeline["state"] != "running":
                reason = f"the pipeline is {pipeline['state']}"
        return _probe(reason)

    async def _fault(self) -> str:
        """Why the deployment does not answer; empty if it does."""
        deployment = self._watcher.deployment
        if deployment is None:
            return ""
        try:
            async with asyncio.timeout(_PROBE_SECONDS):
                await deployment.ping()
        except (PyMongoError, TimeoutError) as error:
            return in_short(error)
        return ""

    async def metrics(self, _request: Request) -> Response:
        state = await self._watcher.state()
        return Response(metrics_text(self._watcher, state), media_type=CONTENT_TYPE)

    # -- the page and its sessions --------------------------------------------------------------------------

    async def page(self, _request: Request) -> Response:
        return Response((_STATIC / "index.html").read_bytes(), media_type="text/html")

    async def session(self, request: Request) -> Response:
        visitor: Visitor | None = None
        with suppress(RefusedError):
            visitor = await self._visitors.of(request)
        return JSONResponse(session_of(visitor, self._subject))

    async def login(self, request: Request) -> Response:
        body = await request.body()
        if request.headers.get("content-type") != "application/json" or len(body) > _LONGEST_BODY:
            raise RefusedError(400, "name and password are sent as a short JSON document")
        try:
            sent = json.loads(body)
            name, password = str(sent["user"]), str(sent["password"])
            database = str(sent.get("database") or "admin")
        except (ValueError, KeyError, TypeError, AttributeError):
            raise RefusedError(400, "name and password are sent as a short JSON document") from None
        response = JSONResponse({"user": name})
        if self._subject.has_users:
            key = await self._visitors.log_in(name, password, database)
            response.set_cookie(
                cookie_name(request),
                key,
                httponly=True,
                samesite="strict",
                secure=request.url.scheme == "https",
            )
        return response

    async def logout(self, request: Request) -> Response:
        await self._visitors.log_out(request.cookies.get(cookie_name(request), ""))
        response = JSONResponse({})
        response.delete_cookie(cookie_name(request))
        return response

    # -- what the page shows --------------------------------------------------------------------------------

    async def state(self, _request: Request) -> Response:
        return JSONResponse(await self._watcher.state())

    async def live(self, request: Request) -> Response:
        return self._event_streams.response(self._states(request.state.visitor))

    async def _states(self, visitor: Visitor) -> AsyncGenerator[Message]:
        async with aclosing(self._watcher.follow()) as states:
            async for state in states:
                try:
                    await visitor.check_may_monitor()
                except RefusedError as error:
                    yield "refused", json.dumps({"error": str(error)})
                    return
                yield "state", json.dumps(state)

    async def timeline(self, request: Request) -> Response:
        seconds = _number(request, "seconds", 900.0)
        return JSONResponse(
            {"series": SERIES, "rows": self._watcher.timeline.rows(min(max(seconds, 1.0), _DAY))}
        )

    async def history(self, _request: Request) -> Response:
        return JSONResponse(await asyncio.to_thread(self._watcher.book.details))

    async def tail(self, request: Request) -> Response:
        return self._event_streams.response(_tail(request).live(_client(request)))

    async def events(self, request: Request) -> Response:
        begin, end = _number(request, "from", 0.0), _number(request, "to", 0.0)
        found, is_all = await _tail(request).between(_client(request), begin, end)
        text = f'{{"events": [{", ".join(found)}], "isAll": {json.dumps(is_all)}}}'
        return Response(text, media_type="application/json")

    async def token(self, request: Request) -> Response:
        asked = request.query_params
        uri = self._subject.clients_uri
        if self._subject.has_users:
            uri = uri.replace("://", _USER_PLACE, 1)
        try:
            bits = base64.b64decode(asked.get("typeBits", ""), validate=True)
            token = Token(asked.get("token", ""), bits)
            explanation = explain_token(token.document())
        except (TailraceError, ValueError) as error:
            return _error(400, str(error))
        kind = "" if explanation.kind is None else explanation.kind.value
        code = resume_code(uri, asked.get("ns", ""), token, kind)
        return JSONResponse(
            {
                "rows": token_rows(explanation),
                "meaning": explanation.meaning,
                "code": [snippet._asdict() for snippet in code],
            }
        )


def _tail(request: Request) -> Tail:
    try:
        return Tail.parse(request.query_params.get("ns", ""), request.query_params.get("filter", ""))
    except WrongFilterError as error:
        raise RefusedError(400, str(error)) from None


def _client(request: Request) -> Client:
    client: Client | None = request.state.visitor.client
    if client is None:
        raise RefusedError(404, "archived oplogs have no live events; tailrace replay shows them")
    return client


def _number(request: Request, name: str, default: float) -> float:
    try:
        return float(request.query_params.get(name, default))
    except ValueError:
        raise RefusedError(400, f"{name} is a number") from None


def _probe(reason: str) -> Response:
    return PlainTextResponse(f"{reason or 'ok'}\n", status_code=503 if reason else 200)


def _error(status: int, message: str) -> JSONResponse:
    return JSONResponse({"error": message}, status_code=status)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, RefusedError)
    response = _error(error.status, str(error))
    if error.status == 401 and request.url.path == "/metrics":
        # Not elsewhere: the page has a form, and a browser would show a dialog of its own.
        response.headers["WWW-Authenticate"] = 'Basic realm="tailrace"'
    return response


async def _failed(_request: Request, error: Exception) -> Response:
    return _error(502, in_short(error))
