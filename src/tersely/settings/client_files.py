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
from typing import Any
from urllib.parse import urlsplit

from tersely.errors import ConfigError
from tersely.masking.mask import mask
from tersely.mcp.servers import is_inherited
from tersely.settings.client_programs import ClientProgram, EntryKeys, Machine
from tersely.settings.files import Document, Key, dotted, parse_json, parse_yaml
from tersely.settings.toml_spans import parse_toml

_LARGEST_FILE = 64 * 2**20
BACKUP = ".before-tersely"
"""Suffix of the backup that is written next to a file before it is changed."""


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

    client: ClientProgram
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
        before, after = _parse(self.client, self.path, self.before), _parse(self.client, self.path, self.after)
        pairs = [
            (_Entry(self.client, before, self.before, key), _Entry(self.client, after, self.after, key))
            for key in self.keys
        ]
        secret = _secret_words([entry for pair in pairs for entry in pair])
        lines = [f"--- {self.path}", f"+++ {self.path}"] if pairs else []
        for old, new in pairs:
            changes = difflib.unified_diff(_shown(old, secret), _shown(new, secret), lineterm="", n=3)
            lines.append(f"@@ line {before.line(old.key)}: {dotted(old.key)} @@")
            lines += [change for change in changes if not change.startswith(("---", "+++", "@@"))]
        return lines


def plan_routing(client: ClientProgram, path: Path, text: str, route: Route) -> FileChange:
    """Route the servers of a file through the gateway. Entries that are routed already only gain missing variables.

    Raises:
        ConfigError: The client could not read the file; names the file and, where possible, the line.
    """
    document = _parse(client, path, text)
    edits: list[_Edit] = []
    changed: list[Key] = []
    commands, public, settled, left = [], [], [], []
    for key in _entries(client, document):
        name = str(key[-1])
        entry = _Entry(client, document, text, key)
        if is_ours(entry.data):
            more = _more_variables(entry, route) if _wanted(name, route) else []
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
            edits += _routed(entry, route)
        except _Unroutable as reason:
            left.append((name, str(reason)))
        else:
            changed.append(key)
            url = _canonical(entry)["url"]
            if url is None:
                commands.append(name)
            elif not entry.data.get(client.keys.headers) and not _is_local(url):
                public.append((name, url))
    return FileChange(
        client,
        path,
        text,
        _edited(client, path, text, edits),
        tuple(changed),
        commands=tuple(commands),
        public=tuple(public),
        settled=tuple(settled),
        left=tuple(left),
    )


def plan_undoing(client: ClientProgram, path: Path, text: str, backup: str | None) -> FileChange:
    """Undo the routing. Entries are restored from the backup, byte by byte; those edited since keep what was edited.

    Raises:
        ConfigError: The client could not read the file.
    """
    document = _parse(client, path, text)
    original = _original(client, path, backup)
    edits: list[_Edit] = []
    changed: list[Key] = []
    settled, left = [], []
    for key in _entries(client, document):
        name = str(key[-1])
        entry = _Entry(client, document, text, key)
        earlier = _Entry(client, original, backup or "", key) if original and key in original.spans else None
        if not is_ours(entry.data) or (earlier is not None and is_ours(earlier.data)):
            settled.append(name)
            continue
        try:
            unwrapped = _unwrapped(entry)
            back = _unrouted(entry)
            if earlier is not None and _canonical(earlier) == unwrapped and _is_as_routed(entry, back, earlier):
                edits.append(_Edit(*entry.span(), earlier.written()))
            else:
                edits += back
        except _Unroutable as reason:
            left.append((name, str(reason)))
        else:
            changed.append(key)
    after = _edited(client, path, text, edits)
    return FileChange(client, path, text, after, tuple(changed), settled=tuple(settled), left=tuple(left))


def _is_as_routed(entry: "_Entry", back: "Sequence[_Edit]", earlier: "_Entry") -> bool:
    """Whether nothing in an entry was edited since it was routed: not a setting beside the command, not a comment.

    Both are taken the same way, there and back, because routing does not keep all white space.
    """
    client, path = entry.client, entry.document.path
    try:
        there = _edited(client, path, earlier.text, _routed(earlier, Route(["tersely"], only=(str(earlier.key[-1]),))))
        routed = _Entry(client, _parse(client, path, there), there, earlier.key)
        texts = [_edited(client, path, one.text, edits) for one, edits in ((entry, back), (routed, _unrouted(routed)))]
        written = [_Entry(client, _parse(client, path, text), text, entry.key).written() for text in texts]
    except (_Unroutable, ConfigError):
        return False
    one, other = map(_without_blanks, written) if client.syntax == "json" else written
    return one == other


