"""`tersely gateway login` and `logout`: OAuth logins at remote servers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tersely.cli.errors import fail
from tersely.cli.extras import check_extra

if TYPE_CHECKING:
    from tersely.settings.model import Settings

_config = click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="File with the servers, if SERVER is a name.",
)


@click.command()
@click.argument("server", required=False, default="")
@_config
@click.option("--list", "listed", is_flag=True, help="Show the servers with a login.")
@click.option("--no-browser", is_flag=True, help="Only print the address to open.")
@click.option("--scope", default="", metavar="SCOPES", help="Scopes to ask for besides those the server names.")
@click.option("--client-id", default="", metavar="ID", help="Client registered by hand, if the server registers none.")
@click.option(
    "--client-secret-from", default="", metavar="VARIABLE", help="Variable that holds the secret of that client."
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, metavar="PORT", help="Port that the browser returns to."
)
def login(
    server: str,
    config: Path | None,
    listed: bool,
    no_browser: bool,
    scope: str,
    client_id: str,
    client_secret_from: str,
    port: int,
) -> None:
    """Log in at a remote server in the browser.

    The gateway can use it from then on. SERVER is its address, or its name in the file given with --config. The
    tokens are stored in the system's keyring or in a file that only you can read, and refreshed by the gateway. A
    running gateway notices the login.

    \b
    tersely gateway login https://mcp.example.com/mcp
    tersely gateway login tickets --config mcp.json
    tersely gateway login --list
    """
    check_extra("gateway login")
    settings = _settings()
    if listed:
        for address in settings.store.logins.urls():
            click.echo(address)
        return

    import anyio

    from tersely.mcp.logins import LoginStore
    from tersely.mcp.sign_in import sign_in
    from tersely.settings.environment import process_environment

    url = _address(server, config)
    secret = ""
    if client_secret_from:
        if not client_id:
            fail("--client-secret-from needs --client-id.")
        if not (secret := process_environment().get(client_secret_from, "")):
            fail(f"--client-secret-from: variable {client_secret_from} is not set or empty.")

    def show(address: str) -> None:
        click.echo(f"Open this address to log in:\n{address}")
        if not no_browser:
            click.launch(address)

    async def run() -> None:
        found = await sign_in(url, show=show, scope=scope, client_id=client_id, client_secret=secret, port=port)
        store: LoginStore = settings.store.logins
        where = "the keyring" if store.save(found) == "keyring" else f"a file in {settings.store.data_dir}"
        click.echo(f"Logged in at {found.url}. The tokens are stored in {where}.")
        if not found.refresh_token and found.expires_at:
            click.echo("The server gave no refresh token, so this login has to be repeated when it expires.")

    anyio.run(run)


@click.command()
@click.argument("server")
@_config
def logout(server: str, config: Path | None) -> None:
    """Delete the login at a remote server.

    Its tokens are revoked where the server allows it. SERVER is its address, or its name in the file given with
    --config.
    """
    check_extra("gateway logout")

    import anyio

    from tersely.mcp.sign_in import revoke

    store = _settings().store.logins
    url = _address(server, config)
    found = store.get(url)
    if not store.remove(url):
        known = ", ".join(store.urls()) or "none"
        fail(f"There is no login at {url}. Logins: {known}.")
    revoked = found is not None and anyio.run(revoke, found)
    click.echo(f"Logged out of {url}." + (" The tokens are revoked." if revoked else ""))


def _settings() -> Settings:
    from tersely.settings.model import GATEWAY, Settings, find_file

    return Settings.load(None, find_file(here=False), sections=GATEWAY)


def _address(server: str, config: Path | None) -> str:
    from tersely.mcp.logins import canonical
    from tersely.settings.files import read_servers

    if re.match(r"(?i)https?://[^/\s]", server):
        return canonical(server)
    if config is None:
        fail(
            "SERVER is the address of a server (https://…), or a name together with --config FILE."
            if server
            else "Which server? Give its address, or its name and --config FILE."
        )
    servers = {one.name: one.options.transport for one in read_servers(config)}
    if server not in servers:
        fail(f"{config}: there is no server {server!r}. Known servers: {', '.join(sorted(servers)) or 'none'}.")
    if (url := servers[server].url) is None:
        fail(f"{config}: {server!r} is a command, which needs no login here.")
    return canonical(url)
