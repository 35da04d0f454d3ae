"""How much memory is left, and a refusal of what would take more: asked before it is taken."""

from __future__ import annotations

import contextlib

from radt.errors import RadtError

SMALL = 1 << 26  # bytes that need no asking


class NoRoomError(RadtError, ValueError):
    """Something that claims more memory than there is; the message has both numbers."""


def free_memory() -> int:
    """Count the bytes this process may still take."""
    import psutil

    free = int(psutil.virtual_memory().available)
    with contextlib.suppress(ImportError):  # there is no such limit outside Unix
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            free = min(free, max(0, limit - psutil.Process().memory_info().vms))
    return free


def check_room(what: str, needed: int, advice: str, error: type[RadtError] = NoRoomError) -> None:
    """Refuse what takes more bytes than are free."""
    if needed > SMALL and needed > (free := free_memory()):
        raise error(
            f"{what} would take {needed / 1e9:.1f} GB, but {free / 1e9:.1f} GB of memory are free; "
            f"{advice}"
        )
