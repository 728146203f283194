"""Is an address reachable from this machine only, and which known token is this?

Tokens are known by their SHA-256 digests only. Which requests need a token, and
how it is sent, is decided by the entry points.
"""

import hashlib
import hmac
import ipaddress
from collections.abc import Iterable
from typing import TypeVar

Owner = TypeVar("Owner")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a listener on `host`.

    True for `localhost` and for loopback addresses, also in brackets or with a zone.
    """
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]").partition("%")[0]).is_loopback
    except ValueError:
        return False


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
