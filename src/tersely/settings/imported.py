"""Servers from the file of another MCP client, as entries for `tersely.yaml` that `config check` accepts.

What only the client can resolve is translated where there is an equivalent (`${input:token}` becomes a
variable, `${workspaceFolder}` a path), and named in a note where there is none. Pure, except that an
`envFile` is read for the names of its variables.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tersely.errors import ConfigError
from tersely.masking.mask import mask
from tersely.mcp.servers import Server
from tersely.settings.files import Document, one_shape, plain_message

_SECTIONS = ("mcp_servers", "mcpServers", "servers")
_REFERENCE = re.compile(r"\$\{([^{}]*)\}")
_LINE_OF_ENV_FILE = re.compile(r"(?m)^[ \t]*(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)[ \t]*=")


@dataclass
class ImportedServers:
    """Entries for `mcp_servers`, and what the user has to know about them."""

    servers: dict[str, Any] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    """Variables to set, with what the file says about them."""

    notes: list[str] = field(default_factory=list)


def import_servers(document: Document, *, folder: Path, home: Path) -> ImportedServers:
    """
    Args:
        folder: The folder of the project, for `${workspaceFolder}`.

    Raises:
        ConfigError: The file declares no servers.
    """
    data = document.data
    section = next((name for name in _SECTIONS if isinstance(data, dict) and name in data), None)
    if not section or not isinstance(data[section], dict):
        raise ConfigError(f"{document.path}: declares no servers; expected `mcpServers`, `servers` or `mcp_servers`.")
    found = ImportedServers()
    if section == "mcp_servers":
        found.servers = {str(name): entry for name, entry in data[section].items()}
        return found
    translator = _Translator(found, _inputs(data), {"workspaceFolder": str(folder), "userHome": str(home)})
    for name, entry in data[section].items():
        if not isinstance(entry, dict):
            found.notes.append(f"{name}: left out: it is not an object")
            continue
        translated = translator.entry(str(name), entry)
        if translated is not None:
            found.servers[str(name)] = translated
    return found


def _inputs(data: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    given = data.get("inputs")
    entries = [one for one in given if isinstance(one, dict)] if isinstance(given, list) else []
    return {str(one["id"]): one for one in entries if "id" in one}


class _Translator:
    def __init__(
        self, found: ImportedServers, inputs: Mapping[str, Mapping[str, Any]], places: Mapping[str, str]
    ) -> None:
        self._found = found
        self._inputs = inputs
        self._places = {
            **places,
            "workspaceFolderBasename": Path(places["workspaceFolder"]).name,
            "pathSeparator": os.sep,
            "/": os.sep,
        }

    def entry(self, name: str, entry: Mapping[str, Any]) -> dict[str, Any] | None:
        given = dict(entry)
        inherited = self._env_file(name, given.pop("envFile", None))
        unknown: set[str] = set()
        shaped, _ = one_shape(self._translated(given, unknown))
        if inherited and shaped["transport"].get("command"):
            named = [*(shaped["transport"].get("inherit_env") or ()), *inherited]
            shaped["transport"]["inherit_env"] = list(dict.fromkeys(named))
        if unknown:
            shaped["disabled"] = True
            self._note(name, f"disabled: only the client can resolve {', '.join(sorted(unknown))}")
        for secret in _literal_secrets(shaped["transport"]):
            self._note(name, f"{secret} contains a secret; write a variable such as ${{NAME}} in its place")
        return self._valid(name, shaped)

    def _valid(self, name: str, shaped: dict[str, Any]) -> dict[str, Any] | None:
        """The entry without keys that have no equivalent; None if the rest is invalid."""
        while True:
            try:
                # Any variable may be set to anything later; this value is valid everywhere, also as an address.
                filled = json.loads(_REFERENCE.sub("http://variable.invalid", json.dumps(shaped)))
                Server.model_validate({"name": name, "options": filled})
                return shaped
            except ValidationError as wrong:
                errors = wrong.errors(include_url=False, include_context=False)
                extra = [one["loc"][1] for one in errors if one["type"] == "extra_forbidden" and len(one["loc"]) == 2]
                if not extra:
                    error = errors[0]
                    place = ".".join(map(str, error["loc"][1:]))
                    why = plain_message(error["msg"], None, error["type"])
                    self._note(name, f"left out: {place}{': ' if place else ''}{why}")
                    return None
                for key in extra:
                    shaped.pop(str(key))
                self._note(name, f"not taken over: {', '.join(map(str, extra))}")

    def _translated(self, value: Any, unknown: set[str]) -> Any:
        if isinstance(value, str):
            return _REFERENCE.sub(lambda found: self._reference(found[1], found[0], unknown), value)
        if isinstance(value, dict):
            return {key: self._translated(inner, unknown) for key, inner in value.items()}
        if isinstance(value, list):
            return [self._translated(inner, unknown) for inner in value]
        return value

    def _reference(self, inner: str, written: str, unknown: set[str]) -> str:
        kind, colon, rest = inner.partition(":")
        if inner in self._places:
            return self._places[inner]
        if kind == "env" and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", rest):
            # Clients put an empty text in the place of a variable that is not set.
            self._found.variables.setdefault(rest, "")
            return f"${{{rest}:-}}"
        if kind == "input" and colon:
            options = self._inputs.get(rest, {})
            variable = re.sub(r"[^A-Z0-9]+", "_", rest.upper()).strip("_") or "INPUT"
            variable = f"INPUT_{variable}" if variable[0].isdigit() else variable
            self._found.variables.setdefault(variable, str(options.get("description") or f"the input {rest!r}"))
            default = options.get("default")
            return f"${{{variable}:-{default if isinstance(default, str) and '}' not in default else ''}}}"
        if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*(:-.*)?", inner):
            if ":-" not in inner:
                self._found.variables.setdefault(inner, "")
            return written
        unknown.add(written)
        return "$" + written  # an escaped `${`

    def _env_file(self, name: str, given: object) -> list[str]:
        if not given:
            return []
        path = _REFERENCE.sub(lambda found: self._places.get(found[1], found[0]), str(given))
        try:
            names = _LINE_OF_ENV_FILE.findall(Path(path).expanduser().read_text("utf-8-sig"))
        except (OSError, ValueError):
            self._note(name, f"its envFile {path} cannot be read; name its variables under inherit_env")
            return []
        for variable in names:
            self._found.variables.setdefault(variable, f"in {path}, which is not read here")
        return list(dict.fromkeys(names))

    def _note(self, name: str, text: str) -> None:
        self._found.notes.append(f"{name}: {text}")


def _literal_secrets(transport: Mapping[str, Any]) -> Iterator[str]:
    for group in ("env", "headers"):
        for name, value in (transport.get(group) or {}).items() if isinstance(transport.get(group), dict) else ():
            line = f"{name}: {value}" if group == "headers" else f"{name}={value}"
            if isinstance(value, str) and "${" not in value and mask(line) != line:
                yield f"{group}.{name}"
