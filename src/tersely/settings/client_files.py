"""The configuration files of MCP clients: their locations, and how to route their servers through our gateway.

The files belong to the user: entries are edited in place, by spans of the text, so that
comments, order and formatting survive. Secrets are neither copied nor moved out of the
file: variables are named on our command line and filled in by the client, as before. An
entry that cannot be routed without breaking it is left unchanged, with a reason.

Plans are pure functions; only `read_file`, `replace_file` and `write_file` access the
disk. Prompts, output and the environment are up to `cli.gateway_install`.
"""

import difflib
import json
import os
import re
import stat
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path, PurePath
from typing import Any, Literal
from urllib.parse import urlsplit

from tersely.errors import ConfigError
from tersely.masking.mask import mask
from tersely.mcp.servers import is_inherited
from tersely.settings.files import Document, Key, dotted, parse_json

System = Literal["macos", "windows", "linux"]

_LARGEST_FILE = 64 * 2**20
_ADDRESSES = ("url", "serverUrl", "httpUrl")
BACKUP = ".before-tersely"
"""Suffix of the backup that is written next to a file before it is changed."""

_ON_WINDOWS = (
    "APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATH", "PATHEXT",
    "PROCESSOR_ARCHITECTURE", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "USERNAME", "USERPROFILE",
)  # fmt: skip
_ELSEWHERE = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
INHERITED: Mapping[System, tuple[str, ...]] = {"windows": _ON_WINDOWS, "macos": _ELSEWHERE, "linux": _ELSEWHERE}
"""Variables that a command behind the gateway always gets besides `NETWORK_VARIABLES`: the minimum of the MCP SDK."""


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

    url_key: str = "url"
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
            url_key="serverUrl",
            restart="Refresh the servers in Cascade's MCP panel.",
            source="https://docs.windsurf.com/windsurf/cascade/mcp",
            checked="2026-11-15",
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


# Plans


@dataclass(frozen=True)
class Route:
    """How entries are routed."""

    launcher: Sequence[str]
    """The command line that starts tersely."""

    inherit: Sequence[str] = ()
    """Variables that every command keeps."""

    only: Collection[str] = ()
    """Names of entries to route (`*` and `?` allowed); empty: all."""

    skip: Collection[str] = ()
    folder: Path | None = None
    """The value of `${workspaceFolder}`, if it is known."""

    home: Path | None = None


@dataclass(frozen=True)
class FileChange:
    """A planned change of a file. Nothing is written yet."""

    path: Path
    before: str
    after: str
    keys: tuple[Key, ...] = ()
    """Keys of the entries that change."""

    commands: tuple[str, ...] = ()
    """Names of the changed entries that start a program."""

    public: tuple[tuple[str, str], ...] = ()
    """Names and addresses of the changed entries that may need a login: remote, and without headers."""

    settled: tuple[str, ...] = ()
    """Entries that need no change."""

    left: tuple[tuple[str, str], ...] = ()
    """Entries that cannot be changed, with the reason."""

    @property
    def changed(self) -> tuple[str, ...]:
        """Entries that change."""
        return tuple(str(key[-1]) for key in self.keys)

    def diff(self) -> list[str]:
        """The changed entries as a diff, without values of variables and headers and without secrets in arguments.

        Only entries that change are shown: the rest of the file is private, and may be on one line.
        """
        before, after = _parse(self.path, self.before), _parse(self.path, self.after)
        pairs = [(_Member(before, self.before, key), _Member(after, self.after, key)) for key in self.keys]
        secret = _secret_words([member for pair in pairs for member in pair])
        lines = [f"--- {self.path}", f"+++ {self.path}"] if pairs else []
        for old, new in pairs:
            changes = difflib.unified_diff(old.shown(secret), new.shown(secret), lineterm="", n=3)
            lines.append(f"@@ line {before.line(old.key)}: {dotted(old.key)} @@")
            lines += [change for change in changes if not change.startswith(("---", "+++", "@@"))]
        return lines


