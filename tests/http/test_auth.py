"""Loopback addresses and token comparison, shared by every HTTP entry point."""

import pytest

from tersely.http.auth import find_token_owner, is_loopback, token_digest


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST", "127.0.0.1", "127.8.9.10", "::1", "0:0:0:0:0:0:0:1", "[::1]", "::1%lo", "[::1%lo]"],
)
def test_every_spelling_of_a_loopback_address_is_recognised(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host",
    ["0.0.0.0", "::", "[::]", "", "10.0.0.1", "fe80::1%lo", "localhost.example.com", "127.0.0.1.nip.io", "127.1"],
)
def test_other_addresses_are_not_loopback(host: str) -> None:
    assert not is_loopback(host)


def test_a_token_is_found_by_its_digest() -> None:
    known = [("ann", token_digest(b"secret-a")), ("bob", token_digest(b"secret-b"))]
    assert find_token_owner(b"secret-a", known) == "ann"
    assert find_token_owner(b"secret-b", known) == "bob"
    assert find_token_owner(b"secret-c", known) is None
    assert find_token_owner(b"", known) is None
