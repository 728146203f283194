"""Reads configuration files: `mcp_servers` in YAML, and the `mcpServers` JSON that MCP clients share.

The line of every value is known, `${VAR}` and `${VAR:-default}` are resolved, and all
problems are reported at once, each with file, line, key and what is valid. Messages
never contain the value of a variable.

The options themselves are defined in `mcp.servers`. This module writes no file, and
looks up only the variables that a file names.
"""

import difflib
import json
import re
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from json.decoder import scanstring  # type: ignore[attr-defined]
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from pydantic import AliasChoices, BaseModel, ValidationError

from tersely.errors import ConfigError
from tersely.mcp.servers import Server, ServerOptions, TransportOptions
from tersely.settings.environment import settings_environment

if TYPE_CHECKING:
    from tersely.settings.yaml_reader import YamlReader

Key = tuple[str | int, ...]

_LARGEST_FILE = 4 * 2**20
DEEPEST = 64

_IN_TRANSPORT = frozenset(TransportOptions.model_fields)
_OTHER_CLIENTS = frozenset(
    (
        "autoApprove",
        "alwaysAllow",
        "description",
        "name",
        "icon",
        "gallery",
        "version",
        "dev",
        "trust",
        "note",
        "metadata",
    )
)
"""Keys that other clients store in an entry. They do not concern the connection, so they are ignored."""

_OTHER_NAMES: Mapping[str, tuple[str, str]] = {
    "serverUrl": ("transport", "url"),
    "disabledTools": ("tools", "deny"),
    "enabledTools": ("tools", "allow"),
}
"""Keys of other clients, and ours for the same thing."""


@dataclass(frozen=True)
class Document:
    """A parsed file, with the line of every key."""

    path: Path
    data: Any
    lines: Mapping[Key, int]
    spans: Mapping[Key, tuple[int, int]] = field(default_factory=dict)
    """Where the value of each key begins and ends in the text."""

    names: Mapping[Key, tuple[int, int]] = field(default_factory=dict)
    """Where each key itself begins and ends, with its quotes."""

    syntax: Literal["json", "yaml", "toml"] = "json"
    blocks: Collection[Key] = frozenset()
    """Keys whose members have lines of their own: tables of TOML, and mappings and lists of YAML without brackets."""

    def line(self, key: Key) -> int:
        """The line of a key; of a missing key, the line of its parent."""
        while key and key not in self.lines:
            key = key[:-1]
        return self.lines.get(key, 1)


@dataclass
class ConfigProblems:
    """The problems of a file."""

    document: Document
    found: list[tuple[int, str]] = field(default_factory=list)
    unset: set[Key] = field(default_factory=set)
    """Keys whose value needs a variable that is not set."""

    def add(self, key: Key, message: str, *, line: int | None = None) -> None:
        place = line or self.document.line(key)
        name = dotted(key)
        self.found.append((place, f"{self.document.path}:{place}: {name}{': ' if name else ''}{message}"))

    def needs_variable(self, key: Key) -> bool:
        """Whether the value, or a part of it, needs a variable that is not set: that is reported already."""
        return any(key == unset[: len(key)] or unset == key[: len(unset)] for unset in self.unset)

    def raise_if_any(self) -> None:
        if self.found:
            raise ConfigError("\n".join(message for _, message in sorted(self.found, key=lambda problem: problem[0])))


def dotted(key: Key) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in key).removeprefix(".")


def read_servers(path: Path, environment: Mapping[str, str] | None = None) -> tuple[Server, ...]:
    """The servers that a file declares, including disabled ones.

    Raises:
        ConfigError: Lists every problem: file, line, key, and the closest valid name.
    """
    document = read_document(path)
    problems = ConfigProblems(document)
    section = _section(document, problems)
    environment = settings_environment(path.absolute().parent) if environment is None else environment
    servers = servers_in(section, environment, problems) if section else ()
    problems.raise_if_any()
    return servers


def servers_in(section: str, environment: Mapping[str, str], problems: ConfigProblems) -> tuple[Server, ...]:
    """The valid servers in one section of a file."""
    declared = problems.document.data.get(section)
    if not isinstance(declared, dict):
        problems.add((section,), "must be a mapping of server names to their settings")
        return ()
    servers: list[Server] = []
    for name, entry in declared.items():
        key: Key = (section, name)
        filled = fill_variables(entry, key, environment, problems)
        if not isinstance(filled, dict):
            problems.add(key, "must be a mapping, with a command or a url in it")
            continue
        shaped, places = one_shape(filled) if section != "mcp_servers" else (filled, {})
        server = _checked(Server, {"name": name, "options": shaped}, key, places, problems)
        if server:
            servers.append(server)
    return tuple(servers)


