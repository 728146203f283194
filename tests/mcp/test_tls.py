"""Certificates of one's own authority, no check at all, and a client that has to identify itself."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from pydantic import ValidationError

from tersely.errors import ConfigError, ToolUnavailable
from tersely.llm.providers import ProviderOptions
from tersely.llm.wire import BoundedHTTPClient, Timeouts
from tersely.mcp.connect.http import UpstreamHTTPClient
from tersely.mcp.servers import TransportOptions


def certificate(folder: Path, name: str, issuer: tuple[Any, Any] | None = None) -> tuple[Any, Any]:
    """A key and a certificate in one file, signed by the issuer or by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    signed_by = issuer or (None, key)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer[0].subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False)
        .sign(signed_by[1], hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / f"{name}.key").write_bytes(secret)
    (folder / f"{name}.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    return made, key


@asynccontextmanager
async def listening(folder: Path, *, asks: bool) -> AsyncIterator[str]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}")
        await writer.drain()
        writer.close()

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(folder / "authority.pem"))
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    context.verify_mode = ssl.CERT_REQUIRED if asks else ssl.CERT_NONE
    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    try:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
    finally:
        server.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    authority = certificate(folder, "authority")
    certificate(folder, "server", authority)
    certificate(folder, "client", authority)
    return folder


@pytest.mark.parametrize(
    ("options", "asks", "works"),
    [
        ({}, False, False),
        ({"ca_file": "authority.pem"}, False, True),
        ({"verify_ssl": False}, False, True),
        ({"ca_file": "authority.pem"}, True, False),
        ({"ca_file": "authority.pem", "client_cert": "client.pem", "client_key": "client.key"}, True, True),
    ],
)
async def test_a_server_is_reached_with_the_certificates_that_are_configured(
    folder: Path, options: dict[str, Any], asks: bool, works: bool
) -> None:
    given: dict[str, Any] = {
        name: str(folder / value) if isinstance(value, str) else value for name, value in options.items()
    }
    async with listening(folder, asks=asks) as url:
        async with UpstreamHTTPClient(TransportOptions(url=url, **given), limit=10_000) as client:
            response = await client.post(url, json={})
    assert (response.status_code == 200) is works


def test_files_that_cannot_be_used_are_told(folder: Path) -> None:
    url = "https://x.test/mcp"
    for given, message in (
        ({"url": url, "ca_file": "/nowhere.pem"}, "no such file"),
        ({"url": url, "client_key": str(folder / "client.key")}, "needs client_cert"),
        ({"url": url, "ca_file": str(folder / "client.pem"), "verify_tls": False}, "keep one of them"),
        ({"command": "x", "ca_file": str(folder / "client.pem")}, "has no effect"),
    ):
        with pytest.raises(ValidationError, match=message):
            TransportOptions(**given)
    with pytest.raises(ToolUnavailable, match="has no certificates that can be read"):
        UpstreamHTTPClient(TransportOptions(url=url, ca_file=str(folder / "client.key")), limit=1)
    with pytest.raises(ValidationError, match="no such file"):
        ProviderOptions(model="m", ca_file="/nowhere.pem")
    with pytest.raises(ConfigError, match="has no certificates that can be read"):
        BoundedHTTPClient(Timeouts(), ca_file=str(folder / "client.key"))
