"""Which addresses of Ray clusters are refused, and what is said about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from radt.engine import EngineError
from radt.engine.on_ray import check_address, has_token

TOKEN = {"RAY_AUTH_TOKEN": "not-for-others"}


@pytest.mark.parametrize("address", ["127.0.0.1:6379", "localhost:1", "[::1]:6379", "127.8.9.1:1"])
def test_this_machine_needs_no_token(address: str, tmp_path: Path) -> None:
    check_address(address, {}, tmp_path)


@pytest.mark.parametrize(
    "address", ["10.0.0.5:6379", "head:6379", "0.0.0.0:6379", "localhost.example:1", "[fe80::1]:1"]
)
def test_another_machine_without_a_token_is_refused(address: str, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"no token for it.*RAY_AUTH_TOKEN"):
        check_address(address, {}, tmp_path)
    with pytest.raises(EngineError, match="RAY_AUTH_MODE=disabled") as caught:
        check_address(address, {**TOKEN, "RAY_AUTH_MODE": "disabled"}, tmp_path)
    assert TOKEN["RAY_AUTH_TOKEN"] not in str(caught.value)
    check_address(address, TOKEN, tmp_path)


def test_tokens_are_where_ray_looks_for_them(tmp_path: Path) -> None:
    assert not has_token({}, tmp_path)
    assert not has_token({"RAY_AUTH_TOKEN": ""}, tmp_path)
    file = tmp_path / "token"
    assert not has_token({"RAY_AUTH_TOKEN_PATH": str(file)}, tmp_path)
    file.touch()
    assert not has_token({"RAY_AUTH_TOKEN_PATH": str(file)}, tmp_path)
    file.write_text("x")
    assert has_token({"RAY_AUTH_TOKEN_PATH": str(file)}, tmp_path)
    default = tmp_path / ".ray" / "auth_token"
    default.parent.mkdir()
    default.write_text("x")
    assert has_token({}, tmp_path)


@pytest.mark.parametrize(
    "address",
    ["", "auto", "head", "ray://head:10001", "head:x", "head:1:2", "you:secret@head:1", "a/b:1"],
)
def test_an_address_is_host_and_port(address: str, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="must be HOST:PORT"):
        check_address(address, TOKEN, tmp_path)