def _section(document: Document, problems: ConfigProblems) -> str | None:
    known = ("mcp_servers", "mcpServers", "servers")
    if not isinstance(document.data, dict):
        problems.add((), f"must be a mapping with `{known[0]}` (YAML) or `{known[1]}` (JSON) in it")
        return None
    found = [name for name in known if name in document.data]
    if len(found) == 1:
        return found[0]
    if found:
        problems.add((found[1],), f"is declared next to {found[0]}; keep one of them")
        return None
    near = [
        (name, close[0])
        for name in map(str, document.data)
        if (close := difflib.get_close_matches(name, known, n=1, cutoff=0.7))
    ]
    hint = f"; did you mean {near[0][1]!r} by {near[0][0]!r}?" if near else "."
    problems.add((), f"declares no servers: there is neither `mcp_servers` nor `mcpServers` in it{hint}")
    return None


def one_shape(entry: dict[str, Any]) -> tuple[dict[str, Any], dict[Key, Key]]:
    """An entry of a client's file in our format, and the original place of its keys.

    Clients write `command`, `url` and the like at the top level; we group them under `transport`.
    """
    shaped: dict[str, Any] = {}
    transport: dict[str, Any] = {}
    places: dict[Key, Key] = {("transport",): ()}
    for name, value in entry.items():
        if name in _OTHER_CLIENTS:
            continue
        if name in _IN_TRANSPORT:
            transport[name] = value
            places["transport", name] = (name,)
        elif name == "enabled" and isinstance(value, bool):
            shaped["disabled"] = not value
        elif name in _OTHER_NAMES and _OTHER_NAMES[name][0] not in entry:
            group, ours = _OTHER_NAMES[name]
            (transport if group == "transport" else shaped.setdefault(group, {}))[ours] = value
            places[group, ours] = (name,)
        else:
            shaped[name] = value
    if "transport" not in shaped:
        shaped["transport"] = transport
    return shaped, places


def _checked(
    model: type[Server], given: dict[str, Any], key: Key, places: Mapping[Key, Key], problems: ConfigProblems
) -> Server | None:
    try:
        return model.model_validate(given)
    except ValidationError as wrong:
        reported: set[Key] = set()
        for error in wrong.errors(include_url=False, include_context=False):
            at: Key = tuple(part for part in error["loc"] if not _is_kind(part))
            inner = at[1:] if at[:1] == ("options",) else ()
            moved = next(
                (places[inner[:size]] + inner[size:] for size in range(len(inner), 0, -1) if inner[:size] in places),
                inner,
            )
            place = (*key, *moved)
            # A union reports an error for each of its types; one is enough.
            if place in reported or (error["type"] != "extra_forbidden" and problems.needs_variable(place)):
                continue
            reported.add(place)
            if inner == ("envFile",):
                message = "is not read here: name the variables under `env`, as ${NAME}, or under `inherit_env`"
            elif error["type"] == "extra_forbidden":
                message = _unknown(inner, places)
            elif error["type"] == "missing" and inner == ("transport",):
                message = "is missing: the server needs a `command` or a `url`"
            else:
                message = plain_message(error["msg"], error["input"], error["type"])
            problems.add(place, message)
    return None


def _is_kind(part: str | int) -> bool:
    """Whether a part of a place is the name of a type in a union."""
    return isinstance(part, str) and (part == "bool" or part.startswith("function-"))


def plain_message(message: str, value: object, kind: str) -> str:
    """A message of pydantic, to follow the name of a key, and without the value if that is a string."""
    message = message.removeprefix("Value error, ").removeprefix("Assertion failed, ")
    # Numbers and booleans are safe to show; a string may come from a variable.
    shown = f" (is {value!r})" if isinstance(value, bool | int | float) and kind != "value_error" else ""
    near = (
        difflib.get_close_matches(value, re.findall(r"'([^']+)'", message), n=1)
        if isinstance(value, str) and kind == "literal_error"
        else []
    )
    hint = f"; did you mean {near[0]!r}?" if near else ""
    if kind == "string_type" and isinstance(value, bool | int | float):
        hint = "; put it in quotes"  # `on`, `no` and `500` are not strings in YAML.
    if kind == "too_short":
        return "needs at least one entry"
    message = message.removeprefix("Input ").replace("valid tuple", "list").replace("valid dictionary", "mapping")
    first = message[:1] if message[1:2].isupper() else message[:1].lower()
    return f"{first}{message[1:]}{shown}{hint}"


def _unknown(inner: Key, places: Mapping[Key, Key]) -> str:
    """The message about an unknown key: the closest valid one, and all valid ones."""
    names = field_names(_model_at(inner[:-1]))
    if places and len(inner) == 1:
        names = sorted({*names, *_IN_TRANSPORT} - {"transport"})
    return f"is not a setting{nearest(str(inner[-1]), names)}"


