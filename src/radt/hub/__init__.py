"""Runs and datasets in a repository of the Hugging Face hub (extra `radt[hub]`), or in a folder.

    push(Path("runs/x"), "me/dark-room")           # `radt hub push runs/x me/dark-room`
    push(Path("data/y"), "datasets/me/histories")
    pull("me/dark-room")                           # or "file:shared/dark-room", a plain folder

Only safetensors, HDF5 and JSON travel. What is pulled is compared with hashes, checked as it would
be before use, and put in place at once.
"""

from radt.hub.repository import HubError, Listing
from radt.hub.transfer import pull, push

__all__ = ["HubError", "Listing", "pull", "push"]