def _without_blanks(text: str) -> str:
    """JSON without what only lays it out, as editors change it in a whole file."""
    return re.sub(r'("(?:\\.|[^"\\])*+")|\s+', lambda found: found[1] or "", text)


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
        if found and client.first_section:
            break
        for key in _matching(document.data, section):
            found = True
            servers = _at(document, key)
            if not isinstance(servers, dict):
                raise ConfigError(
                    f"{document.path}:{document.line(key)}: {dotted(key)} must map server names to servers."
                )
            yield from ((*key, name) for name in servers)
    if not found:
        wanted = client.sections[-1][0] if client.first_section else client.sections[0][-1]
        others = [name for name in _SECTIONS if name in document.data and name != wanted]
        hint = f" It has {others[0]!r}, which {client.title} does not read." if others else ""
        raise ConfigError(f"{document.path}: declares no servers: there is no {wanted!r} in it.{hint}")


_SECTIONS = ("mcpServers", "servers", "mcp_servers", "context_servers", "extensions", "mcp")


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


def _routed(entry: "_Entry", route: Route) -> list[_Edit]:
    data, keys = entry.data, entry.keys
    if not isinstance(data, dict):
        raise _Unroutable("is not a JSON object" if entry.document.syntax == "json" else "is not a table of settings")
    addresses = [name for name in keys.urls if name in data]
    if (keys.command in data) + len(addresses) != 1:
        raise _Unroutable("has no command and no address" if not addresses else "has several commands or addresses")
    return _routed_address(entry, addresses[0], route) if addresses else _routed_command(entry, route)


def _routed_command(entry: "_Entry", route: Route) -> list[_Edit]:
    data, keys = entry.data, entry.keys
    arguments = data.get(keys.args, []) if keys.args else data[keys.command]
    if keys.args and (not isinstance(data[keys.command], str) or not data[keys.command]):
        raise _Unroutable("its command is not a string")
    if not isinstance(arguments, list) or not all(isinstance(item, str) for item in arguments):
        raise _Unroutable(f"its {keys.args or keys.command} are not a list of strings")
    if not keys.args and not arguments:
        raise _Unroutable("its command is empty")
    if data.get("sandboxEnabled") or data.get("sandbox"):
        raise _Unroutable("runs in the client's sandbox, where results cannot be stored")
    variables = [*_variables(entry), *_variables_in_file(data, route), *route.inherit]
    words = [*route.launcher[1:], "gateway", "--name", _name(entry.key)]
    for variable in dict.fromkeys(variables):
        words += ["--inherit-env", variable]
    if not keys.args:
        return [entry.items_inserted(keys.command, 0, [*map(_json, (route.launcher[0], *words, "--"))])]
    # The command as written, with its escapes.
    items = [*map(_json, [*words, "--"]), entry.written(keys.command)]
    edits = [_Edit(*entry.span(keys.command), _json(route.launcher[0]))]
    if keys.args in data:
        edits.append(entry.items_inserted(keys.args, 0, items))
    else:
        edits.append(entry.member_added(keys.command, keys.args, f"[{', '.join(items)}]"))
    return edits


