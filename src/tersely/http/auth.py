"""Is an address reachable from this machine only, and which known token is this?

Tokens are known by their SHA-256 digests only. Which requests need a token, and
how it is sent, is decided by the entry points.
"""

import hashlib
import hmac
import ipaddress
import socket
from collections.abc import Iterable
from typing import TypeVar

from tersely.errors import ConfigError

Owner = TypeVar("Owner")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a listener on `host`: an address in any spelling that sockets accept, in
    brackets or with a zone, or a name whose addresses are all loopback addresses.
    """
    host = host.strip("[]").rstrip(".").lower()
    if not host:
        return False  # All addresses.
    if host == "localhost":
        return True
    try:
        return _is_loopback_address(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        # Old spellings of IPv4 addresses, such as 127.1 and 0x7f000001.
        return _is_loopback_address(ipaddress.IPv4Address(socket.inet_aton(host)))
    except OSError:
        pass
    try:
        found = {entry[4][0] for entry in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except (OSError, UnicodeError):
        return False
    return all(_is_loopback_address(ipaddress.ip_address(str(one).partition("%")[0])) for one in found)


def _is_loopback_address(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def refuse_open(host: str, *, has_authentication: bool, allow_open: bool, remedy: str) -> None:
    """Refuse to listen where other machines could call without authentication.

    Args:
        allow_open: The operator says that everybody on the network is trusted (`TERSELY_ALLOW_OPEN`).
        remedy: What to set instead.

    Raises:
        ConfigError: The address is open.
    """
    if not has_authentication and not allow_open and not is_loopback(host):
        raise ConfigError(
            f"Other machines can reach {host}, and no authentication is configured. {remedy}, or listen on 127.0.0.1. "
            "Where everybody on the network is trusted, set TERSELY_ALLOW_OPEN=1."
        )


def token_digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()


def find_token_owner(token: bytes, digests: Iterable[tuple[Owner, bytes]]) -> Owner | None:
    """The owner whose digest is that of `token`.

    Every digest is compared, in constant time, so that the time taken reveals nothing.
    """
    digest = token_digest(token)
    found = None
    for owner, known in digests:
        if hmac.compare_digest(digest, known):
            found = owner
    return found
