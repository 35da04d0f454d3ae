"""The paper's claims by their numbers, and the table of what came of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from radt.decode import decode, read_json
from radt.experiments.experiment import EXPERIMENTS, WORDS, Verdict, summed_up


@dataclass(frozen=True)
class Claim:
    """What the paper says, where, and its figure."""

    section: str
    says: str
    figure: str = "curves"


CLAIMS = {
    "C1": Claim(
        "4.1",
        "Dark-Room 10x10: RA-DT ends near the optimum, above AD, DPT and DT",
        "near the optimum after 40 trials; AD and DPT rise slowly, DT is flat",
    ),
    "C2": Claim("4.1", "the same ranking on 20x20 and 40x20, where RA-DT is not optimal"),
    "C3": Claim(
        "4.2",
        "Key-Door: the same ranking on 10x10 and 20x20; on 40x20 the domain-agnostic one is ahead",
    ),
    "C4": Claim("4.1", "the domain-agnostic embedder is close to the other", "both near-optimal"),
    "C5": Claim(
        "4.3",
        "MazeRunner: RA-DT is best, and the only one to improve over 30 trials",
        "0.65 in training mazes, 0.4 in unseen ones",
    ),
    "C6": Claim(
        "4.4",
        "Meta-World: RA-DT has the highest mean on ML5, DT on ML45; no improvement in context",
        "337.9; DT 195.7, AD 192.9, DPT 127.2",
    ),
    "C7": Claim(
        "4.4",
        "DMControl: RA-DT has the highest mean on DMC5; no improvement in context",
        "444.0; DT 311.4, DPT 282.7, AD 154.6",
    ),
    "C8": Claim(
        "4.5",
        "Procgen: RA-DT has the highest mean in all three settings; no improvement in context",
        "7.64 / 4.68 / 2.15; DT 6.96 / 3.95 / 1.33",
    ),
    "C9": Claim(
        "4.6", "training contexts: retrieved ones beat the own task's, these beat those of any task"
    ),
    "C10": Claim("4.6", "reweighting by task at training is critical"),
    "C11": Claim("4.6", "a range of alpha does well at training and at inference; 0 does not"),
    "C12": Claim("D.3", "regularisers of retrieval help, deduplication most"),
    "C13": Claim("D.4", "the mean over state tokens is the best query"),
    "C14": Claim("D.5", "one cross-attention at the bottom is as good as all; upper ones hurt"),
    "C15": Claim("D.6", "retrieving every 25 steps costs little"),
    "C16": Claim("D.7", "RA-DT trains faster than the baselines on 40x20", "almost 7 times"),
    "C17": Claim(
        "D.8", "inference is slightly slower with t = 1, no slower with t = 25; fusion matters"
    ),
    "C18": Claim("D.9", "encoders beat the decoder, full language models beat distilled ones"),
    "C19": Claim("D.10, D.11", "AD needs K near 100; AD and DPT get there in 200 trials"),
}
AGAIN = "delete it, and `radt reproduce` writes it again from the records"
HEAD = ("claim", "section", "the paper", "its figure", "entry", "verdict", "ours")


def verdicts(results: Path) -> Iterator[tuple[str, str, Verdict]]:
    """Read what came of each claim, entry by entry; one without an entry is open."""
    for number in CLAIMS:
        entries = [name for name in EXPERIMENTS.names() if number in EXPERIMENTS[name].claims]
        for name in entries:
            file = results / name / "result.json"
            content = read_json(file, dict[str, Any], AGAIN) if file.exists() else {}
            told = decode(dict[str, Verdict], content.get("claims", {}), f"{file}: claims")
            known = told.get(number)
            yield number, name, known or EXPERIMENTS[name].judged([])[number]
        if not entries:
            yield number, "", Verdict("open", "there is no entry yet")


def claims_table(results: Path) -> str:
    """Write what came of each claim as a Markdown table."""
    lines = [HEAD, ("---",) * len(HEAD)]
    for number, name, verdict in verdicts(results):
        claim, entry = CLAIMS[number], f"`{name}`" if name else "-"
        said = (number, claim.section, claim.says, claim.figure)
        lines.append((*said, entry, f"**{verdict.word}**", verdict.why.replace("|", "/")))
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def entry_claims(name: str, results: Path) -> str:
    """Say what an entry tests, what came of it, and the command that measures it."""
    own = [(number, told) for number, entry, told in verdicts(results) if entry == name]
    lines = [
        f"- **{number}**, section {CLAIMS[number].section}: {CLAIMS[number].says} (its figure: "
        f"{CLAIMS[number].figure}). Verdict: **{told.word}**, {told.why}."
        for number, told in own
    ]
    command = f"`radt reproduce {name}`"
    if (results / name / "result.md").exists():
        command = f"[{command}](../../results/{name}/result.md), where all rows are by all rules"
    return "\n".join([*lines, f"- Command: {command}."]) + "\n"


def claims_summary(results: Path) -> str:
    """Say in a line which claims hold; one with several entries holds if all of them say so."""
    by_claim: dict[str, dict[str, Verdict]] = {}
    for number, entry, verdict in verdicts(results):
        by_claim.setdefault(number, {})[entry] = verdict
    words = {number: summed_up(of_entries).word for number, of_entries in by_claim.items()}
    known = {word: [number for number in words if words[number] == word] for word in WORDS}
    told = [f"*{word}* {', '.join(numbers)}" for word, numbers in known.items() if numbers]
    return f"Verdicts on the paper's claims so far, at laptop budget: {'; '.join(told)}.\n"
