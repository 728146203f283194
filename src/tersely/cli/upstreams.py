"""The options that select servers: a file, one command, or one address. Shared by `gateway` and `gateway check`.

The command line takes names of variables, never values: every process of the machine can read a command line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack
from urllib.parse import urlsplit

import click

if TYPE_CHECKING:
    from tersely.mcp.servers import Server

_Command = TypeVar("_Command", bound=Callable[..., Any])

_LAUNCHERS = frozenset(
    ("npx", "uvx", "bunx", "pnpx", "pipx", "npm", "pnpm", "bun", "deno", "uv", "run", "exec", "dlx", "tool", "x")
)
_INTERPRETERS = frozenset(("node", "python", "python3", "docker", "podman", "cmd", "sh", "bash", "env"))


class UpstreamOptions(TypedDict):
    """The parameters that `upstream_options` adds to a command."""

    config: Path | None
    upstream: str
    name: str
    inherit_env: tuple[str, ...]
    header_from: tuple[str, ...]
    sse: bool


def upstream_options(command: _Command) -> _Command:
    """Add the options that select servers."""
    for option in reversed(
        (
            click.option(
                "--config",
                type=click.Path(exists=True, dir_okay=False, path_type=Path),
                metavar="FILE",
                help="File with the servers: `mcpServers` (JSON) or `mcp_servers` (YAML).",
            ),
            click.option("--upstream", default="", metavar="URL", help="Address of one server."),
            click.option(
                "--name",
                default="",
                metavar="NAME",
                help="Name of a single server; by default taken from its command or address.",
            ),
            click.option(
                "--inherit-env",
                multiple=True,
                metavar="NAME",
                help="Environment variable to pass on to the command, besides those for proxies and certificates; '*' "
                "for all. Repeatable.",
            ),
            click.option(
                "--header-from",
                multiple=True,
                metavar="HEADER=VARIABLE",
                help="With --upstream: header to send, with its value taken from the variable. Repeatable.",
            ),
            click.option("--sse", is_flag=True, help="With --upstream: the server speaks the older SSE transport."),
        )
    ):
        command = option(command)
    return command


def upstream_servers(command: Sequence[str], **given: Unpack[UpstreamOptions]) -> tuple[Server, ...]:
    """The servers that the options and the command after `--` name.

    Raises:
        ConfigError: Not exactly one of the three is given, or it is invalid.
    """
    from pydantic import ValidationError

    from tersely.errors import ConfigError
    from tersely.mcp.servers import Server
    from tersely.settings.files import read_servers

    given_kinds = [bool(given["config"]), bool(given["upstream"]), bool(command)]
    if sum(given_kinds) != 1:
        raise ConfigError(
            ("No servers given. Give one of" if not any(given_kinds) else "Give only one of")
            + " --config FILE, --upstream URL, or -- COMMAND ARGUMENTS."
        )
    if given["config"]:
        for option, is_set in (
            ("--name", given["name"]),
            ("--inherit-env", given["inherit_env"]),
            ("--header-from", given["header_from"]),
        ):
            if is_set:
                raise ConfigError(f"{option} is for a single server; with --config, set it in the file.")
        servers = read_servers(given["config"])
        if all(server.options.disabled for server in servers):
            raise ConfigError(f"{given['config']}: {'all servers are disabled' if servers else 'declares no servers'}.")
        return servers
    if command and (given["header_from"] or given["sse"]):
        raise ConfigError("--header-from and --sse need --upstream; for a command use --inherit-env NAME.")
    if given["upstream"] and given["inherit_env"]:
        raise ConfigError("--inherit-env needs a command; for --upstream use --header-from HEADER=VARIABLE.")
    transport: dict[str, Any]
    if command:
        transport = {"command": command[0], "args": list(command[1:]), "inherit_env": given["inherit_env"]}
    else:
        transport = {
            "url": given["upstream"],
            "headers": _headers(given["header_from"]),
            "type": "sse" if given["sse"] else "http",
        }
    name = given["name"] or name_for(command, given["upstream"])
    try:
        return (Server.model_validate({"name": name, "options": {"transport": transport}}),)
    except ValidationError as invalid:
        raise ConfigError(
            "; ".join(f"{name}: {error['msg'].removeprefix('Value error, ')}" for error in invalid.errors())
        ) from None


def check_providers(servers: Sequence[Server], declared: Collection[str]) -> None:
    """
    Raises:
        ConfigError: A policy names a model provider that is not declared.
    """
    from tersely.errors import ConfigError

    for server in servers:
        options = server.options
        named = {"summarization": options.summarization.llm_provider}
        named |= {
            f"tool_policies.{pattern}": options.policy(pattern)[0].llm_provider for pattern in options.tool_policies
        }
        for where, provider in named.items():
            if provider and provider not in declared:
                known = ", ".join(sorted(declared)) or "none"
                raise ConfigError(
                    f"{server.name}.{where}: llm_provider {provider!r} is not declared under llm_providers in "
                    f"tersely.yaml. Declared: {known}."
                )


def name_for(command: Sequence[str], url: str = "") -> str:
    """A short name from a server's command or address: `npx -y @org/server-git@1 /repo` becomes `server-git`."""
    if url:
        return re.sub(r"[^a-z0-9-]+", "-", (urlsplit(url).hostname or "server").lower()).strip("-")
    words = [word for word in command if not word.startswith("-") and word.lower() != "/c"]
    candidates = (
        [word for word in words if PurePath(word).stem.lower() not in _LAUNCHERS | _INTERPRETERS] or words or ["server"]
    )
    last = candidates[0].rstrip("/\\").replace("\\", "/").rpartition("/")[2].partition("@")[0]
    stem = re.sub(r"\.(py|js|mjs|cjs|ts|exe|sh|jar)$", "", last)
    return re.sub(r"[^A-Za-z0-9-]+", "-", stem.rpartition(".")[2] or stem).strip("-")[:40] or "server"


def _headers(named: Sequence[str]) -> dict[str, str]:
    from tersely.errors import ConfigError
    from tersely.settings.environment import process_environment

    environment = process_environment()
    headers: dict[str, str] = {}
    for pair in named:
        header, sign, variable = pair.partition("=")
        if not sign or not header or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", variable):
            # The pair is not quoted: it may contain the value itself.
            raise ConfigError(
                "--header-from takes HEADER=VARIABLE: the names of the header and of the variable with its value."
            )
        if not (value := environment.get(variable, "")):
            raise ConfigError(f"--header-from {header}: variable {variable} is not set or empty.")
        headers[header] = value
    return headers
