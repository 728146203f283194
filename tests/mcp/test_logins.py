"""Logins at remote servers, against a real authorization server over real HTTP."""

import json
import os
import re
import sys
from functools import partial
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2
import pytest
from click.testing import CliRunner
from fastmcp import Client
from pydantic import SecretStr

from tersely.cli import main
from tersely.cli.gateway_check import check_servers
from tersely.errors import ConfigError, SignInFailed, ToolUnavailable
from tersely.mcp.logins import LOGINS_FOLDER, Login, LoginStore, canonical
from tersely.mcp.sign_in import revoke, sign_in
from tests.fakes.gateways import at, by_command, gateway
from tests.fakes.mcp_servers.web import Honest, behind_a_login
from tests.mcp.connections import one, said, until, web

pytestmark = [pytest.mark.anyio, pytest.mark.process]


class Browser:
    """A user who opens the address and follows where the authorization server sends them."""

    def __init__(self, tasks: anyio.abc.TaskGroup, *, refuse: bool = False) -> None:
        self.tasks = tasks
        self.refuse = refuse
        self.address = ""
        self.pages: list[tuple[int, str]] = []

    def __call__(self, address: str) -> None:
        self.address = address
        self.tasks.start_soon(self._visit)

    async def _visit(self) -> None:
        asked = {name: values[0] for name, values in parse_qs(urlsplit(self.address).query).items()}
        back = asked["redirect_uri"]
        async with httpx2.AsyncClient() as client:
            # Another program on this machine cannot end the login, nor answer in the user's place.
            for path in (f"{back}?code=stolen&state=other", back.replace("/callback", "/"), f"{back}?error=x"):
                self.pages.append(((await client.get(path)).status_code, "stranger"))
            if self.refuse:
                answer = await client.get(f"{back}?error=access_denied&state={asked['state']}")
            else:
                answer = await client.get(self.address, follow_redirects=True)
            self.pages.append((answer.status_code, answer.text))


async def test_a_model_and_its_user_read_in_the_list_of_tools_that_a_login_is_missing() -> None:
    box = by_command("honest", name="box")
    async with behind_a_login(Honest()) as (url, _), gateway(at(url, "tickets"), box) as ours:
        async with Client(ours.url) as client:
            tools = {tool.name: tool.description or "" for tool in await client.list_tools()}
    assert tools["read_result"].endswith(f" needs a login: run `tersely gateway login {url}`.")
    assert any(name.startswith("box__") for name in tools), "and the others are there"


async def test_a_login_is_used_refreshed_once_by_all_processes_and_asked_for_when_it_is_gone(tmp_path: Path) -> None:
    """The order of a user's life with a remote server, because each step needs the one before."""
    honest = Honest()
    store, other_process = LoginStore(tmp_path / "logins", "file"), LoginStore(tmp_path / "logins", "file")
    async with behind_a_login(honest) as (url, authority), one(web(url), logins=store, wait=30) as connection:
        # Without a login: one sentence, no request for registration, and no waiting.
        expected = f"it needs a login: run `tersely gateway login {url}`"
        assert expected in connection.status().last_error
        assert not authority.clients
        with pytest.raises(ToolUnavailable, match=re.escape(expected)):
            await connection.request("ping")

        async with anyio.create_task_group() as tasks:
            browser = Browser(tasks)
            login = await sign_in(url, show=browser)
        asked = parse_qs(urlsplit(browser.address).query)
        assert asked["code_challenge_method"] == ["S256"] and asked["resource"] == [url]
        assert [status for status, _ in browser.pages] == [400, 400, 400, 200]
        assert "logged in" in browser.pages[-1][1]
        assert store.save(login) == "file"
        (file,) = (tmp_path / "logins").glob("*.json")
        assert file.stat().st_mode & 0o077 == 0 and file.parent.stat().st_mode & 0o077 == 0
        assert login.access_token.get_secret_value() not in repr(login)

        # The running connection notices the login.
        await until(lambda: connection.status().state == "ready")
        assert await said(connection, "echo", text="hello") == "hello"

        # Refused or expired tokens are refreshed, once for all processes: the server rotates refresh tokens.
        async with one(web(url), logins=other_process, wait=30) as second:
            authority.access_tokens.clear()
            async with anyio.create_task_group() as tasks:
                for each in (connection, second, connection, second):
                    tasks.start_soon(partial(said, each, "echo", text="again"))
            assert len(authority.access_tokens) == 1
            current = store.get(url)
            assert current is not None
            store.save(current.model_copy(update={"expires_at": 0.0}))
            assert await said(second, "echo", text="late") == "late"
            renewed = other_process.get(url)
            assert renewed and not renewed.expires_within(60)
            assert renewed.access_token != current.access_token

        # A login that the server has ended is asked for again.
        authority.access_tokens.clear()
        authority.refresh_tokens.clear()
        with pytest.raises(ToolUnavailable, match="its login has expired: run `tersely gateway login http"):
            await said(connection, "echo", text="gone")
        await until(lambda: "its login has expired" in connection.status().last_error)

        async with anyio.create_task_group() as tasks:
            login = await sign_in(url, show=Browser(tasks))
        assert await revoke(login) and not authority.access_tokens
        assert store.remove(url) and not store.remove(url) and store.urls() == []


