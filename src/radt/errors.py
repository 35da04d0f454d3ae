"""The base of every error whose message is written for the user."""

from __future__ import annotations


class RadtError(Exception):
    """Something that the user can mend; the message says how, so no traceback is shown."""
