"""Who may talk to the viewer: this machine's own page, with a secret, and nobody else.

Any page in the user's browser can send requests to 127.0.0.1, and a name of an attacker's can be
made to point there. So every request must name our host, come from our own origin if it names one,
and carry a cookie that only the address with the secret token is exchanged for. Browsers send the
cookies of a host to all of its ports, but only below their path: ours is a secret, too.
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass, field

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
WELCOME = """<!doctype html>
<title>radt view</title>
<script src="static/enter.js"></script>
<p><a href="./">Go on to the page</a></p>
"""
LOCKED = "This page needs its key: open the address that `radt view` printed in the terminal.\n"


@dataclass(frozen=True)
class Key:
    """The secrets of one server: what opens it, and what stays in the browser afterwards."""

    port: int
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    cookie: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    path: str = field(default_factory=lambda: f"/{secrets.token_urlsafe(16)}")  # of all we serve

    @property
    def address(self) -> str:
        """The address that a user opens."""
        return f"http://127.0.0.1:{self.port}{self.path}/?token={self.token}"

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names under which the server may be asked."""
        return f"127.0.0.1:{self.port}", f"localhost:{self.port}"

    @property
    def cookie_name(self) -> str:
        """A name of its own for each port, as browsers share cookies between ports."""
        return f"radt_view_{self.port}"


class Guard:
    """Stands before an application and lets only our own page in, on HTTP and on WebSockets."""

    def __init__(self, app: ASGIApp, key: Key) -> None:
        self.app, self.key = app, key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer what is not allowed, and hand on the rest."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        connection = HTTPConnection(scope)
        refusal = self._refusal(connection) or self._entrance(connection)
        if refusal is None:
            await self.app(scope, receive, with_headers(send))
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008, "reason": "not allowed"})
        else:
            await refusal(scope, receive, with_headers(send))

    def _refusal(self, connection: HTTPConnection) -> Response | None:
        """Refuse other hosts, other origins and other methods."""
        headers, kind = connection.headers, connection.scope["type"]
        if not _is_one(headers, "host", self.key.hosts):
            return refused("unknown host\n", 421)
        origins = tuple(f"http://{host}" for host in self.key.hosts)
        named = bool(headers.getlist("origin"))
        if (named or kind == "websocket") and not _is_one(headers, "origin", origins):
            return refused("another origin\n", 403)
        if kind == "http" and connection.scope["method"] not in ("GET", "HEAD"):
            return refused("only reading is possible\n", 405)
        return None

    def _entrance(self, connection: HTTPConnection) -> Response | None:
        """Exchange the token for the cookie, and refuse whoever has neither."""
        door, token = f"{self.key.path}/", connection.query_params.get("token")
        if connection.url.path == door and _is_secret(token, self.key.token):
            return self._welcome()
        if _is_secret(connection.cookies.get(self.key.cookie_name), self.key.cookie):
            return None
        return refused(LOCKED, 401)

    def _welcome(self) -> Response:
        """Set the cookie and let the browser go on from here.

        A redirect would not do: who follows a link from elsewhere sends no strict cookie on it.
        """
        response = HTMLResponse(WELCOME)
        response.set_cookie(
            self.key.cookie_name,
            self.key.cookie,
            httponly=True,
            samesite="strict",
            path=f"{self.key.path}/",
        )
        return response


def refused(text: str, status: int) -> Response:
    """Answer a stranger and hang up: no place is held, whatever else is being sent."""
    return PlainTextResponse(text, status, {"Connection": "close"})


def with_headers(send: Send) -> Send:
    """Add what every answer says about itself."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
        await send(message)

    return sending


def _is_secret(given: str | None, secret: str) -> bool:
    """Compare without telling by the time it takes."""
    return hmac.compare_digest((given or "").encode(), secret.encode())


def _is_one(headers: Headers, name: str, allowed: tuple[str, ...]) -> bool:
    """Whether a header is given exactly once and is one of the allowed."""
    given = headers.getlist(name)
    return len(given) == 1 and given[0].lower() in allowed
