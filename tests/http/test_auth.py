"""Loopback addresses and token comparison, shared by every HTTP entry point."""

import socket
from collections.abc import Callable
from typing import Any

import pytest

from tersely.errors import ConfigError
from tersely.http.auth import find_token_owner, is_loopback, refuse_open, token_digest


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST",
        "localhost.",
        "127.0.0.1",
        "127.8.9.10",
        "127.1",
        "0x7f.1",
        "0177.0.0.1",
        "2130706433",
        "::1",
        "0:0:0:0:0:0:0:1",
        "[::1]",
        "::1%lo",
        "[::1%lo]",
        "::ffff:127.0.0.1",
    ],
)
def test_every_spelling_of_a_loopback_address_is_recognised(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in a container without names: no spelling needs to be resolved."""
    monkeypatch.setattr(socket, "getaddrinfo", _resolving())
    assert is_loopback(host)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (("127.0.0.1",), True),
        (("127.0.0.1", "::1"), True),
        (("127.0.0.1", "10.0.0.1"), False),
        (("10.0.0.1", "::1"), False),
        ((), False),
    ],
)
def test_a_name_is_loopback_if_all_its_addresses_are(
    found: tuple[str, ...], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", _resolving(*found))
    assert is_loopback("here.example.com") is expected


def _resolving(*addresses: str) -> Callable[..., list[Any]]:
    """A resolver that knows these addresses for every name."""

    def resolved(*_: object, **__: object) -> list[Any]:
        if not addresses:
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        return [(socket.AF_INET6 if ":" in one else socket.AF_INET, 1, 6, "", (one, 0)) for one in addresses]

    return resolved


@pytest.mark.parametrize(
    "host",
    [
        "0.0.0.0",
        "::",
        "[::]",
        "",
        "10.0.0.1",
        "fe80::1%lo",
        "localhost.example.com",
        "127.0.0.1.nip.io",
        "128.1",
        "0",
        "::ffff:10.0.0.1",
    ],
)
def test_other_addresses_are_not_loopback(host: str) -> None:
    assert not is_loopback(host)


def test_a_token_is_found_by_its_digest() -> None:
    known = [("ann", token_digest(b"secret-a")), ("bob", token_digest(b"secret-b"))]
    assert find_token_owner(b"secret-a", known) == "ann"
    assert find_token_owner(b"secret-b", known) == "bob"
    assert find_token_owner(b"secret-c", known) is None
    assert find_token_owner(b"", known) is None


def test_only_an_open_address_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"reach 0\.0\.0\.0.*Set TERSELY_TOKEN.*TERSELY_ALLOW_OPEN=1"):
        refuse_open("0.0.0.0", has_authentication=False, allow_open=False, remedy="Set TERSELY_TOKEN")
    for host, has_authentication, allow_open in (
        ("0.0.0.0", True, False),
        ("0.0.0.0", False, True),
        ("127.1", False, False),
    ):
        refuse_open(host, has_authentication=has_authentication, allow_open=allow_open, remedy="")
