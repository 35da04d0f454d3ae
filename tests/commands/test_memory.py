"""`radt memory`: every verb, from demonstrations to a repaired folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from radt import cli
from radt.checkpoint import save_checkpoint
from radt.loading import load
from radt.memory.demonstrations import as_task, write_npz
from tests.contracts.method import build_method, card_of, toy_dataset
from tests.memory.postgres import needs_server, place, running_server
from tests.memory.stores import some_trajectories
from tests.toys import TOY_GRID, TOY_REACH


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two agents for one grid, with different embedders, and one for another environment."""
    folder = tmp_path_factory.mktemp("runs")
    for name, suite in (("a", TOY_GRID), ("b", TOY_GRID), ("other", TOY_REACH)):
        method = build_method("ra-dt", suite.spaces)
        if name == "b":
            for weight in method.networks["embedder"].parameters():
                torch.nn.init.normal_(weight)
        save_checkpoint(folder / f"{name}.safetensors", method, card_of(method, "ra-dt"))
    method = build_method("dt", TOY_GRID.spaces)
    save_checkpoint(folder / "dt.safetensors", method, card_of(method, "dt"))
    toy_dataset(TOY_GRID, folder / "data")
    write_npz(folder / "mine.npz", some_trajectories(TOY_GRID))
    return folder


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Give a command about memories and return its JSON, or its error."""
    monkeypatch.setenv("COLUMNS", "1000")
    monkeypatch.delenv("RADT_DEBUG", raising=False)

    def given(*words: object, fails: bool = False) -> Any:
        code = cli.main(["memory", *map(str, words), "--json"])
        printed = capsys.readouterr()
        assert code == (2 if fails else 0), printed.err
        return printed.err.replace("\n", " ") if fails else json.loads(printed.out)

    return given


def test_from_demonstrations_to_another_embedder(runs: Path, tmp_path: Path, say: Any) -> None:
    folder, run = tmp_path / "m", runs / "a.safetensors"
    done = say("import", folder, runs / "data", "--run", run, "--best", 2, "--tasks", 1, 3)
    assert done["added"] == done["entries"] == 2 * 2 * 3
    info = say("info", folder)
    assert (info["entries"], info["tasks"], info["episodes"], info["writes"]) == (12, 2, 4, 1)
    done = say("import", folder, runs / "mine.npz", "--run", run, "--as-task", 85)
    assert done == {"folder": str(folder), "added": 10, "entries": 22}
    assert say("verify", folder)["whole"] == 22
    with load(run).memory(folder, writing=False) as memory:
        before = memory.contents()
        assert before.entries.task.unique().tolist() == [1, 3, 85]
    assert say("export", folder, tmp_path / "out")["entries"] == 22
    assert say("import", tmp_path / "copy", tmp_path / "out")["entries"] == 22
    assert say("import", tmp_path / "copy", folder)["entries"] == 44
    assert say("re-embed", folder, "--run", runs / "b.safetensors")["entries"] == 22
    assert say("compact", folder)["entries"] == 22
    error = say("import", folder, runs / "mine.npz", "--run", run, fails=True)
    assert "was written with another embedder" in error
    with load(runs / "b.safetensors").memory(folder) as memory:
        after = memory.contents()
        again = memory.at("ram:")
        again.write(some_trajectories(TOY_GRID))
    assert torch.equal(after.chunks.states, before.chunks.states)
    assert not torch.allclose(after.keys, before.keys)
    torch.testing.assert_close(after.keys[12:], again.keys, rtol=0, atol=1e-5)
    say("re-embed", folder, "--run", run)
    with load(run).memory(folder) as memory:
        torch.testing.assert_close(memory.keys, before.keys, rtol=0, atol=1e-5)


def test_files_are_looked_into_as_folders_are(runs: Path, tmp_path: Path, say: Any) -> None:
    loaded = load(runs / "a.safetensors")
    shown = as_task(some_trajectories(TOY_GRID), 85)
    agent = loaded.agent(tasks=[85], memory=tmp_path / "m", demonstrations=shown)
    agent.save(tmp_path / "agent")
    agent.memory.close()
    say("export", tmp_path / "m", tmp_path / "out")
    folder, saved, out = (say("info", tmp_path / name) for name in ("m", "agent", "out"))
    assert (saved["tasks_of_slots"], saved["trials_of_slots"]) == ([85], [0])
    for name in ("entries", "episodes", "return_mean", "returns_of", "embedder", "task_numbers"):
        assert folder[name] == saved[name] == out[name]
    assert (folder["returns_of"], folder["task_numbers"]) == ("episodes", "85")
    returns = [each.total_return for each in some_trajectories(TOY_GRID)]
    assert folder["return_mean"] == pytest.approx(sum(returns) / len(returns), abs=1e-4)
    (tmp_path / "out").rename(tmp_path / "out.npz")  # an exported file, whatever it is called
    assert say("import", tmp_path / "copy", tmp_path / "out.npz")["added"] == folder["entries"]
    (tmp_path / "no").write_bytes(b"no memory")
    assert "no safetensors file" in say("info", tmp_path / "no", fails=True)


def test_a_damaged_memory_is_named_and_repaired(runs: Path, tmp_path: Path, say: Any) -> None:
    folder = tmp_path / "m"
    say("import", folder, runs / "data", "--run", runs / "a.safetensors")
    assert say("repair", folder)["aside"] == ""
    path = folder / "entries-000001.sqlite3"
    content = bytearray(path.read_bytes())
    content[-300] ^= 255
    path.write_bytes(content)
    assert "is damaged, 59 entries are whole. 1 entries are lost" in say(
        "verify", folder, fails=True
    )
    done = say("repair", folder)
    assert (done["kept"], len(done["lost"])) == (59, 1)
    assert say("verify", folder)["whole"] == 59


def test_mistakes_are_answered_in_one_line(runs: Path, tmp_path: Path, say: Any) -> None:
    folder, run = tmp_path / "m", runs / "a.safetensors"
    for verb in ("info", "verify", "repair", "compact"):
        assert "there is no memory in" in say(verb, folder, fails=True)
    assert not folder.exists()
    assert "say whose with --run" in say("import", folder, runs / "data", fails=True)
    error = say("import", folder, runs / "data", "--run", runs / "dt.safetensors", fails=True)
    assert "which has no memory" in error
    error = say("import", folder, runs / "data", "--run", runs / "other.safetensors", fails=True)
    assert "has other spaces" in error
    assert "neither the folder" in say("import", folder, "nowhere", "--run", run, fails=True)
    say("import", tmp_path / "n", runs / "data", "--run", run)
    error = say("re-embed", tmp_path / "n", "--run", runs / "other.safetensors", fails=True)
    assert "was written with another spaces" in error
    (tmp_path / "text").write_text("no memory")
    error = say("import", tmp_path / "n", tmp_path / "text", fails=True)
    assert "is damaged" in error


def test_people_get_sentences(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(tmp_path / "m")
    words = ["import", folder, str(runs / "mine.npz"), "--run", str(runs / "a.safetensors")]
    for rest in (words, ["info", folder], ["verify", folder], ["compact", folder]):
        assert cli.main(["memory", *rest]) == 0
    said = capsys.readouterr().out
    assert "10 entries are added, 10 are there now" in said
    assert "is whole: 10 entries" in said
    assert "return best" in said


@needs_server
def test_a_memory_on_a_server(runs: Path, tmp_path: Path, say: Any) -> None:
    room, run = place(tmp_path), runs / "a.safetensors"
    assert say("import", room, runs / "mine.npz", "--run", run)["entries"] == 10
    info = say("info", room)
    assert (info["folder"], info["entries"], info["writes"]) == (room, 10, 1)
    assert info["bytes"] > 10_000
    assert say("verify", room)["whole"] == 10
    assert say("export", room, tmp_path / "out")["entries"] == 10
    assert say("import", tmp_path / "copy", tmp_path / "out")["entries"] == 10
    with load(run).memory(room) as there, load(run).memory(tmp_path / "copy") as copy:
        ours, theirs = copy.contents(), there.contents()
        assert torch.equal(ours.keys, theirs.keys)
        assert torch.equal(ours.chunks.states, theirs.chunks.states)
        there.forget(torch.tensor([0]))
    left = say("verify", room)["whole"]
    assert 0 < left < 10
    assert "back from a backup" in say("repair", room, fails=True)
    assert "VACUUM FULL" in say("compact", room, fails=True)
    assert "with another name" in say("re-embed", room, "--run", run, fails=True)


@needs_server
def test_damage_on_a_server_is_found(runs: Path, tmp_path: Path, say: Any) -> None:
    room = place(tmp_path)
    say("import", room, runs / "mine.npz", "--run", runs / "a.safetensors")
    schema = f'"{room.replace("postgres:", "radt_")}"'
    admin = running_server().admin
    admin(f"UPDATE {schema}.entries SET content = content || '\\x00' WHERE id = 3")
    assert "entry 3 is damaged" in say("export", room, tmp_path / "out", fails=True)
    assert not (tmp_path / "out").exists()
    admin(
        f"DELETE FROM {schema}.entries WHERE id = 4",
        f"UPDATE {schema}.directions SET task = 9 WHERE id = 5",
    )
    said = say("verify", room, fails=True)
    assert "is damaged, 8 entries are whole. 2 entries are lost or damaged: 3, 4" in said
    assert "entries 5 are searched by other keys than theirs" in said
    assert "back from a backup" in said
    assert "there is no such memory" in say("verify", "postgres:nothing-here", fails=True)


def test_a_servers_name_is_not_repeated_where_it_may_be_an_address(say: Any) -> None:
    for verb in ("info", "verify", "repair", "compact"):
        said = say(verb, "postgres://agent:hush@db/memories", fails=True)
        assert "is named as in postgres:room" in said
        assert "hush" not in said