def _routed_address(entry: "_Entry", url: str, route: Route) -> list[_Edit]:
    data, keys, key = entry.data, entry.keys, entry.key
    headers = data.get(keys.headers) or {}
    if not isinstance(data[url], str):
        raise _Unroutable("its address is not a string")
    if not re.match(r"(?i)https?://|\$\{", data[url]):
        raise _Unroutable("its address is neither http nor https")
    if not isinstance(headers, dict) or not all(isinstance(value, str) for value in headers.values()):
        raise _Unroutable("its headers do not map names to strings")
    for login in keys.logins:
        if data.get(login) or (login in data and not keys.args):
            raise _Unroutable(f"signs in through the client ({login}), which only the client can do")
    if headers and keys.env in data:
        raise _Unroutable("has both headers and env; a routed entry can have only one of them")
    if _holds_a_key(data[url]) and not _is_named(key, route):
        raise _Unroutable(
            "its address seems to contain a key, which other processes could read on our command line; "
            f"if that is acceptable, add --only {_name(key)}"
        )
    words = [*route.launcher[1:], "gateway", "--name", _name(key), "--upstream"]
    kind = str(data.get("type", "")).lower()
    is_sse = kind == "sse" or (url in keys.sse_urls and not kind and data[url].rstrip("/").endswith("/sse"))
    options = ["--sse"] if is_sse else []
    edits: list[_Edit] = []
    for header, variable in _header_variables(headers).items():
        options += ["--header-from", f"{header}={variable}"]
        edits.append(entry.renamed((keys.headers, header), variable))
    if headers:
        edits.append(entry.renamed((keys.headers,), keys.env))
    if "type" in data:
        edits.append(_Edit(*entry.span("type"), _json(keys.stdio)))
    items = [*map(_json, words), entry.written(url), *map(_json, options)]
    edits.append(entry.renamed((url,), keys.command))
    if not keys.args:
        edits.append(_Edit(*entry.span(url), f"[{', '.join([_json(route.launcher[0]), *items])}]"))
        return edits
    edits.append(_Edit(*entry.span(url), _json(route.launcher[0])))
    edits.append(entry.member_added(url, keys.args, f"[{', '.join(items)}]"))
    return edits


def _more_variables(entry: "_Entry", route: Route) -> list[_Edit]:
    """Add `--inherit-env` for variables that a routed entry does not pass on yet."""
    words = _own_words(entry.data)
    if not words or "--" not in words:
        return []
    at = words.index("--")
    passed = {value for option, value in pairwise(words[:at]) if option == "--inherit-env"}
    missing = [name for name in dict.fromkeys(route.inherit) if name not in passed]
    arguments = entry.keys.args or entry.keys.command
    items = [_json(word) for name in missing for word in ("--inherit-env", name)]
    number = len(entry.data[arguments]) - len(words) + at
    return [entry.items_inserted(arguments, number, items)] if missing else []


def _variables(entry: "_Entry") -> list[str]:
    given = entry.data.get(entry.keys.env) or {}
    if not isinstance(given, dict):
        raise _Unroutable("its env is not a JSON object")
    named = [name for name, value in given.items() if value is not None]
    for group in entry.keys.variables:
        for one in entry.data.get(group) or ():
            name = one.get("name") if isinstance(one, dict) else one
            if not isinstance(name, str):
                raise _Unroutable(f"its {group} are not names of variables")
            named.append(name)
    return named


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
    command = entry.get("command", entry.get("cmd"))
    arguments = entry.get("args", [])
    words = command if isinstance(command, list) else [command, *(arguments if isinstance(arguments, list) else [])]
    for at, word in enumerate(words[:-1]):
        if word == "--" or not isinstance(word, str):
            return None
        if PurePath(word.replace("\\", "/")).stem.lower() == "tersely" and words[at + 1] == "gateway":
            return [str(rest) for rest in words[at + 2 :]]
    return None


def _canonical(entry: "_Entry") -> dict[str, Any]:
    """The parts of an entry that decide how the server is reached."""
    data, keys = entry.data, entry.keys
    if not isinstance(data, Mapping):
        return {}
    command = data.get(keys.command)
    words = command if isinstance(command, list) else [command, *(data.get(keys.args) or [])] if command else []
    return {
        "words": words,
        "env": data.get(keys.env) or {},
        "url": next((data[name] for name in keys.urls if name in data), None),
        "headers": data.get(keys.headers) or {},
    }


def _unwrapped(entry: "_Entry") -> dict[str, Any]:
    """The entry as it was before it was routed, in the form of `_canonical`."""
    words = _own_words(entry.data)
    assert words is not None
    given = entry.data.get(entry.keys.env) or {}
    if "--" in words:
        command = words[words.index("--") + 1 :]
        return {"words": command, "env": given, "url": None, "headers": entry.data.get(entry.keys.headers) or {}}
    if "--upstream" in words[:-1]:
        headers = {variable: header for header, variable in _header_options(words)}
        if headers and (not isinstance(given, dict) or set(given) - set(headers)):
            raise _Unroutable("has variables that are not headers; restore it by hand")
        return {
            "words": [],
            "env": {} if headers else given,
            "url": words[words.index("--upstream") + 1],
            "headers": {headers[name]: value for name, value in given.items()} if headers else {},
        }
    raise _Unroutable("starts the gateway with its own file; restore it by hand")


