"""Servers as child processes: what they are given, and that nothing of them is left."""

import sys
from pathlib import Path

import pytest

from tersely.errors import ToolUnavailable
from tersely.mcp.servers import Server, ServerOptions, TransportOptions
from tersely.settings.environment import process_environment
from tests.mcp.connections import is_at_work, is_running, one, said, stdio, until

pytestmark = pytest.mark.process


async def test_a_child_sees_a_minimal_environment_and_what_the_configuration_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """LESSONS: servers were started with the whole environment, database and API keys included."""
    monkeypatch.setenv("DATABASE_URL", "postgresql://user:secret@db")
    monkeypatch.setenv("LANGUAGE", "de")
    monkeypatch.setenv("TERSELY_MASKING_KEY", "ours")
    network = {
        "SSL_CERT_FILE": "/ca.pem",
        "NODE_EXTRA_CA_CERTS": "/ca.pem",
        "https_proxy": "http://p:1",
        "NO_PROXY": "*",
    }
    for name, value in network.items():
        monkeypatch.setenv(name, value)

    server = stdio("honest", env={"GIVEN": "yes"}, inherit=("LANG*", "NOT_SET", "TERSELY*"))
    async with one(server, environment=process_environment()) as connection:
        seen = dict(line.split("=", 1) for line in (await said(connection, "environment")).split("\n"))

    assert seen["GIVEN"] == "yes"
    assert seen["LANGUAGE"] == "de"
    assert "PATH" in seen
    assert seen.items() >= network.items(), "proxies and certificates are passed on without being named"
    assert "TERSELY_MASKING_KEY" not in seen, "a wildcard does not reach our own settings"
    assert "DATABASE_URL" not in seen
    assert "OPENROUTER_API_KEY" not in seen


async def test_nothing_is_left_of_a_server_that_does_not_want_to_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tersely.mcp.connect.stdio.CLOSE_SECONDS", 0.1)
    monkeypatch.setattr("tersely.mcp.connect.stdio.TERMINATE_SECONDS", 0.2)
    ids = tmp_path / "ids"

    async with one(stdio("stubborn", str(ids))) as connection:
        assert await said(connection, "hello") == "hello"
        server, child = map(int, ids.read_text().split())
        assert is_running(server) and is_running(child)

    await until(lambda: not is_running(server) and not is_at_work(child))


async def test_nothing_is_left_of_the_children_a_server_leaves_behind(tmp_path: Path) -> None:
    ids = tmp_path / "ids"

    async with one(stdio("stubborn", str(ids), "--obedient")):
        server, child = map(int, ids.read_text().split())

    await until(lambda: not is_running(server) and not is_at_work(child))


async def test_a_command_that_does_not_exist_is_named_and_tried_again() -> None:
    missing = Server(name="missing", options=ServerOptions(transport=TransportOptions(command="/no/such/program")))

    async with one(missing) as connection:
        status = connection.status()
        assert status.state == "retrying"
        assert (
            status.last_error == "Server 'missing' could not be started: /no/such/program: No such file or directory."
        )
        assert status.next_try
        with pytest.raises(
            ToolUnavailable, match=r"is not available: Server 'missing' could not be started.*next attempt is in"
        ):
            await connection.request("tools/list")
        await until(lambda: connection.status().restarts >= 2)


async def test_what_a_dying_server_last_said_is_shown_without_its_secrets() -> None:
    broken = Server(
        name="broken",
        options=ServerOptions(
            transport=TransportOptions(
                command=sys.executable, args=("-c", "import sys; sys.exit('no way: password=hunter2-secret')")
            )
        ),
    )
    async with one(broken) as connection:
        error = connection.status().last_error

    assert "exited with status 1: no way: password=[MASKED:" in error
    assert "hunter2" not in error


async def test_lines_that_are_no_messages_and_answers_nobody_asked_for_are_ignored() -> None:
    async with one(stdio("honest")) as connection:
        assert await said(connection, "greet_loudly") == "hello"
        assert await said(connection, "two_answers") == "first"
        assert await said(connection, "echo", text="third") == "third"
