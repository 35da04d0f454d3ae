"""The live runs of all pages: a bounded number, computed one after the other in one thread."""

from __future__ import annotations

import asyncio
import json
import logging
from concurrent.futures import ThreadPoolExecutor

from starlette.websockets import WebSocket, WebSocketDisconnect

from radt.viewer.conversation import Conversation

MOST_LIVE = 16
IDLE_SECONDS = 600.0
TRY_LATER, UNSUPPORTED = 1013, 1003  # codes with which a socket is closed

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
