"""The external memory, in the paper's order: embed, search, retrieve, reweight."""

from radt.memory import folder, language, local_copy, postgres

__all__ = ["folder", "language", "local_copy", "postgres"]  # their names are known on entering
