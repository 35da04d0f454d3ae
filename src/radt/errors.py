"""The base of every error whose message is written for the user."""

from __future__ import annotations


class RadtError(Exception):
    """Something that the user can mend; the message says how, so no traceback is shown."""


class RadtWarning(UserWarning):
    """Something that the user should know; the message says what can be done about it."""


class InputError(RadtError, ValueError):
    """A value that an agent cannot be given; the message says what it expects."""


class RunError(RadtError, ValueError):
    """A run that cannot be started as asked; the message says what to do."""


class MissingError(RadtError, ImportError):
    """A library that comes with an extra is not installed; the message says which."""
