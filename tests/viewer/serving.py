"""A small library of runs, and a real server for it, for the tests of the viewer."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import uvicorn

from radt.agent import Agent, Target
from radt.checkpoint import save_checkpoint
from radt.envs.dark_room import DarkRoomSuite, Room
from radt.envs.suite import TaskSuite
from radt.icl import in_context_learning
from radt.runs.trace import tracing
from radt.viewer.library import Library
from radt.viewer.security import Key
from radt.viewer.server import Rooms, build_app, configured, listen
from tests.contracts.method import build_method, card_of

SCRIPT = "<script>document.title='broken'</script>"
IMAGE = "<img src=x onerror=\"document.title='broken'\">"


@dataclass(frozen=True)
class Scripted(DarkRoomSuite):
    """A room whose tasks have dangerous names."""

    def describe(self, task: int) -> str:
        return f"{SCRIPT} {IMAGE} {task}"


SCRIPTED = Scripted(
    "scripted", Room(4, 3), (9.0, 1.0), trials=3, train_tasks=(0, 1, 2, 3), eval_tasks=(4, 5)
)


def write_run(folder: Path, suite: TaskSuite = SCRIPTED, method: str = "ra-dt") -> Path:
    """Write the weights of an untrained method, and a trace of what it lived through."""
    made = build_method(method, suite.spaces)
    save_checkpoint(
        folder / "model.safetensors", made, replace(card_of(made, method), env=suite.name)
    )
    env = suite.make_vec(suite.eval_tasks)
    agent = Agent(
        made,
        Target(*suite.target_return),
        slots=len(suite.eval_tasks),
        autoreset_mode=env.metadata["autoreset_mode"],
        tasks=suite.eval_tasks,
    )
    with closing(env), tracing(folder / "trace.jsonl", suite.name, method) as trace:
        assert trace is not None
        in_context_learning(agent, env, 3, seed=0, after_step=trace.after_step)
    return folder


@contextmanager
def serving(folder: Path | None, rooms: Rooms | None = None) -> Iterator[Key]:
    """Serve a folder in a thread and hand over the key to it."""
    listener = listen(0)
    key = Key(listener.getsockname()[1])
    server = uvicorn.Server(configured(build_app(Library(folder), key, rooms)))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.01)
    try:
        yield key
    finally:
        server.should_exit = True
        thread.join(timeout=30)
        listener.close()
