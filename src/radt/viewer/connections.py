"""Bounds on what strangers can cost the viewer: connections, time for headers, lines of log."""

from __future__ import annotations

import asyncio
import logging
import time

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_CONNECTIONS = 128
HEADER_SECONDS = 10.0
MOST_LINES, LOG_SECONDS = 20, 60.0
LOGGERS = ("radt.viewer", "uvicorn.error", "asyncio")


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


def bound_logs() -> None:
    """Bound what the server writes to the terminal."""
    bounded = BoundedLog()
    for name in LOGGERS:
        logging.getLogger(name).addFilter(bounded)
