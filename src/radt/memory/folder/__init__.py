"""A durable memory in a folder: one process writes, any number of processes read.

    entries-000001.sqlite3   entries, keys and what the memory is; beside it SQLite's -wal and -shm
    entries-000001.json      a copy of what the memory is, should that part be damaged
    acknowledged             which database counts, and how many writes it must hold
    writer.lock              held by the writing process, which it names
    damaged/                 what a repair has put aside

A database is written to until compacting, repairing or re-embedding write the next one, which then
counts instead: a reader never sees half of it.
"""

from radt.memory.folder.store import FolderStore

__all__ = ["FolderStore"]
