"""The server behind the page: files of the page, recordings by id, and live runs on a socket.

Live runs are bounded in number and computed one after the other, in one thread. What strangers can
cost is bounded, too: connections, the time for headers, lines of the log.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import h11
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.websockets import WebSocket, WebSocketDisconnect
from uvicorn.protocols.http.h11_impl import H11Protocol

from radt.viewer.conversation import Conversation
from radt.viewer.library import Library, open_trace, open_trial
from radt.viewer.security import Guard, Key

STATIC = Path(__file__).parent / "static"
LONGEST_QUESTION = 1 << 16  # bytes that a socket takes at once
MOST_LIVE = 16
IDLE_SECONDS = 600.0
TRY_LATER, UNSUPPORTED = 1013, 1003  # codes with which a socket is closed
MOST_CONNECTIONS = 128
HEADER_SECONDS = 10.0
MOST_LINES, LOG_SECONDS = 20, 60.0
LOGGERS = ("radt.viewer", "uvicorn.error", "asyncio")

log = logging.getLogger("radt.viewer")


class Rooms:
    """Gives each page that comes a live run of its own, while there is room."""

    def __init__(self, most: int = MOST_LIVE, idle_seconds: float = IDLE_SECONDS) -> None:
        self.most, self.idle_seconds = most, idle_seconds
        self.open = 0
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="radt-live")

    async def host(self, page: WebSocket, conversation: Conversation) -> None:
        """Answer one page until it leaves, or has been silent for too long."""
        await page.accept()
        if self.open >= self.most:
            message = f"{self.most} live runs are open already; close another tab and try again"
            await page.send_text(json.dumps({"kind": "error", "message": message}))
            await page.close(TRY_LATER, "too many live runs")
            return
        self.open += 1
        try:
            await self._talk(page, conversation)
        except WebSocketDisconnect:
            pass  # it left, perhaps before it heard the answer
        finally:
            self.open -= 1
            self._worker.submit(conversation.close)

    async def _talk(self, page: WebSocket, conversation: Conversation) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                text = await asyncio.wait_for(page.receive_text(), self.idle_seconds)
            except TimeoutError:
                await page.close(TRY_LATER, "idle")
                return
            except KeyError:  # bytes
                await page.close(UNSUPPORTED, "only text is understood")
                return
            answer = await loop.run_in_executor(self._worker, answered, conversation, text)
            await page.send_text(answer)


def answered(conversation: Conversation, text: str) -> str:
    """Answer as JSON; of a mistake of ours the page learns only that there was one."""
    try:
        return json.dumps(conversation.answer(text), allow_nan=False)
    except Exception:  # the details are for the terminal
        log.exception("a live run failed")
        message = "the server made a mistake; its terminal shows which"
        return json.dumps({"kind": "error", "message": message})


class Site:
    """What is answered under which address."""

    def __init__(self, library: Library, rooms: Rooms) -> None:
        self.library, self.rooms = library, rooms

    async def page(self, request: Request) -> Response:
        return FileResponse(STATIC / "index.html")

    async def sources(self, request: Request) -> Response:
        return await _answer(lambda: [source.to_json() for source in self.library.sources()])

    async def trace(self, request: Request) -> Response:
        asked = request.path_params
        return await _answer(lambda: open_trace(self._trace(asked)))

    async def trial(self, request: Request) -> Response:
        asked = request.path_params
        return await _answer(lambda: open_trial(self._trace(asked), asked["task"], asked["trial"]))

    async def live(self, page: WebSocket) -> None:
        await self.rooms.host(page, Conversation(self.library))

    def _trace(self, asked: dict[str, Any]) -> Path:
        return self.library.trace(asked["source"], asked["number"])

    def routes(self) -> list[BaseRoute]:
        trace = "/api/sources/{source}/traces/{number:int}"
        return [
            Route("/", self.page),
            Mount("/static", StaticFiles(directory=STATIC)),
            Route("/api/sources", self.sources),
            Route(trace, self.trace),
            Route(f"{trace}/tasks/{{task:int}}/trials/{{trial:int}}", self.trial),
            WebSocketRoute("/api/live", self.live),
        ]


def build_app(library: Library, key: Key, rooms: Rooms | None = None) -> Starlette:
    """Build the application that serves one library behind one key."""
    site = Site(library, rooms or Rooms())
    rooted = Mount(key.path, routes=site.routes())
    return Starlette(routes=[rooted], middleware=[Middleware(Guard, key=key)])


async def _answer(work: Callable[[], Any]) -> Response:
    """Do some work beside the event loop and send what comes of it, or why nothing does."""
    try:
        return _json(await run_in_threadpool(work))
    except KeyError as error:
        return _json({"message": str(error)}, 404)
    except (ValueError, OSError) as error:
        return _json({"message": str(error)}, 422)


def _json(content: Any, status: int = 200) -> Response:
    """Send JSON in ASCII: names of files need not be UTF-8."""
    return Response(json.dumps(content, allow_nan=False), status, media_type="application/json")


class BoundedProtocol(H11Protocol):
    """HTTP whose headers must come in time; where all places are taken, who waits longest goes."""

    deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a place, perhaps that of another, and wait for a request."""
        if len(self.connections) >= MOST_CONNECTIONS:
            waiting = [(d.when(), one) for one in self.connections if (d := _deadline(one))]
            longest = min(waiting, key=lambda found: found[0])[1] if waiting else None
            self.connections.discard(longest)  # now: its end is noticed after others have come
            (transport if longest is None else longest.transport).abort()
        super().connection_made(transport)
        self.deadline = self.loop.call_later(HEADER_SECONDS, transport.abort)

    def data_received(self, data: bytes) -> None:
        """Stop waiting once all headers of a request are there; wait for those of the next."""
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop_waiting()
        elif self.deadline is None:
            self.deadline = self.loop.call_later(HEADER_SECONDS, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _stop_waiting(self) -> None:
        if self.deadline is not None:
            self.deadline.cancel()
            self.deadline = None


def _deadline(connection: object) -> asyncio.TimerHandle | None:
    return getattr(connection, "deadline", None)  # sockets of live runs have none


class BoundedLog(logging.Filter):
    """Lets a few lines a minute through, and says when others are left out."""

    def __init__(self, most: int = MOST_LINES, seconds: float = LOG_SECONDS) -> None:
        super().__init__()
        self.most, self.seconds, self.since, self.lines = most, seconds, time.monotonic(), 0

    def filter(self, record: logging.LogRecord) -> bool:
        if time.monotonic() - self.since > self.seconds:
            self.since, self.lines = time.monotonic(), 0
        self.lines += 1
        if self.lines == self.most:
            record.msg, record.args, record.exc_info = "more such lines are left out", (), None
        return self.lines <= self.most


def listen(port: int) -> socket.socket:
    """Open a socket that only this machine can reach; port 0 takes a free one."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
        listener.listen()  # who asks at once waits, and is not refused
    except OSError:
        listener.close()
        raise
    return listener


def configured(app: Starlette) -> uvicorn.Config:
    """Say how an application is served: to few at once, and without believing proxies."""
    return uvicorn.Config(
        app,
        http=BoundedProtocol,
        backlog=MOST_CONNECTIONS,  # are taken in at once, before any of them can be shown out
        log_config=None,  # uvicorn's own would close the handlers of others
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        ws_max_size=LONGEST_QUESTION,
    )


def serve(library: Library, listener: socket.socket, announce: Callable[[str], None]) -> None:
    """Serve a library until interrupted, and say under which address."""
    key = Key(listener.getsockname()[1])
    server = uvicorn.Server(configured(build_app(library, key)))
    bounded = BoundedLog()
    for name in LOGGERS:
        logging.getLogger(name).addFilter(bounded)
    announce(key.address)
    server.run(sockets=[listener])
