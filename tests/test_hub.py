"""Pushing and pulling runs and datasets: what arrives is what was sent, or nothing does."""

from __future__ import annotations

import inspect
import json
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from huggingface_hub import HfApi, hf_hub_download

import radt
from radt import cli
from radt.data import DataError, Dataset, read_manifest
from radt.hub import HubError, pull, push
from radt.hub.repository import CARD, CONTENTS, HubRepository, open_repository, redacted
from radt.plots.source import keep_data_facts
from tests.data.histories import write_dataset

TOKEN = "hf_" + "secret0123456789"
SMALL = ("collect.transitions=256", "learn.updates=4")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that is trained and evaluated."""
    root = tmp_path_factory.mktemp("hub")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RADT_HOME", str(root / "data"))
        config = radt.preset("dark-room-10x10", "dt", "smoke", *SMALL)
        radt.collect(config, workers=1)
        radt.train(config, root / "dt+-seed0", threads=1)
        radt.evaluate(config, root / "dt+-seed0")
        keep_data_facts(config, root / "dt+-seed0")
    return root / "dt+-seed0"


@pytest.fixture(scope="module")
def pushed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of three tasks, and beside it the folder that it was pushed to."""
    root = tmp_path_factory.mktemp("pushed")
    write_dataset(root / "ppo-seed3")
    push(root / "ppo-seed3", f"file:{root / 'shared'}")
    return root


@pytest.fixture
def dataset(pushed: Path, tmp_path: Path) -> Path:
    """A dataset that a test may change."""
    return Path(shutil.copytree(pushed / "ppo-seed3", tmp_path / "home" / "toy" / "ppo-seed3"))


@pytest.fixture
def shared(pushed: Path, tmp_path: Path) -> Path:
    """A folder with a pushed dataset that a test may change."""
    return Path(shutil.copytree(pushed / "shared", tmp_path / "shared"))


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_nothing_is_pushed_through_a_link(dataset: Path, shared: Path, tmp_path: Path) -> None:
    (tmp_path / "theirs").write_text("precious")
    (shared / "task-00004.h5").unlink()
    (shared / "task-00004.h5").symlink_to(tmp_path / "theirs")
    push(dataset, f"file:{shared}")
    assert (tmp_path / "theirs").read_text() == "precious"
    pull(f"file:{shared}", tmp_path / "pulled")


def test_a_run_arrives_as_it_was_sent(run: Path, tmp_path: Path) -> None:
    push(run, f"file:{tmp_path / 'shared'}", licence="apache-2.0")
    pulled = pull(f"file:{tmp_path / 'shared'}", tmp_path / "theirs")
    sent = {"model.safetensors", "config.json", "icl.json", "dataset.json"}
    assert names(pulled) == sent
    assert names(tmp_path / "shared") == sent | {CARD, CONTENTS}
    for name in sent:
        assert (pulled / name).read_bytes() == (run / name).read_bytes()
    assert radt.load(pulled).card == radt.load(run).card
    page = (tmp_path / "shared" / CARD).read_text(encoding="utf-8")
    assert page.startswith('---\nlicense: "apache-2.0"\nlibrary_name: "radt"\n')
    for told in (
        "# dt on dark-room-10x10, seed 0",
        r"earns \d+\.\d in trial 1 and \d+\.\d \[\d+\.\d, \d+\.\d\]",
        r"\| `learn.updates` \| \*\*`4`\*\* \|",
        "returns over time",
        re.escape('radt.load("runs/dt+-seed0").agent()'),
        "## Licence\n\n`apache-2.0`",
        "radt run dark-room-10x10 --method dt",
    ):
        assert re.search(told, page), told
    assert str(tmp_path) not in page


