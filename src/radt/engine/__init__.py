"""Where jobs are done: in this process, in several of this machine, or on a Ray cluster.

    with open_engine("ray", address="127.0.0.1:6379") as engine:
        for place, news in engine.map(work, jobs): ...

Work is a function that takes a job and yields plain values (what JSON knows) while it goes on; the
last one is its result. Whose worker fails is begun again, so work must be the same each time, or
look first at what is there.
"""

from radt.engine.engine import Engine, EngineError, JobError, Work, last_words, open_engine
from radt.engine.local import LocalEngine, cores

__all__ = [
    "Engine",
    "EngineError",
    "JobError",
    "LocalEngine",
    "Work",
    "cores",
    "last_words",
    "open_engine",
]
