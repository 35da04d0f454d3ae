"""The server behind the page: files of the page, recordings by id, and live runs on a socket."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from radt.viewer.conversation import Conversation
from radt.viewer.library import Library, describe
from radt.viewer.recordings import open_trace, open_trial
from radt.viewer.rooms import Rooms
from radt.viewer.security import Guard, Key

STATIC = Path(__file__).parent / "static"
KINDS = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
}
LONGEST_QUESTION = 1 << 16  # bytes that a socket takes at once


class Site:
    """What is answered under which address."""

    def __init__(self, library: Library, rooms: Rooms) -> None:
        self.library, self.rooms = library, rooms
        self.files = {file.name: file.read_bytes() for file in STATIC.iterdir() if file.is_file()}

    async def page(self, request: Request) -> Response:
        """Send the page itself."""
        return Response(self.files["index.html"], media_type=KINDS[".html"])

    async def file(self, request: Request) -> Response:
        """Send a file of the page, by its name among those that are there."""
        name = request.path_params["name"]
        if name not in self.files:
            return JSONResponse({"message": "there is no such file"}, 404)
        return Response(self.files[name], media_type=KINDS[Path(name).suffix])

    async def sources(self, request: Request) -> Response:
        """List what there is to see."""
        return await _answer(lambda: [describe(source) for source in self.library.sources()])

    async def trace(self, request: Request) -> Response:
        """Describe a recording."""
        asked = request.path_params
        return await _answer(lambda: open_trace(self._trace(asked)))

    async def trial(self, request: Request) -> Response:
        """Send one recorded trial."""
        asked = request.path_params
        return await _answer(lambda: open_trial(self._trace(asked), asked["task"], asked["trial"]))

    async def live(self, page: WebSocket) -> None:
        """Host a live run."""
        await self.rooms.host(page, Conversation(self.library))

    def _trace(self, asked: dict[str, Any]) -> Path:
        return self.library.trace(asked["source"], asked["number"])

    def routes(self) -> list[Route | WebSocketRoute]:
        """Say which address is answered by what."""
        trace = "/api/sources/{source}/traces/{number:int}"
        return [
            Route("/", self.page),
            Route("/static/{name}", self.file),
            Route("/api/sources", self.sources),
            Route(trace, self.trace),
            Route(f"{trace}/tasks/{{task:int}}/trials/{{trial:int}}", self.trial),
            WebSocketRoute("/api/live", self.live),
        ]


def build_app(library: Library, key: Key, rooms: Rooms | None = None) -> Starlette:
    """Build the application that serves one library behind one key."""
    site = Site(library, rooms or Rooms())
    return Starlette(routes=site.routes(), middleware=[Middleware(Guard, key=key)])


async def _answer(work: Callable[[], Any]) -> Response:
    """Do some work beside the event loop and send what comes of it, or why nothing does."""
    try:
        return JSONResponse(await run_in_threadpool(work))
    except KeyError as error:
        return JSONResponse({"message": str(error)}, 404)
    except (ValueError, OSError) as error:
        return JSONResponse({"message": str(error)}, 422)


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


def serve(library: Library, listener: socket.socket, announce: Callable[[str], None]) -> None:
    """Serve a library until interrupted, and say under which address."""
    key = Key(listener.getsockname()[1])
    config = uvicorn.Config(
        build_app(library, key),
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        ws_max_size=LONGEST_QUESTION,
    )
    announce(key.address)
    uvicorn.Server(config).run(sockets=[listener])
