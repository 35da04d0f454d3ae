"""Methods over one protocol, and references that learn nothing."""

from radt.methods import ad, dpt, dt, learned_memory, nearest, ra_dt, reference, rl2
from radt.methods.method import METHODS, Actor, ContextSize, Method, MethodEntry, build_method

__all__ = [
    "METHODS",
    "Actor",
    "ContextSize",
    "Method",
    "MethodEntry",
    "ad",
    "build_method",
    "dpt",
    "dt",
    "learned_memory",
    "nearest",
    "ra_dt",
    "reference",
    "rl2",
]
