"""Loopback addresses and token comparison, shared by every HTTP entry point."""

import ast
import hmac
import re
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import tersely
from tersely.errors import ConfigError
from tersely.http.auth import find_token_owner, is_loopback, refuse_open, token_digest
from tersely.masking.mask import Masker
from tersely.servers.bearer_tokens import BearerTokens
from tersely.web.auth import COOKIE, Authenticator, KnownToken


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


async def test_every_credential_is_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[object, object]] = []

    def compare(one: Any, other: Any) -> bool:
        compared.append((one, other))
        return bool(one == other)

    def count(tokens: Callable[[], object]) -> int:
        compared.clear()
        tokens()
        return len(compared)

    monkeypatch.setattr(hmac, "compare_digest", compare)
    digests = {name: token_digest(name.encode()) for name in ("ann", "bob", "eve")}
    for token in ("ann", "eve", "nobody"):
        assert count(partial(find_token_owner, token.encode(), digests.items())) == 3, "also after a match"
    compared.clear()
    assert await BearerTokens(digests).verify_token("ann") is not None and len(compared) == 3
    authenticator = Authenticator([KnownToken(name, digest, frozenset()) for name, digest in digests.items()])
    headers = [(b"authorization", b"Bearer ann")]
    assert count(lambda: authenticator.identify({"type": "http", "headers": headers})) == 3
    _, cookie = authenticator.login("bob")
    headers = [(b"cookie", f"{COOKIE}={cookie}".encode())]
    assert count(lambda: authenticator.identify({"type": "http", "headers": headers})) == 1
    masker = Masker()
    marked = str(masker.mask("password=Xk29fjqLw83h"))
    assert count(lambda: masker.has_mark(marked.partition("=")[2])) == 1


CREDENTIALS = re.compile(r"(?:^|_)(?:token|digest|signature|cookie|password|secret|state|check|key)s?$")
MODULES_WITH_CREDENTIALS = (
    "http/auth.py",
    "http/guesses.py",
    "mcp/sign_in.py",
    "servers/bearer_tokens.py",
    "servers/gateway/web.py",
    "servers/http_app.py",
    "web/auth.py",
    "web/middleware.py",
)


def compared_directly(source: str) -> list[str]:
    """Comparisons by `==`, `!=` or `in` of a value whose name is that of a credential, except with a constant."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq | ast.NotEq | ast.In | ast.NotIn):
            sides = [node.left, *node.comparators]
            names = [ast.unparse(side).rpartition(".")[2].rstrip("()") for side in sides]
            quoted = [ast.literal_eval(one) for side in sides for one in re.findall(r"'\w+'", ast.unparse(side))]
            is_constant = any(
                isinstance(one, ast.Constant) for side in sides for one in getattr(side, "elts", None) or [side]
            )
            if not is_constant and any(CREDENTIALS.search(name) for name in (*names, *quoted)):
                found.append(ast.unparse(node))
    return found


@pytest.mark.parametrize("module", MODULES_WITH_CREDENTIALS)
def test_no_credential_is_compared_with_an_operator(module: str) -> None:
    assert compared_directly((Path(tersely.__file__).parent / module).read_text("utf-8")) == []


def test_a_comparison_with_an_operator_would_be_found() -> None:
    assert compared_directly("query.get('state') == self._state") and compared_directly("digest != known.digest")
    assert not compared_directly("hmac.compare_digest(digest, known)") and not compared_directly("mode == 'tokens'")


def test_only_an_open_address_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"reach 0\.0\.0\.0.*Set TERSELY_TOKEN.*TERSELY_ALLOW_OPEN=1"):
        refuse_open("0.0.0.0", has_authentication=False, allow_open=False, remedy="Set TERSELY_TOKEN")
    for host, has_authentication, allow_open in (
        ("0.0.0.0", True, False),
        ("0.0.0.0", False, True),
        ("127.1", False, False),
    ):
        refuse_open(host, has_authentication=has_authentication, allow_open=allow_open, remedy="")
