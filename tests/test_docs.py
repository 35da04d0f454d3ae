"""The pages say what is: their tables, code and commands, and the names that they cite."""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from radt.cli import MENU, Menu, parse
from radt.commands.flags import Verb
from radt.memory.index import INDEXES, faiss_indexes
from radt.methods import METHODS
from radt.registry import REGISTRIES, UnknownNameError
from radt.runs.options import all_options
from tests.contracts import embedder as embedder_contract
from tests.contracts import encoder as encoder_contract
from tests.contracts import index as index_contract
from tests.contracts import method as method_contract
from tests.pages import PAGES, ROOT, blocks, commands_of, name_of, run_page, spans_of
from tests.toys import TOY_GRID

PROVEN = {  # pages whose code is not only run
    *("concepts", "own-dataset", "own-embedder", "own-encoder", "own-index", "own-method"),
}
WITH_CODE = {page.stem: page for page in PAGES if blocks(page, "python")}
DOTTED = re.compile(r"radt(\.\w+)+")
OPTION = re.compile(r"(options|embedder|learn|evaluate|exploration)(\.\w+)+(=.*)?")
EQUATION = re.compile(r"^### Eq\. (\d): .*?(?=^#|\Z)", re.DOTALL | re.MULTILINE)


def test_tables_of_the_pages_are_those_of_the_results() -> None:
    found = subprocess.run(
        [sys.executable, ROOT / "scripts/tables.py", "--check"], capture_output=True, text=True
    )
    assert found.returncode == 0, found.stdout


