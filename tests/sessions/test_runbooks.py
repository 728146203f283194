"""Runbooks by address, over TLS from a server of the test: what is read, what is not, and who gets the token."""

import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import anyio
import pytest
from anyio.streams.tls import TLSListener
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from pydantic import SecretStr

from tersely.errors import InputError
from tersely.sessions.runbook_options import RunbookOptions
from tersely.sessions.runbooks import Runbooks, is_public

HOSTS = ("raw.githubusercontent.com", "docs.example.org")


def certificate(folder: Path) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host) for host in HOSTS]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = folder / "both.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return file


@dataclass
class Server:
    port: int
    trust: ssl.SSLContext
    requests: list[str] = field(default_factory=list)

    def runbooks(self, **options: object) -> Runbooks:
        async def resolve(host: str) -> list[str]:
            return ["127.0.0.1"]

        made = RunbookOptions.model_validate({"allowed_hosts": HOSTS, "max_bytes": 1_000, **options})
        return Runbooks(made, resolve=resolve, may_connect=lambda one: True, trust=self.trust, port=self.port)

    async def answer(self, stream: anyio.abc.ByteStream) -> None:
        async with stream:
            request = (await stream.receive(65_536)).decode()
            self.requests.append(request)
            path = request.split()[1]
            reply = {
                "/o/r/main/disk.md": 'HTTP/1.1 200 OK\r\nETag: "7"\r\nContent-Length: 14\r\n\r\nClean the disk',
                "/large": f"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n{'x' * 5000}",
                "/away": "HTTP/1.1 302 Found\r\nLocation: https://10.0.0.1/secrets\r\nContent-Length: 0\r\n\r\n",
                "/moved": "HTTP/1.1 302 Found\r\nLocation: https://docs.example.org/end\r\nContent-Length: 0\r\n\r\n",
                "/end": "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nmoved",
                "/round": "HTTP/1.1 302 Found\r\nLocation: /round\r\nContent-Length: 0\r\n\r\n",
            }.get(path, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            if 'if-none-match: "7"' in request.lower():
                reply = "HTTP/1.1 304 Not Modified\r\n\r\n"
            await stream.send(reply.encode())


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    file = certificate(tmp_path)
    own = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    own.load_cert_chain(file)
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    public = file.read_text(encoding="ascii")
    trust = ssl.create_default_context(cadata=public[public.index("-----BEGIN CERTIFICATE") :])
    made = Server(listener.extra(anyio.abc.SocketAttribute.local_port), trust)
    async with listener, anyio.create_task_group() as group:
        group.start_soon(TLSListener(listener, own, standard_compatible=False).serve, made.answer)
        yield made
        group.cancel_scope.cancel()


async def test_a_runbook_is_read_with_the_token_and_asked_for_again_by_its_tag(server: Server) -> None:
    runbooks = server.runbooks(github_token=SecretStr("canary"), cache_seconds=0)
    for _ in range(2):
        assert await runbooks.read("https://raw.githubusercontent.com/o/r/main/disk.md") == "Clean the disk"
    first, again = server.requests
    assert "Bearer canary" in first and "host: raw.githubusercontent.com" in first.lower()
    assert "if-none-match" not in first.lower() and 'if-none-match: "7"' in again.lower()
    # The token goes to GitHub only, also after a redirect to a host that is allowed.
    assert await runbooks.read("https://raw.githubusercontent.com/moved") == "moved"
    assert "canary" in server.requests[-2] and "canary" not in server.requests[-1]
    # Within the time of the cache nothing is asked, and pages of GitHub are read as files.
    cached = server.runbooks(allowed_hosts=["github.com", *HOSTS])
    for _ in range(2):
        assert await cached.read("https://github.com/o/r/blob/main/disk.md") == "Clean the disk"
    assert len(server.requests) == 5


@pytest.mark.parametrize(
    ("path", "reason"),
    [("/large", "longer than 1,000 bytes"), ("/away", "'10.0.0.1' are not read"), ("/none", "answered 404"),
     ("/round", "more than 4 redirects")],
)  # fmt: skip
async def test_what_cannot_be_read_says_why(server: Server, path: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        await server.runbooks().read(f"https://docs.example.org{path}")


async def test_no_address_inside_of_the_network_is_reached(server: Server) -> None:
    async def resolve(host: str) -> list[str]:
        return ["93.184.216.34", "127.0.0.1"]

    inside = Runbooks(RunbookOptions(allowed_hosts=HOSTS), resolve=resolve, trust=server.trust, port=server.port)
    with pytest.raises(InputError, match="not public"):
        await inside.read("https://docs.example.org/end")
    assert not server.requests
    private = ("127.0.0.1", "10.1.2.3", "169.254.169.254", "::1", "fd00::1", "::ffff:10.0.0.1", "0.0.0.0", "100.64.0.1")
    assert not any(map(is_public, private)) and is_public("93.184.216.34") and ip_address("224.0.0.1").is_multicast
    assert not is_public("224.0.0.1")


@pytest.mark.parametrize(
    "address",
    ["http://docs.example.org/a", "https://docs.example.org:8443/a", "https://u@docs.example.org/a",
     "https://evil.example/a", "https://docs.example.org.evil.example/a", "file:///etc/passwd", "https://[::1/a"],
)  # fmt: skip
def test_an_address_off_the_list_is_refused_before_anything_is_sent(address: str) -> None:
    with pytest.raises(InputError, match="runbook: "):
        Runbooks(RunbookOptions(allowed_hosts=HOSTS)).check(address)