def _header_options(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    for option, value in pairwise(words):
        if option == "--header-from":
            header, _, variable = value.rpartition("=")
            yield header, variable


def _unrouted(entry: "_Entry") -> list[_Edit]:
    data, keys = entry.data, entry.keys
    words = _own_words(data)
    assert words is not None
    arguments = keys.args or keys.command
    offset = len(data[arguments]) - len(words)
    if "--" in words:
        at = offset + words.index("--") + 1
        if at >= len(data[arguments]):
            raise _Unroutable("has no command after `--`; restore it by hand")
        if not keys.args:
            return [entry.items_removed(arguments, at)]
        return [
            _Edit(*entry.span(keys.command), entry.written(arguments, at)),
            entry.items_removed(arguments, at + 1),
        ]
    address = entry.written(arguments, offset + words.index("--upstream") + 1)
    edits = [entry.renamed((keys.command,), keys.url), _Edit(*entry.span(keys.command), address)]
    if keys.args:
        edits.append(entry.member_removed(keys.args))
    headers = list(_header_options(words))
    if headers and keys.env in data:
        edits.append(entry.renamed((keys.env,), keys.headers))
        edits += [
            entry.renamed((keys.env, variable), header) for header, variable in headers if variable in data[keys.env]
        ]
    if "type" in data:
        edits.append(_Edit(*entry.span("type"), _json(keys.sse if "--sse" in words else keys.http)))
    return edits


def _original(client: ClientProgram, path: Path, backup: str | None) -> Document | None:
    if backup is None:
        return None
    with suppress(ConfigError):
        return _parse(client, path, backup)
    return None


# Text


def _parse(client: ClientProgram, path: Path, text: str) -> Document:
    if client.syntax == "toml":
        return parse_toml(path, text)
    if client.syntax == "yaml":
        return parse_yaml(path, text)
    # A byte order mark is not part of the JSON; a blank in its place keeps all positions.
    return parse_json(path, f" {text[1:]}" if text.startswith("\ufeff") else text)


def _json(value: str) -> str:
    """A string as JSON writes it, which YAML and TOML read as well."""
    return json.dumps(value, ensure_ascii=False)


@dataclass(frozen=True)
class _Entry:
    """One server in the text of a file, and how to change it there."""

    client: ClientProgram
    document: Document
    text: str
    key: Key

    @property
    def data(self) -> Any:
        return _at(self.document, self.key)

    @property
    def keys(self) -> EntryKeys:
        return self.client.keys

    def span(self, *place: str | int) -> tuple[int, int]:
        return self._found(self.document.spans, place)

    def name(self, *place: str | int) -> tuple[int, int]:
        return self._found(self.document.names, place)

    def _found(self, places: Mapping[Key, tuple[int, int]], place: Key) -> tuple[int, int]:
        try:
            return places[(*self.key, *place)]
        except KeyError:
            raise _Unroutable("is written in a form that cannot be edited safely; change it by hand") from None

    def written(self, *place: str | int) -> str:
        return self.text[slice(*self.span(*place))]

    def renamed(self, place: Key, name: str) -> _Edit:
        is_bare = self.document.syntax != "json" and re.fullmatch(r"[A-Za-z0-9_-]+", name)
        return _Edit(*self.name(*place), name if is_bare else _json(name))

    def items_inserted(self, name: str, number: int, items: Sequence[str]) -> _Edit:
        """Insert items into a list, before the one with this number."""
        if not self.data[name]:
            opening = self.span(name)[0] + 1
            return _Edit(opening, opening, ", ".join(items))
        start = self.span(name, number)[0]
        if (*self.key, name) in self.document.blocks:
            dash = self.text.rindex("-", 0, start)
            indent = self.text[self.text.rfind("\n", 0, dash) + 1 : dash]
            return _Edit(dash, dash, "".join(f"- {item}\n{indent}" for item in items))
        gap = _gap_before(self.text, start, self.span(name)[0])
        return _Edit(start, start, f"{', '.join(items)},{gap}")

    def items_removed(self, name: str, until: int) -> _Edit:
        """Remove the items of a list before the one with this number."""
        is_all = until >= len(self.data[name])
        if (*self.key, name) in self.document.blocks:
            if is_all:
                return _Edit(*self.span(name), "[]")
            first, rest = (self.text.rindex("-", 0, self.span(name, number)[0]) for number in (0, until))
            return _Edit(first, rest, "")
        first = self.span(name, 0)[0]
        return _Edit(first, self.span(name, until - 1)[1] if is_all else self.span(name, until)[0], "")

    def member_added(self, after: str, name: str, value: str) -> _Edit:
        end = self.span(after)[1]
        sign = {"json": f"{_json(name)}: ", "yaml": f"{name}: ", "toml": f"{name} = "}[self.document.syntax]
        if self.key not in self.document.blocks:
            gap = _gap_before(self.text, self.name(after)[0], self.span()[0])
            return _Edit(end, end, f",{gap}{sign}{value}")
        # On a line of its own, after the comment that may follow the value.
        start = self.name(after)[0]
        indent = " " * (start - self.text.rfind("\n", 0, start) - 1)
        end = next((found.start() for found in re.finditer(r"\r?\n", self.text[end:])), len(self.text) - end) + end
        ending = "\r\n" if self.text[end : end + 1] == "\r" else "\n"
        return _Edit(end, end, f"{ending}{indent}{sign}{value}")

    def member_removed(self, name: str) -> _Edit:
        """Remove a member, with its comma or its line."""
        start, end = self.name(name)[0], self.span(name)[1]
        if self.key in self.document.blocks:
            line = max(0, self.text.rfind("\n", 0, start))
            return _Edit(line - (self.text[line - 1 : line] == "\r"), end, "")
        others = [other for other in self.data if other != name and (*self.key, other) in self.document.names]
        before = max((ended for other in others if (ended := self.span(other)[1]) <= start), default=start)
        if re.fullmatch(r",\s*", self.text[before:start]):  # as `member_added` writes it; what follows stays
            return _Edit(before, end, "")
        if later := [self.name(other)[0] for other in others if self.name(other)[0] > start]:
            return _Edit(start, min(later), "")
        return _Edit(max((self.span(other)[1] for other in others), default=start), end, "")


def _gap_before(text: str, at: int, opening: int) -> str:
    """The whitespace before a member: a line break with indentation, or a blank."""
    line = text.rfind("\n", 0, at)
    before = text[line + 1 : at]
    if line < opening or before.strip():
        return " "
    return ("\r\n" if text[line - 1 : line] == "\r" else "\n") + before


def _edited(client: ClientProgram, path: Path, text: str, edits: Sequence[_Edit]) -> str:
    pieces: list[str] = []
    at = 0
    for edit in sorted(edits):
        pieces += (text[at : edit.start], edit.text)
        at = edit.end
    edited = "".join((*pieces, text[at:]))
    _parse(client, path, edited)  # Never write a file that the client cannot read.
    return edited


def _words_of(entry: _Entry) -> list[tuple[int, int]]:
    """The spans of its arguments and addresses."""
    data, keys = entry.data, entry.keys
    places: list[Key] = [(name,) for name in keys.urls if name in data]
    for name in (keys.command, keys.args):
        if isinstance(data.get(name), list):
            places += [(name, number) for number in range(len(data[name]))]
    return [entry.span(*place) for place in places]


def _shown(entry: _Entry, secret: Collection[str] = ()) -> list[str]:
    """Its lines without the values of variables and headers and without `secret`; references (`${…}`) are kept."""
    hidden = [span for span in _words_of(entry) if entry.text[slice(*span)] in secret]
    for group in (entry.keys.env, entry.keys.headers):
        given = entry.data.get(group)
        for name in given if isinstance(given, dict) else ():
            span = entry.span(group, name)
            if not re.fullmatch(r'"(?:Bearer )?\$\{[^{}"]*\}"', entry.text[slice(*span)]):
                hidden.append(span)
    start, end = min(entry.name()[0], entry.span()[0]), entry.span()[1]
    while start and entry.text[start - 1] in " \t":
        start -= 1
    pieces: list[str] = []
    for one, other in sorted(hidden):
        pieces += (entry.text[start:one], '"…"')
        start = other
    return "".join((*pieces, entry.text[start:end])).splitlines()


def _secret_words(entries: Sequence[_Entry]) -> set[str]:
    """Arguments and addresses, as written, in which the masker finds a secret. They are masked together, because an
    option such as `--token` marks the word after it.
    """
    words = {entry.text[slice(*span)] for entry in entries for span in _words_of(entry)}
    shown = "\n".join(line for entry in entries for line in _shown(entry))
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