def plan_routing(client: ClientProgram, path: Path, text: str, route: Route) -> FileChange:
    """Route the servers of a file through the gateway. Entries that are routed already only gain missing variables.

    Raises:
        ConfigError: The client could not read the file; names the file and, where possible, the line.
    """
    document = _parse(path, text)
    edits: list[_Edit] = []
    changed: list[Key] = []
    commands, public, settled, left = [], [], [], []
    for key in _entries(client, document):
        name = str(key[-1])
        if is_ours(_at(document, key)):
            more = _more_variables(document, key, route) if _wanted(name, route) else []
            edits += more
            if more:
                changed.append(key)
            else:
                settled.append(name)
            continue
        if not _wanted(name, route):
            left.append((name, "not chosen"))
            continue
        try:
            edits += _routed(client, document, text, key, route)
        except _Unroutable as reason:
            left.append((name, str(reason)))
        else:
            changed.append(key)
            entry = _at(document, key)
            url = next((entry[one] for one in _ADDRESSES if one in entry), None)
            if url is None:
                commands.append(name)
            elif not entry.get("headers") and not _is_local(url):
                public.append((name, url))
    return FileChange(
        path,
        text,
        _edited(path, text, edits),
        tuple(changed),
        commands=tuple(commands),
        public=tuple(public),
        settled=tuple(settled),
        left=tuple(left),
    )


def plan_undoing(client: ClientProgram, path: Path, text: str, backup: str | None) -> FileChange:
    """Undo the routing. Entries are restored from the backup, with comments; those edited since are unwrapped.

    Raises:
        ConfigError: The client could not read the file.
    """
    document = _parse(path, text)
    original = _original(path, backup)
    edits: list[_Edit] = []
    changed: list[Key] = []
    settled, left = [], []
    for key in _entries(client, document):
        name = str(key[-1])
        entry = _at(document, key)
        earlier = _at(original, key) if original and key in original.spans else None
        if not is_ours(entry) or (earlier is not None and is_ours(earlier)):
            settled.append(name)
            continue
        try:
            unwrapped = _unwrapped(client, entry)
            if original and backup is not None and earlier is not None and _essence(earlier) == _essence(unwrapped):
                start, end = original.spans[key]
                edits.append(_Edit(*document.spans[key], backup[start:end]))
            else:
                edits += _unrouted(client, document, text, key)
        except _Unroutable as reason:
            left.append((name, str(reason)))
        else:
            changed.append(key)
    return FileChange(path, text, _edited(path, text, edits), tuple(changed), settled=tuple(settled), left=tuple(left))


def is_ours(entry: object) -> bool:
    """Whether an entry is routed through the gateway."""
    return _own_words(entry) is not None


def lost_variables(environment: Collection[str], machine: Machine, named: Collection[str]) -> list[str]:
    """Variables that a command inherited from its client and does not get behind the gateway unless they are named."""
    seen = machine.inherited()
    if machine.system == "windows":
        return sorted(name for name in environment if not (name.upper() in seen or is_inherited(name, named)))
    return sorted(name for name in environment if not (name in seen or is_inherited(name, named)))


# Entries


class _Unroutable(Exception):
    """Why an entry is not changed."""


@dataclass(frozen=True, order=True)
class _Edit:
    start: int
    end: int
    text: str = field(compare=False)


def _entries(client: ClientProgram, document: Document) -> Iterator[Key]:
    """The keys of the declared servers.

    Raises:
        ConfigError: The file declares no servers, or their section has the wrong type.
    """
    if not isinstance(document.data, dict):
        raise ConfigError(f"{document.path}:1: is not a configuration of {client.title}: a JSON object is expected.")
    found = False
    for section in client.sections:
        for key in _matching(document.data, section):
            found = True
            servers = _at(document, key)
            if not isinstance(servers, dict):
                raise ConfigError(
                    f"{document.path}:{document.line(key)}: {dotted(key)} must map server names to servers."
                )
            yield from ((*key, name) for name in servers)
    if not found:
        wanted = client.sections[0][-1]
        other = {"servers": "mcpServers", "mcpServers": "servers"}[wanted]
        hint = f" It has {other!r}, which {client.title} does not read." if other in document.data else ""
        raise ConfigError(f"{document.path}: declares no servers: there is no {wanted!r} in it.{hint}")


