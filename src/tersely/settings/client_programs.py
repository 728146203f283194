"""The MCP clients whose files `tersely gateway install` can change: where the files are, and how entries are written.

A new client is an entry of this table, a row in `docs/reference/clients.md` and an example in its test.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

System = Literal["macos", "windows", "linux"]

_ON_WINDOWS = (
    "APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATH", "PATHEXT",
    "PROCESSOR_ARCHITECTURE", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "USERNAME", "USERPROFILE",
)  # fmt: skip
_ELSEWHERE = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
INHERITED: Mapping[System, tuple[str, ...]] = {"windows": _ON_WINDOWS, "macos": _ELSEWHERE, "linux": _ELSEWHERE}
"""Variables that a command behind the gateway always gets besides `NETWORK_VARIABLES`: the minimum of the MCP SDK."""


@dataclass(frozen=True, kw_only=True)
class EntryKeys:
    """How a client names the parts of an entry."""

    command: str = "command"
    """The program; in a client without `args`, the program and its arguments."""

    args: str = "args"
    """Empty if the arguments follow the program in one list."""

    env: str = "env"
    variables: tuple[str, ...] = ()
    """Lists of the names of further variables that the program gets."""

    url: str = "url"
    urls: tuple[str, ...] = ("url", "serverUrl", "httpUrl")
    """All names of an address that the client reads."""

    headers: str = "headers"
    logins: tuple[str, ...] = ("oauth", "auth", "headersHelper")
    """Parts that configure how the client itself logs in."""

    stdio: str = "stdio"
    """The `type` of an entry with a command."""

    http: str = "http"
    sse: str = "sse"
    sse_urls: tuple[str, ...] = ()
    """Names of an address that mean SSE by themselves."""


@dataclass(frozen=True, kw_only=True)
class ClientProgram:
    """A client's files and conventions. A test compares `docs/reference/clients.md` with this table."""

    name: str
    title: str
    user: Mapping[System, str]
    """The user's file, by system; `{home}`, `{appdata}` and `{config}` are folders of the user."""

    project: str = ""
    """The file in a project, if there is one."""

    sections: tuple[tuple[str, ...], ...] = (("mcpServers",),)
    """Where a file declares servers; `*` matches any key."""

    first_section: bool = False
    """Whether only the first of these sections counts that a file has."""

    syntax: Literal["json", "yaml", "toml"] = "json"
    keys: EntryKeys = EntryKeys()
    passes_environment: bool = True
    """Whether commands inherit the client's whole environment."""

    restart: str
    """How to make the client read its file again."""

    source: str
    """The documentation of the file."""

    checked: str
    """When this entry was last compared with the documentation."""


def _same(path: str) -> dict[System, str]:
    return {"macos": path, "windows": path, "linux": path}