def nearest(name: str, names: Collection[str]) -> str:
    """The end of a message about an unknown name: the closest valid one, and all valid ones."""
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    return f"{f'; did you mean {close[0]!r}?' if close else '.'} There are: {', '.join(names)}."


def _model_at(key: Key) -> type[BaseModel]:
    model: type[BaseModel] = ServerOptions
    for part in key:
        found = model.model_fields.get(str(part))
        inner = next(_models(found.annotation), None) if found else None
        if inner is None:
            break
        model = inner
    return model


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models(inner)


def field_names(model: type[BaseModel]) -> list[str]:
    """The keys of a model in a file."""
    names = []
    for name, described in model.model_fields.items():
        alias = described.validation_alias
        names.append(str(alias.choices[0]) if isinstance(alias, AliasChoices) else name)
    return names


# Variables

_VARIABLE = re.compile(r"(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(:-)?")


def fill_variables(value: Any, key: Key, environment: Mapping[str, str], problems: ConfigProblems) -> Any:
    """The value with `${VAR}` and `${VAR:-default}` resolved, at any depth; `$${` is an escaped `${`."""
    if isinstance(value, str):
        return _filled(value, key, environment, problems)
    if isinstance(value, dict):
        return {name: fill_variables(inner, (*key, name), environment, problems) for name, inner in value.items()}
    if isinstance(value, list):
        return [fill_variables(inner, (*key, number), environment, problems) for number, inner in enumerate(value)]
    return value


def _filled(text: str, key: Key, environment: Mapping[str, str], problems: ConfigProblems) -> str:
    pieces: list[str] = []
    at = 0
    while (start := text.find("${", at)) >= 0:
        if start > at and text[start - 1] == "$":
            pieces.append(text[at : start - 1] + "${")
            at = start + 2
            continue
        pieces.append(text[at:start])
        end = _closing(text, start + 2)
        if end is None:
            problems.add(key, "has a `${` that is not closed; write `$${` for a literal one")
            return text
        inner = text[start + 2 : end]
        at = end + 1
        variable = _VARIABLE.match(inner)
        if variable is None or not (variable[2] or variable.end() == len(inner)):
            shown = inner if re.fullmatch(r"[\w:. -]{1,60}", inner) else "…"
            problems.add(key, f"`${{{shown}}}` is not a variable; write ${{NAME}} or ${{NAME:-default}}")
            continue
        # An empty variable counts as unset: Compose files pass every variable, set or not.
        if content := environment.get(variable[1], ""):
            pieces.append(content)
        elif variable[2]:
            pieces.append(_filled(inner[variable.end() :], key, environment, problems))
        else:
            problems.unset.add(key)
            pieces.append(text[start:at])  # So that a key that is not a setting is reported, too.
            close = difflib.get_close_matches(variable[1], list(environment), n=1, cutoff=0.8)
            hint = f" ({close[0]} is set; did you mean that?)" if close and close[0] != variable[1] else ""
            problems.add(
                key,
                f"variable {variable[1]} is not set or empty{hint}; set it, or give a default: ${{{variable[1]}:-…}}",
            )
    pieces.append(text[at:])
    return "".join(pieces)


def _closing(text: str, at: int) -> int | None:
    depth = 0
    while at < len(text):
        if text.startswith("${", at):
            depth += 1
            at += 1
        elif text[at] == "}":
            if depth == 0:
                return at
            depth -= 1
        at += 1
    return None


# Files