def _matching(data: object, section: tuple[str, ...], inside: Key = ()) -> Iterator[Key]:
    if not section:
        yield inside
    elif isinstance(data, dict):
        for name in data if section[0] == "*" else [section[0]] if section[0] in data else []:
            yield from _matching(data[name], section[1:], (*inside, name))


def _at(document: Document, key: Key) -> Any:
    value = document.data
    for part in key:
        value = value[part]
    return value


def _wanted(name: str, route: Route) -> bool:
    if any(fnmatchcase(name, pattern) for pattern in route.skip):
        return False
    return not route.only or any(fnmatchcase(name, pattern) for pattern in route.only)


def _routed(client: ClientProgram, document: Document, text: str, key: Key, route: Route) -> list[_Edit]:
    entry = _at(document, key)
    if not isinstance(entry, dict):
        raise _Unroutable("is not a JSON object")
    addresses = [name for name in _ADDRESSES if name in entry]
    if ("command" in entry) + len(addresses) != 1:
        raise _Unroutable("has no command and no address" if not addresses else "has several commands or addresses")
    if "command" in entry:
        return _routed_command(document, text, key, entry, route)
    return _routed_address(document, text, key, entry, addresses[0], route)


def _routed_command(document: Document, text: str, key: Key, entry: Mapping[str, Any], route: Route) -> list[_Edit]:
    arguments = entry.get("args", [])
    if not isinstance(entry["command"], str) or not entry["command"]:
        raise _Unroutable("its command is not a string")
    if not isinstance(arguments, list) or not all(isinstance(item, str) for item in arguments):
        raise _Unroutable("its args are not a list of strings")
    if entry.get("sandboxEnabled") or entry.get("sandbox"):
        raise _Unroutable("runs in the client's sandbox, where results cannot be stored")
    variables = [*_variables(entry), *_variables_in_file(entry, route), *route.inherit]
    words = [*route.launcher[1:], "gateway", "--name", _name(key)]
    for variable in dict.fromkeys(variables):
        words += ["--inherit-env", variable]
    start, end = document.spans[(*key, "command")]
    # The command as written, with its escapes.
    items = [*map(_json, [*words, "--"]), text[start:end]]
    edits = [_Edit(start, end, _json(route.launcher[0]))]
    if "args" not in entry:
        edits.append(
            _Edit(end, end, f",{_gap(document, text, (*key, 'command'))}{_json('args')}: [{', '.join(items)}]")
        )
    elif not arguments:
        opening = document.spans[(*key, "args")][0] + 1
        edits.append(_Edit(opening, opening, ", ".join(items)))
    else:
        first = document.spans[(*key, "args", 0)][0]
        gap = _gap_before(text, first, document.spans[(*key, "args")][0])
        edits.append(_Edit(first, first, f"{', '.join(items)},{gap}"))
    return edits


def _routed_address(
    document: Document, text: str, key: Key, entry: Mapping[str, Any], url: str, route: Route
) -> list[_Edit]:
    headers = entry.get("headers", {})
    if not isinstance(entry[url], str):
        raise _Unroutable("its address is not a string")
    if not re.match(r"(?i)https?://|\$\{", entry[url]):
        raise _Unroutable("its address is neither http nor https")
    if not isinstance(headers, dict) or not all(isinstance(value, str) for value in headers.values()):
        raise _Unroutable("its headers do not map names to strings")
    for login in ("oauth", "auth", "headersHelper"):
        if entry.get(login):
            raise _Unroutable(f"signs in through the client ({login}), which only the client can do")
    if headers and "env" in entry:
        raise _Unroutable("has both headers and env; a routed entry can have only one of them")
    if _holds_a_key(entry[url]) and not _is_named(key, route):
        raise _Unroutable(
            "its address seems to contain a key, which other processes could read on our command line; "
            f"if that is acceptable, add --only {_name(key)}"
        )
    words = [*route.launcher[1:], "gateway", "--name", _name(key), "--upstream"]
    options = ["--sse"] if str(entry.get("type", "")).lower() == "sse" else []
    edits: list[_Edit] = []
    for header, variable in _header_variables(headers).items():
        options += ["--header-from", f"{header}={variable}"]
        edits.append(_Edit(*document.names[(*key, "headers", header)], _json(variable)))
    if headers:
        edits.append(_Edit(*document.names[(*key, "headers")], _json("env")))
    if "type" in entry:
        edits.append(_Edit(*document.spans[(*key, "type")], _json("stdio")))
    start, end = document.spans[(*key, url)]
    items = [*map(_json, words), text[start:end], *map(_json, options)]
    edits.append(_Edit(*document.names[(*key, url)], _json("command")))
    edits.append(
        _Edit(
            start,
            end,
            f"{_json(route.launcher[0])},{_gap(document, text, (*key, url))}{_json('args')}: [{', '.join(items)}]",
        )
    )
    return edits


