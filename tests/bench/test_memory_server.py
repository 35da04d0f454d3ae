"""What a memory costs on a server: what is measured, where speed says nothing."""

from __future__ import annotations

from radt.bench.memory_server import Ask, measure_server
from radt.memory.memory import Memory, MemoryConfig
from tests.memory.postgres import needs_server, running_server
from tests.memory.toy_data import toy_embedder
from tests.toys import TOY_GRID


@needs_server
def test_a_server_is_measured_and_left_as_it_was() -> None:
    server = running_server()
    like = Memory(toy_embedder(TOY_GRID.spaces), TOY_GRID.spaces, MemoryConfig(context_len=4))
    asked = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'radt_bench%'"
    (before,) = server.admin(asked)
    measured = measure_server(like, Ask(sizes=(3, 60), reads=2))
    assert server.admin(asked) == [before]
    assert measured["entries"] == 63
    assert [cost["entries"] for cost in measured["search_in_task"]] == [3, 60]
    assert measured["disk_bytes_per_entry"] > 100
    assert measured["fsync"] == "off"
    times = ("read_chunk_p50_ms", "write_trial_p50_ms", "open_seconds")
    assert all(measured[name] > 0 for name in times)