CLIENTS = {
    client.name: client
    for client in (
        ClientProgram(
            name="claude-desktop",
            title="Claude Desktop",
            user={
                "macos": "{home}/Library/Application Support/Claude/claude_desktop_config.json",
                "windows": "{appdata}/Claude/claude_desktop_config.json",
                "linux": "{config}/Claude/claude_desktop_config.json",
            },
            passes_environment=False,
            restart="Quit Claude Desktop and start it again.",
            source="https://modelcontextprotocol.io/docs/develop/connect-local-servers",
            checked="2026-11-15",
        ),
        ClientProgram(
            name="claude-code",
            title="Claude Code",
            user=_same("{home}/.claude.json"),
            project=".mcp.json",
            sections=(("mcpServers",), ("projects", "*", "mcpServers")),
            restart="Start a new session of Claude Code.",
            source="https://code.claude.com/docs/en/mcp",
            checked="2026-11-15",
        ),
        ClientProgram(
            name="cursor",
            title="Cursor",
            user=_same("{home}/.cursor/mcp.json"),
            project=".cursor/mcp.json",
            restart="Switch the servers off and on under Settings → MCP, or restart Cursor.",
            source="https://cursor.com/docs/mcp",
            checked="2026-11-15",
        ),
        ClientProgram(
            name="vscode",
            title="VS Code",
            user={
                "macos": "{home}/Library/Application Support/Code/User/mcp.json",
                "windows": "{appdata}/Code/User/mcp.json",
                "linux": "{config}/Code/User/mcp.json",
            },
            project=".vscode/mcp.json",
            sections=(("servers",),),
            restart="Restart the servers with `MCP: List Servers`, or reload the window.",
            source="https://code.visualstudio.com/docs/agents/reference/mcp-configuration",
            checked="2026-11-15",
        ),
        ClientProgram(
            name="windsurf",
            title="Windsurf",
            user=_same("{home}/.codeium/windsurf/mcp_config.json"),
            keys=EntryKeys(url="serverUrl"),
            restart="Refresh the servers in Cascade's MCP panel.",
            source="https://docs.windsurf.com/windsurf/cascade/mcp",
            checked="2026-11-15",
        ),
        ClientProgram(
            name="codex",
            title="Codex",
            user=_same("{home}/.codex/config.toml"),
            project=".codex/config.toml",
            sections=(("mcp_servers",),),
            syntax="toml",
            keys=EntryKeys(
                variables=("env_vars",),
                headers="http_headers",
                logins=("oauth", "oauth_resource", "bearer_token_env_var", "env_http_headers"),
            ),
            passes_environment=False,
            restart="Start a new session of Codex.",
            source="https://developers.openai.com/codex/mcp",
            checked="2026-11-16",
        ),
        ClientProgram(
            name="gemini-cli",
            title="Gemini CLI",
            user=_same("{home}/.gemini/settings.json"),
            project=".gemini/settings.json",
            keys=EntryKeys(url="httpUrl", sse_urls=("url",), logins=("oauth", "authProviderType", "headersHelper")),
            restart="Restart Gemini CLI, or run /mcp refresh.",
            source="https://geminicli.com/docs/tools/mcp-server",
            checked="2026-11-16",
        ),
        ClientProgram(
            name="zed",
            title="Zed",
            user={
                "macos": "{home}/.config/zed/settings.json",
                "windows": "{appdata}/Zed/settings.json",
                "linux": "{config}/zed/settings.json",
            },
            project=".zed/settings.json",
            sections=(("context_servers",),),
            restart="Zed reads the file again by itself.",
            source="https://zed.dev/docs/ai/mcp",
            checked="2026-11-16",
        ),
        ClientProgram(
            name="cline",
            title="Cline",
            user={
                "macos": "{home}/Library/Application Support/Code/User/globalStorage/saoudrizwan.claude-dev/settings/"
                "cline_mcp_settings.json",
                "windows": "{appdata}/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
                "linux": "{config}/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
            },
            keys=EntryKeys(http="streamableHttp"),
            restart="Restart the servers in Cline's MCP panel.",
            source="https://docs.cline.bot/mcp/configuring-mcp-servers",
            checked="2026-11-16",
        ),
        ClientProgram(
            name="opencode",
            title="OpenCode",
            user=_same("{home}/.config/opencode/opencode.json"),
            project="opencode.json",
            # Version 2 has `mcp.servers`; version 1 has the servers directly under `mcp`.
            sections=(("mcp", "servers"), ("mcp",)),
            first_section=True,
            keys=EntryKeys(args="", env="environment", stdio="local", http="remote", sse="remote"),
            restart="Restart OpenCode.",
            source="https://opencode.ai/v2/docs/mcp-servers",
            checked="2026-11-16",
        ),
        ClientProgram(
            name="goose",
            title="Goose",
            user={
                "macos": "{home}/.config/goose/config.yaml",
                "windows": "{appdata}/Block/goose/config/config.yaml",
                "linux": "{config}/goose/config.yaml",
            },
            sections=(("extensions",),),
            syntax="yaml",
            keys=EntryKeys(
                command="cmd",
                env="envs",
                variables=("env_keys",),
                url="uri",
                urls=("uri",),
                http="streamable_http",
            ),
            restart="Start a new session of Goose.",
            source="https://block.github.io/goose/docs/guides/config-files",
            checked="2026-11-16",
        ),
        ClientProgram(
            name="jetbrains",
            title="JetBrains (Junie)",
            user=_same("{home}/.junie/mcp/mcp.json"),
            project=".junie/mcp/mcp.json",
            restart="Restart the servers under Settings → Tools → Junie → MCP Settings.",
            source="https://www.jetbrains.com/help/junie/model-context-protocol-mcp.html",
            checked="2026-11-16",
        ),
    )
}


@dataclass(frozen=True)
class Machine:
    """The operating system and the folders of the user."""

    system: System
    home: Path
    appdata: Path
    config: Path

    @classmethod
    def here(cls, platform: str, home: Path, environment: Mapping[str, str]) -> "Machine":
        system: System = "macos" if platform == "darwin" else "windows" if platform == "win32" else "linux"
        return cls(
            system,
            home,
            appdata=Path(environment.get("APPDATA") or home / "AppData" / "Roaming"),
            config=Path(environment.get("XDG_CONFIG_HOME") or home / ".config"),
        )

    def inherited(self) -> frozenset[str]:
        return frozenset(INHERITED[self.system])


def user_file(client: ClientProgram, machine: Machine) -> Path:
    return Path(client.user[machine.system].format(home=machine.home, appdata=machine.appdata, config=machine.config))