def _more_variables(document: Document, key: Key, route: Route) -> list[_Edit]:
    """Add `--inherit-env` for variables that a routed entry does not pass on yet."""
    entry = _at(document, key)
    words = _own_words(entry)
    if not words or "--" not in words:
        return []
    at = words.index("--")
    passed = {value for option, value in pairwise(words[:at]) if option == "--inherit-env"}
    missing = [name for name in dict.fromkeys(route.inherit) if name not in passed]
    place = document.spans[(*key, "args", len(entry["args"]) - len(words) + at)][0]
    text = "".join(f"{_json('--inherit-env')}, {_json(name)}, " for name in missing)
    return [_Edit(place, place, text)] if missing else []


def _variables(entry: Mapping[str, Any]) -> list[str]:
    given = entry.get("env", {})
    if not isinstance(given, dict):
        raise _Unroutable("its env is not a JSON object")
    return [name for name, value in given.items() if value is not None]


def _variables_in_file(entry: Mapping[str, Any], route: Route) -> list[str]:
    """The names of the variables in the entry's envFile, which the client loads."""
    named = entry.get("envFile")
    if not named:
        return []
    path = str(named)
    for sign, folder in (("${workspaceFolder}", route.folder), ("${userHome}", route.home), ("~", route.home)):
        if folder and (path.startswith(sign + "/") or path.startswith(sign + "\\")):
            path = str(folder) + path[len(sign) :]
    try:
        content = Path(path).read_text("utf-8-sig")
    except (OSError, ValueError):
        raise _Unroutable(f"its envFile ({named}) cannot be read, so the names of its variables are unknown") from None
    return re.findall(r"(?m)^[ \t]*(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)[ \t]*=", content)


def _header_variables(headers: Mapping[str, str]) -> dict[str, str]:
    named: dict[str, str] = {}
    for header in headers:
        variable = base = "TERSELY_HEADER_" + re.sub(r"[^A-Z0-9]", "_", header.upper())
        number = 2
        while variable in named.values():
            variable, number = f"{base}_{number}", number + 1
        named[header] = variable
    return named


def _name(key: Key) -> str:
    """The name of the server on our command line: its own, without characters that are not allowed there."""
    return re.sub(r"[^\x20-\x7e]", "", str(key[-1])).strip()[:128].lstrip("-") or "server"


def _is_named(key: Key, route: Route) -> bool:
    return any(pattern == str(key[-1]) for pattern in route.only)


def _is_local(url: str) -> bool:
    try:
        return urlsplit(url).hostname in ("localhost", "127.0.0.1", "::1")
    except ValueError:
        return False