@pytest.fixture
def page(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run a page's code in an empty folder."""
    monkeypatch.setenv("RADT_HOME", str(tmp_path / "data"))
    return run_page(WITH_CODE[request.param], tmp_path, monkeypatch)


@pytest.mark.parametrize("page", sorted(WITH_CODE.keys() - PROVEN), indirect=True)
def test_the_code_of_a_page_runs(page: Any) -> None:
    assert page.__file__


@pytest.mark.parametrize("page", ["concepts"], indirect=True)
def test_the_numbers_of_the_concepts_are_right(page: Any) -> None:
    assert page.found.ids.tolist() == [[0, 2, 3]]
    assert page.found.relevance[0].tolist() == pytest.approx([0.995, 0.856, 0.677], abs=1e-3)
    assert page.choice.score[0].tolist() == pytest.approx([1.0, 1.56, 1.0], abs=1e-2)
    assert page.choice.chosen.tolist() == [[2]]


@pytest.mark.parametrize("page", ["own-dataset"], indirect=True)
def test_logs_of_ones_own_become_a_dataset(page: Any) -> None:
    assert page.dataset.tasks == page.suite.train_tasks[:8]
    assert page.dataset.manifest.source == "npz"
    assert len(page.dataset) == len(page.logs) == 24


@pytest.mark.parametrize("page", ["own-encoder"], indirect=True)
def test_an_encoder_of_ones_own_keeps_the_contract(page: Any) -> None:
    assert isinstance(page.model.embed.state, page.TwoLayers)
    encoder_contract.check_shapes(page.spaces, "two-layers")
    encoder_contract.check_each_state_on_its_own(page.spaces, "two-layers")
    encoder_contract.check_tells_states_apart(page.spaces, "two-layers")
    encoder_contract.check_takes_states_as_stored(page.spaces, "two-layers")
    encoder_contract.check_learns(page.spaces, "two-layers")
    with pytest.raises(ValueError, match="discrete"):
        page.TwoLayers(TOY_GRID.spaces.state, 8)


@pytest.mark.parametrize("page", ["own-embedder"], indirect=True)
def test_an_embedder_of_ones_own_keeps_the_contract(page: Any) -> None:
    spaces = TOY_GRID.spaces
    one, other, same = (page.RandomFeatures(spaces, page.RandomOptions(), n) for n in (0, 1, 0))
    embedder_contract.check_vectors(one, spaces)
    embedder_contract.check_batch_size(one, spaces)
    embedder_contract.check_padding(one, spaces)
    embedder_contract.check_last_action_is_unknown(one, spaces)
    embedder_contract.check_dropping_states(one, spaces)
    embedder_contract.check_fingerprint(one, other, same)
    assert page.found.relevance[0, 0] == 1
    assert METHODS["ra-dt-random"].embedder == "random"


@pytest.mark.parametrize("page", ["own-index"], indirect=True)
def test_an_index_of_ones_own_keeps_the_contract(
    page: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert page.rough.finder is not None
    assert page.share >= 0.9
    monkeypatch.setattr(page, "SMALLEST", 16)  # so that small tests go through a finder
    monkeypatch.setattr(faiss_indexes, "BLOCK", 16)
    for check in index_contract.CHECKS:
        check(INDEXES["sketches"])


@pytest.mark.parametrize("page", ["own-method"], indirect=True)
def test_a_method_of_ones_own_keeps_the_contract(page: Any, tmp_path: Path) -> None:
    assert page.returns.shape == (20, 12)
    assert page.returns[:, -1].mean() > page.returns[:, 0].mean() + 20
    method_contract.check_acting("best-return", TOY_GRID, tmp_path)


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_the_commands_of_a_page_can_be_given(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in commands_of(path):
        try:
            parse(words)
        except (SystemExit, UnknownNameError) as error:
            pytest.fail(f"radt {' '.join(words)}: {error}\n{capsys.readouterr()}")


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_the_verbs_and_flags_that_a_page_mentions_exist(path: Path) -> None:
    spans = [span.split()[1:] for span in spans_of(path) if span.startswith("radt ")]
    unknown = [" ".join(words) for words in spans if not is_known(words)]
    assert unknown == []


def is_known(words: list[str]) -> bool:
    """Tell whether words as in `evaluate RUN --trials N` name a verb and flags that it has."""
    menu: Menu | type[Verb] | None = MENU
    for at, word in enumerate(words):
        if not isinstance(menu, Menu) or word.startswith("--"):
            flags = {word.partition("=")[0] for word in words[at:] if word.startswith("--")}
            return flags <= flags_of(tuple(words[:at]))
        if word.isupper():  # any of them
            return True
        menu = menu.verbs.get(word.rstrip(","))
        if menu is None:
            return False
    return True


@cache
def flags_of(verb: tuple[str, ...]) -> set[str]:
    """Read a verb's flags from its help."""
    with contextlib.redirect_stdout(io.StringIO()) as shown, contextlib.suppress(SystemExit):
        parse([*verb, "--help"])
    return {*re.findall(r"--[a-z][a-z0-9-]*", shown.getvalue()), "--version"}


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_the_names_that_a_page_cites_can_be_imported(path: Path) -> None:
    groups = {f"radt.{registry.kind}" for registry in REGISTRIES}  # of entry points
    cited = {span for span in spans_of(path) if DOTTED.fullmatch(span)} - groups
    assert [name for name in sorted(cited) if not resolves(name)] == []


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_the_options_that_a_page_cites_exist(path: Path) -> None:
    known = [f"{one.path}." for one in all_options()]
    cited = {span.partition("=")[0] for span in spans_of(path) if OPTION.fullmatch(span)}
    unknown = [name for name in cited if not any(one.startswith(f"{name}.") for one in known)]
    assert [name for name in unknown if not name.endswith(".py")] == []


def resolves(name: str) -> bool:
    """Tell whether a dotted name leads from module to attribute to attribute."""
    found, rest = located(name)
    for part in rest:
        found = getattr(found, part, None)
    return found is not None


def located(name: str) -> tuple[Any, list[str]]:
    """Import the longest part of a dotted name that is a module; return it and what is left."""
    parts = name.split(".")
    for length in range(len(parts), 1, -1):
        with contextlib.suppress(ModuleNotFoundError):
            return importlib.import_module(".".join(parts[:length])), parts[length:]
    return importlib.import_module(parts[0]), parts[1:]


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_the_tests_that_a_page_points_to_are_there(path: Path) -> None:
    cited = [span for span in spans_of(path) if re.fullmatch(r"tests/[\w/]+\.py", span)]
    assert [file for file in cited if not (ROOT / file).is_file()] == []


def test_every_equation_and_algorithm_has_its_function() -> None:
    text = (ROOT / "docs/concepts.md").read_text(encoding="utf-8")
    sections = {int(found[1]): found[0] for found in EQUATION.finditer(text)}
    assert sorted(sections) == [1, 2, 3, 4, 5, 6]  # all that the paper numbers
    for number, section in sections.items():
        first = re.search(r"`(radt\.[\w.]+)`", section)
        assert first is not None
        assert number in equations_of(first[1]), f"{first[1]} does not say that it is Eq. {number}"
    for name in ("radt.icl.in_context_learning", "radt.learn.learn"):  # Algorithms 1 and 2
        assert f"`{name}`" in text


def equations_of(name: str) -> set[int]:
    """Return the equations that the module of a name claims for itself."""
    source = Path(located(name)[0].__file__).read_text(encoding="utf-8")
    lists = re.findall(r"Eq\. (\d(?:(?:, | and )\d)*)", source)
    return {int(digit) for found in lists for digit in re.findall(r"\d", found)}