def read_document(path: Path) -> Document:
    """A YAML or JSON file (`.json`, `.jsonc`; comments and trailing commas allowed) with the line of every key.

    Raises:
        ConfigError: The file cannot be read or parsed, or contains a key twice.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(_LARGEST_FILE + 1)
    except OSError as problem:
        raise ConfigError(f"{path}: cannot be read: {problem.strerror or type(problem).__name__}.") from None
    if len(raw) > _LARGEST_FILE:
        raise ConfigError(f"{path}: is larger than {_LARGEST_FILE // 2**20} MB; that is not a configuration file.")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise ConfigError(f"{path}:{raw[: problem.start].count(10) + 1}: is not UTF-8 text.") from None
    return parse_json(path, text) if path.suffix.lower() in (".json", ".jsonc") else parse_yaml(path, text)


def parse_json(path: Path, text: str) -> Document:
    """Parse JSON with comments; `path` is for messages.

    Raises:
        ConfigError: The text cannot be parsed, or contains a key twice.
    """
    return _parsed(path, _Json(path, text))


def parse_yaml(path: Path, text: str) -> Document:
    """Parse YAML; `path` is for messages.

    Raises:
        ConfigError: The text cannot be parsed, or contains a key twice.
    """
    # Most programs read only JSON, and a parser of YAML takes 2 MB.
    from tersely.settings.yaml_reader import YamlReader

    return _parsed(path, YamlReader(path, text))


def _parsed(path: Path, reader: "_Json | YamlReader") -> Document:
    data = reader.read()
    syntax: Literal["json", "yaml"] = "json" if isinstance(reader, _Json) else "yaml"
    document = Document(path, data, reader.lines, reader.spans, reader.names, syntax, reader.blocks)
    twice = ConfigProblems(document)
    for key, line in reader.twice:
        twice.add(key, f"is a duplicate; first declared in line {document.line(key)}", line=line)
    twice.raise_if_any()
    return document


class _Json:
    """A parser for JSON with comments and trailing commas that knows the line of every key."""

    def __init__(self, path: Path, text: str) -> None:
        self.path, self.text = path, text
        self.lines: dict[Key, int] = {}
        self.spans: dict[Key, tuple[int, int]] = {}
        self.names: dict[Key, tuple[int, int]] = {}
        self.blocks: set[Key] = set()
        self.twice: list[tuple[Key, int]] = []
        self._at = 0
        self._breaks = [found.start() for found in re.finditer("\n", text)]

    def read(self) -> Any:
        try:
            self._skip()
            if self._at == len(self.text):
                return None
            data = self._value(())
            self._skip()
        except json.JSONDecodeError as problem:
            raise ConfigError(f"{self.path}:{problem.lineno}: is not valid JSON: {problem.msg}.") from None
        if self._at < len(self.text):
            raise self._wrong("there is text after the end")
        return data

    def _line(self) -> int:
        return bisect_left(self._breaks, self._at) + 1

    def _wrong(self, what: str) -> ConfigError:
        return ConfigError(f"{self.path}:{self._line()}: is not valid JSON: {what}.")

    def _skip(self) -> None:
        self._at = _BLANK.match(self.text, self._at).end()  # type: ignore[union-attr]

    def _value(self, key: Key) -> Any:
        if len(key) > DEEPEST:
            raise self._wrong(f"it is nested more than {DEEPEST} deep")
        start = self._at
        self.lines.setdefault(key, self._line())
        value = self._read(key)
        self.spans[key] = (start, self._at)
        return value

    def _read(self, key: Key) -> Any:
        opening = self.text[self._at : self._at + 1]
        if opening == "{":
            return dict(self._members(key))
        if opening == "[":
            return list(self._items(key))
        if opening == '"':
            return self._string()
        word = _WORD.match(self.text, self._at)
        if word is None:
            raise self._wrong("a value is missing")
        try:
            value = json.loads(word[0], parse_constant=_no_constant)
        except ValueError:
            raise self._wrong(f"{word[0][:20]!r} is not a value; strings need double quotes") from None
        self._at = word.end()
        return value

    def _string(self) -> str:
        text, self._at = scanstring(self.text, self._at + 1, True)
        return str(text)

    def _members(self, key: Key) -> Iterator[tuple[str, Any]]:
        seen: set[str] = set()
        for _ in self._until("}"):
            if self.text[self._at : self._at + 1] != '"':
                raise self._wrong("a key in double quotes is expected")
            line, start = self._line(), self._at
            name = self._string()
            inside = (*key, name)
            self.names[inside] = (start, self._at)
            if name in seen:
                self.twice.append((inside, line))
            seen.add(name)
            self.lines.setdefault(inside, line)
            self._skip()
            if self.text[self._at : self._at + 1] != ":":
                raise self._wrong(f"a colon is missing after {name[:60]!r}")
            self._at += 1
            self._skip()
            yield name, self._value(inside)

    def _items(self, key: Key) -> Iterator[Any]:
        for number in self._until("]"):
            yield self._value((*key, number))

    def _until(self, end: str) -> Iterator[int]:
        number = 0
        self._at += 1
        self._skip()
        while self.text[self._at : self._at + 1] != end:
            if self._at >= len(self.text):
                raise self._wrong(f"{end!r} is missing at the end")
            yield number
            number += 1
            self._skip()
            if self.text[self._at : self._at + 1] == ",":
                self._at += 1
                self._skip()
            elif self.text[self._at : self._at + 1] != end:
                raise self._wrong(f"a comma or {end!r} is missing")
        self._at += 1


_BLANK = re.compile(r"(?:[ \t\r\n]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_WORD = re.compile(r"[^\s,\]}/:]+")


def _no_constant(name: str) -> None:
    raise ValueError(name)
