"""How fast methods train and act, appendices D.7 and D.8: `radt bench` as rows with a verdict.

The model is that of the budget, the machine is the reader's: ratios are what can be compared with
the paper. Each speed is measured several times; its interval is over these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from radt.bench.common import made_up_folder
from radt.bench.decide import SELDOM, WHOLE, time_scene
from radt.bench.train import time_method
from radt.config import RunConfig
from radt.data import Dataset
from radt.envs.suite import SUITES
from radt.experiments.experiment import Measurement, Row, Study, Verdict, add, decided
from radt.experiments.rows import scored
from radt.experiments.verdicts import found
from radt.experiments.weights import write_answer

ROOMS = ("dark-room-10x10", "dark-room-20x20", "dark-room-40x20")
BASELINES = ("dt-2ep", "ad", "dpt")  # with two episodes in context
REPEATS, MICRO_BATCH, DECISIONS = 5, 4, 25
ALMOST_SEVEN = 5.0  # times: what we take for it
SLIGHTLY, EQUAL = 0.5, 0.8  # of a baseline's speed: slightly slower, no difference
MATTERS = 1.1  # times as fast


def repeats(config: RunConfig) -> int:
    """Say how often a speed is measured."""
    return 1 if config.budget == "smoke" else REPEATS


def ask_train(configs: Sequence[RunConfig], out: Path) -> None:
    """Time updates of each method on made-up histories."""
    speeds = []
    for env, group in groupby(configs, lambda config: config.env):
        same = list(group)
        with made_up_folder(SUITES[env], same[0].collect.transitions) as folder:
            dataset = Dataset.open(folder, in_memory=True)
            for config in same:
                timed = [
                    time_method(config, dataset, MICRO_BATCH, 1, "cpu")
                    for _ in range(repeats(config))
                ]
                told = [one["sequences_per_second"] for one in timed]
                speeds.append(speed_line(config.label, config.method, env, told))
    write_answer(out, {"speeds": speeds, "threads": torch.get_num_threads()})


def ask_inference(configs: Sequence[RunConfig], out: Path) -> None:
    """Time decisions of one slot with full memories, with fused attention and without."""
    speeds = []
    for config in configs[: 1 if configs[0].budget == "smoke" else None]:
        for name, backends in (("fused", None), ("unfused", [SDPBackend.MATH])):
            scenes = []
            for _ in range(repeats(config)):
                with sdpa_kernel(backends or list(SDPBackend.__members__.values())):
                    scenes.append(time_scene(config.env, config.budget, 1, DECISIONS, "cpu"))
            for timings in zip(*scenes, strict=True):  # of one contestant
                label = timings[0]["who"].replace(", ", "@").replace(" ", "-")
                told = [one["decisions_per_second"] for one in timings]
                method = label.partition("@")[0]
                speeds.append(speed_line(label, method, config.env, told, f"{name} attention"))
    write_answer(out, {"speeds": speeds, "threads": torch.get_num_threads()})


def speed_line(
    label: str, method: str, env: str, speeds: Sequence[float], condition: str = ""
) -> dict[str, Any]:
    """Put a speed on record."""
    named = {"label": label, "method": method, "env": env, "condition": condition}
    return {**named, "speeds": list(speeds)}


def rows(answer: Mapping[str, Any]) -> list[Row]:
    """Make a row of each speed: its score is sequences, or decisions, a second."""
    found = []
    for line in answer["speeds"]:
        speeds = np.array([line["speeds"]])[..., None]  # [1, measurement, 1]
        score = scored(speeds, range(speeds.shape[1]))
        nothing = {"gain": None, "gain_ci95": None, "tries": None}
        named = {name: line[name] for name in ("label", "method", "env", "condition")}
        found.append({**named, "tasks": "made-up", "rule": None, "seeds": 1, **score, **nothing})
    return found


def times_as_fast(one: Row, other: Row) -> tuple[float, float, float]:
    """Divide speeds; the bounds are those of both intervals at their worst and best."""
    (low, high), (least, most) = one["ci95"], other["ci95"]
    return one["score"] / other["score"], low / most, high / least


def trains_faster(told: Sequence[Row]) -> Verdict:
    """Judge whether RA-DT trains almost seven times as fast as each baseline on 40x20."""
    own, *others = (found(told, ROOMS[-1], label, "made-up") for label in ("ra-dt", *BASELINES))
    known = [row for row in others if row is not None]
    if own is None or len(known) < len(BASELINES):
        return Verdict("open", f"not all methods are timed on {ROOMS[-1]}")
    ratios = {row["label"]: times_as_fast(own, row) for row in known}
    why = f"on {ROOMS[-1]} ra-dt trains " + ", ".join(
        f"{mean:.1f} [{low:.1f}, {high:.1f}] times as fast as {label}"
        for label, (mean, low, high) in ratios.items()
    )
    holds = all(low >= ALMOST_SEVEN for _, low, _ in ratios.values())
    fails = any(high < ALMOST_SEVEN for _, _, high in ratios.values())
    return decided(holds, fails, [why])


def acts_as_fast(told: Sequence[Row]) -> Verdict:
    """Judge RA-DT against AD, with t = 1 and 25, and AD with fused attention against without."""
    env, seldom = ROOMS[-1], f"ra-dt@every-{SELDOM}"
    fused, unfused = (
        {row["label"]: row for row in told if (row["env"], row["condition"]) == (env, condition)}
        for condition in ("fused attention", "unfused attention")
    )
    always, ad = WHOLE.replace(", ", "@"), "ad@no-cache"
    if not {always, seldom, ad} <= fused.keys() or ad not in unfused:
        return Verdict("open", f"not all methods are timed on {env}")
    parts = (
        ("t = 1 is slightly slower than AD", times_as_fast(fused[always], fused[ad]), SLIGHTLY),
        (f"t = {SELDOM} is as fast", times_as_fast(fused[seldom], fused[ad]), EQUAL),
        ("fused attention matters for AD", times_as_fast(fused[ad], unfused[ad]), MATTERS),
    )
    why = [f"{name}: {mean:.2f} times [{a:.2f}, {b:.2f}]" for name, (mean, a, b), _ in parts]
    holds = all(low >= least for _, (_, low, _), least in parts)
    fails = any(high < least for _, (_, _, high), least in parts)
    return decided(holds, fails, why)


add(
    name="efficiency-train",
    paper="Appendix D.7: RA-DT trains almost 7 times as fast as the baselines on 40x20, in "
    "sequences a second, and about as fast on 10x10.",
    kind="bench",
    studies=tuple(
        Study(env, ("ra-dt", *BASELINES), 1, ("options.model.dropout=0.0",)) for env in ROOMS
    ),
    claims={"C16": trains_faster},
    measurement=Measurement(ask_train, rows, together=True),
    note="A score is how many sequences are learned from in a second.",
)
add(
    name="efficiency-inference",
    paper="Appendix D.8: at inference RA-DT is slightly slower than the baselines with t = 1 "
    "and as fast with t = 25; fused attention matters for the baselines.",
    kind="bench",
    studies=tuple(Study(env, ("ra-dt",), 1) for env in (ROOMS[0], ROOMS[-1])),
    claims={"C17": acts_as_fast},
    measurement=Measurement(ask_inference, rows, together=True),
    note="A score is how many decisions are made in a second, one at a time, the environment "
    "not counted. AD, DT and DPT stand with and without what they keep between decisions; the "
    "claim is judged without, as every decision of RA-DT reads its window anew.",
)
