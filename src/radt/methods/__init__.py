"""Methods over one protocol, and references that learn nothing."""

from radt.methods import dt, ra_dt, reference
from radt.methods.method import METHODS, Actor, Method, MethodEntry

__all__ = ["METHODS", "Actor", "Method", "MethodEntry", "dt", "ra_dt", "reference"]
