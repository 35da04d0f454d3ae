"""The data source: PPO on every task at once, with its whole learning history recorded."""

from radt.collect.parts import CollectError
from radt.collect.ppo import CollectConfig, paper_config
from radt.collect.record import CollectProgress, collect

__all__ = ["CollectConfig", "CollectError", "CollectProgress", "collect", "paper_config"]