def test_a_dataset_arrives_where_commands_look_for_it(
    dataset: Path, shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RADT_HOME", str(tmp_path / "other"))
    pulled = pull(f"file:{shared}")
    assert pulled == tmp_path / "other" / "toy" / "ppo-seed3"
    assert read_manifest(pulled) == read_manifest(dataset)
    assert len(Dataset.open(pulled).episodes) == 18
    page = (shared / CARD).read_text(encoding="utf-8")
    for told in ("# Learning histories of toy", "`gamma`", "sha256", "`states`", "radt hub pull"):
        assert told in page


def test_the_commands_push_and_pull(
    dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place, out = f"file:{tmp_path / 'shared'}", tmp_path / "theirs"
    assert cli.main(["hub", "push", str(dataset), place, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kind"] == "dataset"
    assert cli.main(["hub", "pull", place, f"--out={out}", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["out"] == str(out)
    assert cli.main(["hub", "pull", f"{place}-gone"]) == 2
    assert "holds nothing that `radt hub push` has finished" in capsys.readouterr().err


def test_pulling_again_changes_nothing_and_overwrites_nothing(shared: Path, tmp_path: Path) -> None:
    out = tmp_path / "theirs"
    assert pull(f"file:{shared}", out) == pull(f"file:{shared}", out) == out
    (out / "manifest.json").write_text("mine", encoding="utf-8")
    with pytest.raises(HubError, match="holds something else; choose another --out"):
        pull(f"file:{shared}", out)
    assert (out / "manifest.json").read_text(encoding="utf-8") == "mine"


def test_pushing_again_replaces_what_was_pushed(shared: Path, tmp_path: Path) -> None:
    smaller = tmp_path / "smaller"
    write_dataset(smaller, tasks=(4,))
    push(smaller, f"file:{shared}")
    assert len(list(shared.glob("*.h5"))) == 1
    assert names(pull(f"file:{shared}", tmp_path / "theirs")) == names(smaller)


def _add(name: str, content: str = "x") -> Any:
    def add(folder: Path) -> None:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content, encoding="utf-8")

    return add


def _flip(folder: Path) -> None:
    file = sorted(folder.glob("*.h5"))[0]
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


def _edit(old: str, new: str) -> Any:
    def edit(folder: Path) -> None:
        text = (folder / CONTENTS).read_text(encoding="utf-8")
        assert old in text
        (folder / CONTENTS).write_text(text.replace(old, new, 1), encoding="utf-8")

    return edit


def _link(folder: Path) -> None:
    file = sorted(folder.glob("*.h5"))[0]
    elsewhere = folder.parent / "elsewhere.h5"
    shutil.move(file, elsewhere)
    file.symlink_to(elsewhere)


HARM = {
    "a pickle": (_add("model.pkl"), "'model.pkl', which is not expected"),
    "code": (_add("setup.py"), "'setup.py', which is not expected"),
    "a folder": (_add("more/manifest.json"), "which is not expected"),
    "a changed byte": (_flip, "not what its sha256 says; nothing was kept"),
    "a longer file": (_add("manifest.json"), "has 1 bytes and should have"),
    "a missing file": (lambda folder: sorted(folder.glob("*.h5"))[0].unlink(), "has no bytes"),
    "a link": (_link, "is a link|bytes and should have"),
    "a way out": (_edit('"manifest.json"', '"../manifest.json"'), "not a plain file name"),
    "a way out of home": (_edit('"ppo-seed3"', '"../x"'), "not a plain name"),
    "another kind": (_edit('"dataset"', '"run"'), "is no file of a run"),
    "another format": (_edit('"format": 1', '"format": 2'), "reads format 1, not 2"),
    "an unknown key": (_edit('"format": 1', '"format": 1, "run": "me"'), "unknown name 'run'"),
    "no JSON": (_add(CONTENTS, "{" * 5000), "is no repository of radt"),
    "half a push": (lambda folder: (folder / CONTENTS).unlink(), "no radt.json in it"),
}


@pytest.mark.parametrize("harm", HARM)
def test_what_was_tampered_with_is_refused_and_nothing_is_kept(
    shared: Path, tmp_path: Path, harm: str
) -> None:
    tamper, said = HARM[harm]
    tamper(shared)
    with pytest.raises(HubError, match=said):
        pull(f"file:{shared}", tmp_path / "in" / "theirs")
    assert not (tmp_path / "in").exists() or not any((tmp_path / "in").iterdir())


def test_a_dataset_that_fits_its_hashes_but_not_itself_is_refused(
    shared: Path, tmp_path: Path
) -> None:
    one, other = sorted(shared.glob("*.h5"))[:2]
    shutil.copyfile(one, other)
    told = json.loads((shared / CONTENTS).read_text(encoding="utf-8"))
    files = {file["name"]: file for file in told["files"]}
    files[other.name] |= {key: files[one.name][key] for key in ("bytes", "sha256")}
    (shared / CONTENTS).write_text(json.dumps(told), encoding="utf-8")
    with pytest.raises(DataError, match="sha256 differs"):
        pull(f"file:{shared}", tmp_path / "theirs")
    assert not (tmp_path / "theirs").exists()


def test_what_radt_has_not_pushed_is_not_replaced(dataset: Path, tmp_path: Path) -> None:
    thesis = tmp_path / "shared" / "thesis.tex"
    thesis.parent.mkdir()
    thesis.touch()
    with pytest.raises(HubError, match=r"'thesis\.tex', which is not expected"):
        push(dataset, f"file:{tmp_path / 'shared'}")
    assert names(thesis.parent) == {"thesis.tex"}


def test_what_is_unfinished_or_damaged_is_not_pushed(dataset: Path, tmp_path: Path) -> None:
    unfinished = tmp_path / "unfinished"
    unfinished.mkdir()
    with pytest.raises(HubError, match=r"there is no model\.safetensors"):
        push(unfinished, f"file:{tmp_path / 'shared'}")
    _flip(dataset)
    with pytest.raises(DataError, match="sha256 differs"):
        push(dataset, f"file:{tmp_path / 'shared'}")
    assert not (tmp_path / "shared").exists()


@pytest.mark.parametrize("licence", ["MIT License", "mit\ntags: x", ""])
def test_a_licence_is_one_word(dataset: Path, tmp_path: Path, licence: str) -> None:
    with pytest.raises(HubError, match="--license must be as the hub spells it"):
        push(dataset, f"file:{tmp_path / 'shared'}", licence)


@pytest.mark.parametrize(
    "address",
    ["name", "a/b/c", "", "https://huggingface.co/a/b", "../x", "a/..", "datasets/a", "spaces/a/b"],
)
def test_an_address_is_owner_and_name(address: str) -> None:
    with pytest.raises(HubError, match=r"OWNER/NAME.*file:FOLDER"):
        open_repository(address)


def test_an_address_says_whether_it_is_a_dataset(dataset: Path, run: Path) -> None:
    with pytest.raises(HubError, match="its address is datasets/me/toy"):
        push(dataset, "me/toy")
    with pytest.raises(HubError, match="its address is me/toy, not datasets/me/toy"):
        push(run, "datasets/me/toy")
    with pytest.raises(HubError, match="a folder has no --revision"):
        open_repository("file:x", "main")


@dataclass
class FakeHub:
    """The hub in a folder, behind the calls of its client; each must fit the real signature."""

    folder: Path
    calls: list[str]

    def module(self) -> SimpleNamespace:
        """Return what stands for huggingface_hub."""
        return SimpleNamespace(
            HfApi=lambda: self,
            hf_hub_download=self.hf_hub_download,
            CommitOperationAdd=lambda name, content: (name, content),
            CommitOperationDelete=lambda name: (name, None),
            get_token=lambda: TOKEN,
        )

    def _check(self, call: Any, *args: Any, **named: Any) -> None:
        inspect.signature(call).bind(*args, **named)
        self.calls.append(call.__name__)
        assert named["repo_type"] == "dataset"

    def create_repo(self, *args: Any, **named: Any) -> None:
        self._check(HfApi.create_repo, self, *args, **named)
        self.folder.mkdir(exist_ok=True)
        (self.folder / ".gitattributes").touch()

    def repo_info(self, *args: Any, **named: Any) -> SimpleNamespace:
        self._check(HfApi.repo_info, self, *args, **named)
        files = [
            SimpleNamespace(rfilename=path.name, size=path.stat().st_size)
            for path in self.folder.iterdir()
        ]
        return SimpleNamespace(siblings=files, sha="c0ffee")

    def create_commit(self, repo: str, operations: list[Any], **named: Any) -> None:
        self._check(HfApi.create_commit, self, repo, operations, **named)
        assert named["parent_commit"] == "c0ffee"
        for name, content in operations:
            if content is None:
                (self.folder / name).unlink()
            else:
                given = content.read_bytes() if isinstance(content, Path) else content
                (self.folder / name).write_bytes(given)

    def hf_hub_download(self, repo: str, name: str, **named: Any) -> str:
        self._check(hf_hub_download, repo, name, **named)
        assert named["revision"] == "c0ffee"
        (named["local_dir"] / ".cache").mkdir(exist_ok=True)  # as the client does
        return str(shutil.copyfile(self.folder / name, named["local_dir"] / name))


def test_the_hub_is_asked_as_its_client_wants_it(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = FakeHub(tmp_path / "hub", [])
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub.module())
    push(dataset, "datasets/me/toy", private=True)
    assert hub.calls == ["create_repo", "repo_info", "create_commit"]
    smaller = tmp_path / "smaller"
    write_dataset(smaller, tasks=(4,))
    push(smaller, "datasets/me/toy")
    pulled = pull("datasets/me/toy", tmp_path / "theirs", revision="v1")
    assert names(pulled) == names(smaller)
    assert ".gitattributes" in names(hub.folder)
    assert hub.calls.count("repo_info") == 3  # all files are of one commit


def test_a_missing_extra_is_named(dataset: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(HubError, match=r"pip install 'radt\[hub\]'.*file:FOLDER"):
        push(dataset, "datasets/me/toy")


@pytest.mark.parametrize(
    "said",
    [
        f"401 for url https://me:{TOKEN}@huggingface.co (Authorization: Bearer {TOKEN})",
        "the token swordfish is not valid",
    ],
)
def test_the_token_is_never_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], said: str
) -> None:
    def refuse() -> None:
        raise ConnectionError(f"{said}\nmore")

    token = TOKEN if TOKEN in said else "swordfish"
    module = SimpleNamespace(HfApi=refuse, get_token=lambda: token)
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)
    with pytest.raises(HubError, match=r"ConnectionError.*hf auth login") as caught:
        HubRepository("me/x", "run").sizes()
    assert caught.value.__suppress_context__
    assert cli.main(["hub", "pull", "me/x"]) == 2
    assert cli.main(["hub", "pull", f"https://me:{token}@huggingface.co/me/x"]) == 2
    shown = str(caught.value) + "".join(capsys.readouterr())
    assert token not in shown
    assert "***" in shown


def test_secrets_are_cut_out_of_texts() -> None:
    assert redacted("ask hf_abcDEF123, please") == "ask ***, please"
    assert redacted("http://me:pw@host/x") == "http://***host/x"
    assert redacted("me/x is gone") == "me/x is gone"