async def test_a_login_that_is_refused_unsafe_or_not_needed_says_why(tmp_path: Path) -> None:
    async with behind_a_login(Honest()) as (url, _), anyio.create_task_group() as tasks:
        with pytest.raises(SignInFailed, match=r"The login was refused: access_denied\."):
            await sign_in(url, show=Browser(tasks, refuse=True))
        with pytest.raises(SignInFailed, match=r"Nobody logged in within 0\.2 s\."):
            await sign_in(url, show=lambda address: None, patience=0.2)
        with pytest.raises(SignInFailed, match="not https"):
            await sign_in("http://mcp.example.com/mcp", show=lambda address: None)
    async with Honest().listening() as url:
        with pytest.raises(SignInFailed, match="none is needed"):
            await sign_in(url, show=lambda address: None)
    with pytest.raises(SignInFailed, match="cannot be reached"):
        await sign_in(url, show=lambda address: None)


async def test_a_configured_header_is_never_replaced_by_a_login(tmp_path: Path) -> None:
    honest = Honest()
    async with honest.listening(private=True) as url:
        store = LoginStore(tmp_path, "file")
        store.save(_login(url))
        given = {"bearer_token": "open-sesame"}
        async with one(web(url, transport=given), logins=store, wait=30) as connection:
            assert await said(connection, "echo", text="hello") == "hello"


def _login(url: str) -> Login:
    return Login(url=canonical(url), access_token=SecretStr("a" * 40), client_id="c", token_endpoint=f"{url}/token")


async def test_the_keyring_holds_the_tokens_where_there_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import keyring
    import keyring.backend

    class Ring(keyring.backend.KeyringBackend):
        priority = 5
        longest = 10_000

        def __init__(self) -> None:
            self.entries: dict[tuple[str, str], str] = {}

        def get_password(self, service: str, username: str) -> str | None:
            return self.entries.get((service, username))

        def set_password(self, service: str, username: str, password: str) -> None:
            if len(password) > self.longest:
                raise keyring.errors.PasswordSetError("too long")
            self.entries[service, username] = password

        def delete_password(self, service: str, username: str) -> None:
            del self.entries[service, username]

    before = keyring.get_keyring()
    ring = Ring()
    keyring.set_keyring(ring)
    try:
        url = "https://mcp.example.com/mcp"
        store = LoginStore(tmp_path, "auto")
        assert store.save(_login(url)) == "keyring"
        (file,) = tmp_path.glob("*.json")
        assert "a" * 40 not in file.read_text() and json.loads(file.read_text())["url"] == url
        assert store.get(url + "/") == _login(url) and store.get("https://other.example.com") is None
        assert store.remove(url) and not ring.entries
        ring.longest = 10  # as on Windows, where entries are limited
        assert store.save(_login(url)) == "file" and store.get(url) == _login(url)
        with pytest.raises(ConfigError, match="The keyring cannot store the login"):
            LoginStore(tmp_path, "keyring").save(_login(url))
    finally:
        keyring.set_keyring(before)


async def test_the_commands_log_in_check_and_log_out(tmp_path: Path) -> None:
    environment = {**os.environ, "TERSELY_DATA_DIR": str(tmp_path), "TERSELY_LOGIN_STORAGE": "file"}
    tersely = [sys.executable, "-m", "tersely", "gateway"]
    store = LoginStore(tmp_path / LOGINS_FOLDER, "file")

    async def run(*arguments: str) -> str:
        done = await anyio.to_thread.run_sync(
            lambda: CliRunner().invoke(main, ["gateway", *arguments], env=environment)
        )
        return done.output

    async with behind_a_login(Honest()) as (url, authority):
        config = tmp_path / "mcp.json"
        config.write_text(json.dumps({"mcpServers": {"tickets": {"url": url}, "box": {"command": "true"}}}))
        async with await anyio.open_process(
            [*tersely, "login", "tickets", "--config", str(config), "--no-browser"], env=environment
        ) as process:
            assert process.stdout
            shown = b""
            with anyio.fail_after(120):
                while shown.count(b"\n") < 2:
                    shown += await process.stdout.receive()
                async with httpx2.AsyncClient() as client:
                    await client.get(shown.decode().splitlines()[1], follow_redirects=True)
                async for chunk in process.stdout:
                    shown += chunk
                assert await process.wait() == 0
        assert f"Logged in at {url}. The tokens are stored in a file" in shown.decode()

        assert await run("login", "--list") == f"{url}\n"
        report = await check_servers([web(url)], tmp_path, logins=store)
        assert report["servers"][0]["state"] == "ready"
        assert await run("logout", url) == f"Logged out of {url}. The tokens are revoked.\n"
        assert not authority.access_tokens
        (server,) = (await check_servers([web(url)], tmp_path, logins=store))["servers"]
        assert server["reason"].endswith(f"it needs a login: run `tersely gateway login {url}`.")
        again = await run("logout", "tickets", "--config", str(config))
        assert again == f"tersely: There is no login at {url}. Logins: none.\n"
        command = await run("login", "box", "--config", str(config))
        assert command == f"tersely: {config}: 'box' is a command, which needs no login here.\n"
        assert "or a name together with --config FILE" in await run("login", "tickets")
