"""Which Ray clusters are talked to: one on this machine, or one that asks for a token.

Whoever reaches a cluster without a token runs code on it. The token itself is never read here: Ray
takes it from RAY_AUTH_TOKEN, from the file RAY_AUTH_TOKEN_PATH or from ~/.ray/auth_token.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from radt.engine.engine import EngineError

LOOPBACK = "127.0.0.1"


class AddressError(EngineError):
    """An address that is not talked to; the message says what to do."""


def host_of(address: str) -> str:
    """Return the host of HOST:PORT."""
    try:
        parts = urlsplit(f"//{address}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if host is None or port is None or "/" in address or parts.username is not None:
        raise AddressError(
            f"--address must be HOST:PORT of a Ray cluster's head, such as {LOOPBACK}:6379, "
            f"not {address!r}"
        )
    return host


def is_loopback(host: str) -> bool:
    """Tell whether a host can only be this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"  # any other name is somebody's to change


def has_token(environ: Mapping[str, str], home: Path) -> bool:
    """Tell whether Ray will find a token, without reading it."""
    if environ.get("RAY_AUTH_TOKEN"):
        return True
    file = Path(environ.get("RAY_AUTH_TOKEN_PATH") or home / ".ray" / "auth_token")
    return file.is_file() and file.stat().st_size > 0


def check_address(address: str, environ: Mapping[str, str], home: Path) -> None:
    """Refuse an address off this machine unless a token guards it."""
    host = host_of(address)
    if is_loopback(host):
        return
    if environ.get("RAY_AUTH_MODE", "token").lower() == "disabled":
        raise AddressError(
            f"{address} is not on this machine and RAY_AUTH_MODE=disabled: anybody who reaches it "
            "could run code on it. Start the cluster with RAY_AUTH_MODE=token and unset this one"
        )
    if not has_token(environ, home):
        raise AddressError(
            f"{address} is not on this machine and there is no token for it. Start the cluster "
            "with RAY_AUTH_MODE=token and give its token in RAY_AUTH_TOKEN, in a file named by "
            "RAY_AUTH_TOKEN_PATH, or in ~/.ray/auth_token (`ray get-auth-token --generate`)"
        )
