"""What Procgen changes about runs."""

from __future__ import annotations

from radt.envs.suite import Recipe

SMOKE, LAPTOP, PAPER = ("smoke",), ("laptop",), ("paper",)
PROCGEN: tuple[Recipe, ...] = ()
