"""Every claim of the paper on grid-worlds has its entry, and entries can be run at every budget."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from radt.experiments import EXPERIMENTS
from radt.experiments.experiment import WORDS
from radt.experiments.reproduce import Where, comparisons
from scripts.claims import CLAIMS, claims_summary, claims_table

CLAIMED = {
    **dict.fromkeys(("C1", "C2", "C4"), ("dark-room",)),
    "C3": ("key-door",),
    "C5": ("mazerunner",),
    "C9": ("ablate-context",),
    "C10": ("ablate-reweighting",),
    "C11": ("ablate-alpha-eval", "ablate-alpha-train"),
    "C12": ("ablate-regularisers",),
    "C13": ("ablate-query-tokens",),
    "C14": ("ablate-cross-attention",),
    "C15": ("ablate-retrieval-interval",),
    "C16": ("efficiency-train",),
    "C17": ("efficiency-inference",),
    "C18": ("ablate-language-model",),
    "C19": ("200-trials", "ad-gap"),
}


@pytest.mark.parametrize("claim", CLAIMED)
def test_every_claim_has_its_entry(claim: str) -> None:
    made = [name for name in EXPERIMENTS.names() if claim in EXPERIMENTS[name].claims]
    assert tuple(made) == CLAIMED[claim]


@pytest.mark.parametrize("budget", ["smoke", "laptop"])
@pytest.mark.parametrize("name", EXPERIMENTS.names())
def test_every_entry_composes(name: str, budget: str, tmp_path: Path) -> None:
    where = Where(budget=budget, out=tmp_path, results=tmp_path)  # type: ignore[arg-type]
    for comparison in comparisons(EXPERIMENTS[name], where):
        labels = [row.label for row in comparison.rows]
        assert len(set(labels)) == len(labels)


@pytest.mark.parametrize("name", EXPERIMENTS.names())
def test_what_was_never_measured_is_open(name: str) -> None:
    for verdict in EXPERIMENTS[name].judged([]).values():
        assert verdict.word == "open"
        assert verdict.word in WORDS


def test_the_table_of_claims_is_that_of_the_results(tmp_path: Path) -> None:
    verdict = {"word": "does not", "why": "ad is 3.0 above ra-dt | on eval"}
    (tmp_path / "key-door").mkdir()
    (tmp_path / "key-door" / "result.json").write_text(json.dumps({"claims": {"C3": verdict}}))
    lines = claims_table(tmp_path).splitlines()[2:]
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    assert {len(line) for line in cells} == {7}
    assert list(dict.fromkeys(line[0] for line in cells)) == [f"C{n}" for n in range(1, 20)]
    told = {(line[0], line[4]): line[5:] for line in cells}
    assert told["C3", "`key-door`"] == ["**does not**", "ad is 3.0 above ra-dt / on eval"]
    assert all(line[0] == "**open**" for key, line in told.items() if key[0] != "C3")
    assert "*does not* C3; *open* C1, C2, C4, C5" in claims_summary(tmp_path)


def test_every_claim_of_an_entry_is_in_the_table() -> None:
    every = {claim for name in EXPERIMENTS.names() for claim in EXPERIMENTS[name].claims}
    assert every <= {*CLAIMS}
