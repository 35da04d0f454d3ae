"""The external memory, in the paper's order: embed, search, retrieve, reweight."""

from radt.memory import folder, language, postgres

__all__ = ["folder", "language", "postgres"]  # their names are known on entering