def _holds_a_key(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return True
    if parts.query or parts.username or "${" in url:
        return True
    return any(
        len(part) >= 20 and re.search(r"[0-9]", part) and re.search(r"[A-Za-z]", part) for part in parts.path.split("/")
    )


# Undo


def _own_words(entry: object) -> list[str] | None:
    """The arguments after `tersely gateway` in a routed entry; None for other entries."""
    if not isinstance(entry, Mapping):
        return None
    arguments = entry.get("args", [])
    words = [entry.get("command"), *(arguments if isinstance(arguments, list) else [])]
    for at, word in enumerate(words[:-1]):
        if word == "--" or not isinstance(word, str):
            return None
        if PurePath(word.replace("\\", "/")).stem.lower() == "tersely" and words[at + 1] == "gateway":
            return [str(rest) for rest in words[at + 2 :]]
    return None


def _unwrapped(client: ClientProgram, entry: Mapping[str, Any]) -> dict[str, Any]:
    """The entry as it was before it was routed."""
    words = _own_words(entry)
    assert words is not None
    if "--" in words:
        command, *arguments = words[words.index("--") + 1 :] or [""]
        return {"command": command, "args": arguments, "env": entry.get("env", {})}
    if "--upstream" in words[:-1]:
        headers = {variable: header for header, variable in _header_options(words)}
        given = entry.get("env", {})
        if headers and (not isinstance(given, dict) or set(given) - set(headers)):
            raise _Unroutable("has variables that are not headers; restore it by hand")
        return {
            client.url_key: words[words.index("--upstream") + 1],
            "headers": {headers[name]: value for name, value in given.items()} if headers else {},
        }
    raise _Unroutable("starts the gateway with its own file; restore it by hand")


def _header_options(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    for option, value in pairwise(words):
        if option == "--header-from":
            header, _, variable = value.rpartition("=")
            yield header, variable


def _essence(entry: object) -> object:
    """The parts of an entry that decide how the server is reached."""
    if not isinstance(entry, Mapping):
        return None
    url = next((entry[name] for name in _ADDRESSES if name in entry), None)
    return (entry.get("command"), entry.get("args") or [], entry.get("env") or {}, url, entry.get("headers") or {})


def _unrouted(client: ClientProgram, document: Document, text: str, key: Key) -> list[_Edit]:
    entry = _at(document, key)
    words = _own_words(entry)
    assert words is not None
    offset = len(entry["args"]) - len(words)
    if "--" in words:
        at = offset + words.index("--") + 1
        if at >= len(entry["args"]):
            raise _Unroutable("has no command after `--`; restore it by hand")
        start, end = document.spans[(*key, "args", at)]
        first = document.spans[(*key, "args", 0)][0]
        rest = document.spans[(*key, "args", at + 1)][0] if at + 1 < len(entry["args"]) else end
        return [_Edit(*document.spans[(*key, "command")], text[start:end]), _Edit(first, rest, "")]
    start, end = document.spans[(*key, "args", offset + words.index("--upstream") + 1)]
    edits = [
        _Edit(*document.names[(*key, "command")], _json(client.url_key)),
        _Edit(*document.spans[(*key, "command")], text[start:end]),
        _removed(document, key, "args"),
    ]
    headers = list(_header_options(words))
    if headers and "env" in entry:
        edits.append(_Edit(*document.names[(*key, "env")], _json("headers")))
        edits += [
            _Edit(*document.names[(*key, "env", variable)], _json(header))
            for header, variable in headers
            if variable in entry["env"]
        ]
    if "type" in entry:
        edits.append(_Edit(*document.spans[(*key, "type")], _json("sse" if "--sse" in words else "http")))
    return edits


def _removed(document: Document, key: Key, name: str) -> _Edit:
    """Remove a member of an object, with its comma."""
    siblings = sorted(document.names[(*key, other)][0] for other in _at(document, key))
    start, end = document.names[(*key, name)][0], document.spans[(*key, name)][1]
    later = [sibling for sibling in siblings if sibling > start]
    if later:
        return _Edit(start, later[0], "")
    earlier = [
        document.spans[(*key, other)][1] for other in _at(document, key) if document.names[(*key, other)][0] < start
    ]
    return _Edit(max(earlier, default=start), end, "")


def _original(path: Path, backup: str | None) -> Document | None:
    if backup is None:
        return None
    with suppress(ConfigError):
        return _parse(path, backup)
    return None


# Text


def _parse(path: Path, text: str) -> Document:
    # A byte order mark is not part of the JSON; a blank in its place keeps all positions.
    return parse_json(path, f" {text[1:]}" if text.startswith("\ufeff") else text)


def _json(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _gap(document: Document, text: str, key: Key) -> str:
    """The whitespace before this member: a line break with indentation, or a blank."""
    return _gap_before(text, document.names[key][0], document.spans[key[:-1]][0])


def _gap_before(text: str, at: int, opening: int) -> str:
    line = text.rfind("\n", 0, at)
    before = text[line + 1 : at]
    if line < opening or before.strip():
        return " "
    return ("\r\n" if text[line - 1 : line] == "\r" else "\n") + before


def _edited(path: Path, text: str, edits: Sequence[_Edit]) -> str:
    pieces: list[str] = []
    at = 0
    for edit in sorted(edits):
        pieces += (text[at : edit.start], edit.text)
        at = edit.end
    edited = "".join((*pieces, text[at:]))
    _parse(path, edited)  # Never write a file that the client cannot read.
    return edited


@dataclass(frozen=True)
class _Member:
    """An entry with its name, as written."""

    document: Document
    text: str
    key: Key

    def words(self) -> list[tuple[int, int]]:
        """The spans of its arguments and addresses."""
        entry = _at(self.document, self.key)
        arguments = entry.get("args", [])
        places = [("args", number) for number in range(len(arguments))] if isinstance(arguments, list) else []
        return [
            self.document.spans[(*self.key, *place)]
            for place in [*places, *((name,) for name in _ADDRESSES if name in entry)]
        ]

    def shown(self, secret: Collection[str] = ()) -> list[str]:
        """Its lines without the values of variables and headers and without `secret`; references (`${…}`) are kept."""
        entry = _at(self.document, self.key)
        hidden = [span for span in self.words() if self.text[slice(*span)] in secret]
        for group in ("env", "headers"):
            for name in entry[group] if isinstance(entry.get(group), dict) else ():
                span = self.document.spans[(*self.key, group, name)]
                if not re.fullmatch(r'"(?:Bearer )?\$\{[^{}"]*\}"', self.text[slice(*span)]):
                    hidden.append(span)
        start, end = self.document.names[self.key][0], self.document.spans[self.key][1]
        while start and self.text[start - 1] in " \t":
            start -= 1
        pieces: list[str] = []
        for one, other in sorted(hidden):
            pieces += (self.text[start:one], '"…"')
            start = other
        return "".join((*pieces, self.text[start:end])).splitlines()


def _secret_words(members: Sequence[_Member]) -> set[str]:
    """Arguments and addresses, as written, in which the masker finds a secret. They are masked together, because an
    option such as `--token` marks the word after it.
    """
    words = {member.text[slice(*span)] for member in members for span in member.words()}
    shown = "\n".join(line for member in members for line in member.shown())
    masked = mask(shown)
    return {word for word in words if not _is_our_word(word) and masked.count(word) < shown.count(word)}


def _is_our_word(word: str) -> bool:
    return (
        word.strip('"') in ("gateway", "--name", "--inherit-env", "--upstream", "--header-from", "--sse", "--")
        or "TERSELY_HEADER_" in word
    )


# Files


def read_file(path: Path) -> str:
    """The text of a client's file, with its line ends and byte order mark.

    Raises:
        ConfigError: The file cannot be read, or is not UTF-8 text.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(_LARGEST_FILE + 1)
    except OSError as problem:
        raise ConfigError(f"{path}: cannot be read: {problem.strerror or type(problem).__name__}.") from None
    if len(raw) > _LARGEST_FILE:
        raise ConfigError(f"{path}: is larger than {_LARGEST_FILE // 2**20} MB; that is not a configuration file.")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise ConfigError(f"{path}:{raw[: problem.start].count(10) + 1}: is not UTF-8 text.") from None


def replace_file(path: Path, before: str, after: str) -> None:
    """Replace a file atomically, unless it has changed since it was read as `before`. Follows links, keeps permissions.

    Raises:
        ConfigError: The file has changed, or cannot be written.
    """
    if read_file(path) != before:
        raise ConfigError(
            f"{path}: has changed in the meantime, perhaps by the client itself. Nothing was written; try again."
        )
    write_file(path.resolve(), after, permissions=stat.S_IMODE(path.stat().st_mode))


def write_file(path: Path, text: str, *, permissions: int) -> None:
    """Write a file atomically: readers see the old content or the new one.

    Raises:
        ConfigError: The file cannot be written.
    """
    try:
        handle, temporary = tempfile.mkstemp(prefix=path.name, dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(text.encode("utf-8"))
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).chmod(permissions)
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as problem:
        raise ConfigError(f"{path}: cannot be written: {problem.strerror or type(problem).__name__}.") from None
