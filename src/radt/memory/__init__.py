"""The external memory, in the paper's order: embed, search, retrieve, reweight."""

from radt.memory import language

__all__ = ["language"]  # known by its name in EMBEDDERS as soon as the room is entered
