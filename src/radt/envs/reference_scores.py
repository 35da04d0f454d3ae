"""Reference returns of the authors: a random policy, the mean of their data, the best of it.

They are of Meta-World's second version, dm_control 1.0 and Procgen's easy mode; 200, 1,000 and 400
steps an episode. The paper normalises its scores by the first two, and its target returns are the
third. Procgen's own authors normalise by a range: no progress, and the best that can be reached.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Table = dict[str, tuple[float, float, float]]  # random policy, mean of the data, best of the data

_TABLES: dict[str, Any] = {
    suite: {name: tuple(returns) for name, returns in table.items()}
    for suite, table in json.loads(Path(__file__).with_suffix(".json").read_text()).items()
}
META_WORLD: Table = _TABLES["meta-world"]
DM_CONTROL: Table = _TABLES["dm-control"]
PROCGEN: Table = _TABLES["procgen"]
PROCGEN_RANGE: dict[str, tuple[float, float]] = _TABLES["procgen-range"]
