"""The environment variables of this process, and the `.env` file that adds to them.

Everything else gets a mapping handed in, from a command or a composition root. Variables of a
`.env` file serve settings and `${NAME}` in configuration files. They are not passed on to other
processes: a project's file must not change which program `PATH` finds, or which proxy a server
uses.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from tersely.errors import ConfigError
from tersely.settings.variables import process_environment

__all__ = ["SettingsEnvironment", "parse_env_file", "process_environment", "settings_environment"]

ENV_FILE = ".env"
_LARGEST_FILE = 2**20
_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)")
_QUOTED = re.compile(r"""'([^']*)'|"((?:[^"\\]|\\.)*)\"""")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


class SettingsEnvironment(dict[str, str]):
    """Variables of the process, and those of a `.env` file that the process does not have."""

    def __init__(self, process: Mapping[str, str], file: Path | None = None) -> None:
        added, self.skipped = parse_env_file(_text(file)) if file else ({}, [])
        super().__init__(added | {name: value for name, value in process.items() if value or name not in added})
        self.file = file
        self.from_file = frozenset(name for name in added if not process.get(name))
        """Names whose value is that of the file."""


def settings_environment(folder: Path | None) -> SettingsEnvironment:
    """The variables for settings: those of the process, then those of `.env` in the folder, if there is one.

    TERSELY_ENV_FILE names another file, which has to exist. A `.env` that belongs to another user is not read unless
    it is named.

    Raises:
        ConfigError: The file cannot be read.
    """
    process = process_environment()
    if named := process.get("TERSELY_ENV_FILE"):
        return SettingsEnvironment(process, Path(named).expanduser())
    file = folder / ENV_FILE if folder else None
    return SettingsEnvironment(process, file if file and file.is_file() and _is_own(file) else None)


def parse_env_file(text: str) -> tuple[dict[str, str], list[int]]:
    """Return the variables of a `.env` file, and the numbers of lines that are none.

    `NAME=value`, with or without `export` and quotes; ` #` begins a comment. `$` has no meaning.
    """
    found: dict[str, str] = {}
    skipped: list[int] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not (line := line.strip()) or line.startswith("#"):
            continue
        matched = _LINE.fullmatch(line)
        value = _value(matched[2]) if matched else None
        if matched and value is not None:
            found[matched[1]] = value
        else:
            skipped.append(number)
    return found, skipped


def _value(written: str) -> str | None:
    if written[:1] in ("'", '"'):
        quoted = _QUOTED.match(written)
        rest = written[quoted.end() :].strip() if quoted else "unclosed"
        if not quoted or (rest and not rest.startswith("#")):
            return None
        if quoted[1] is not None:
            return quoted[1]
        return re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[1]), quoted[2])
    return re.split(r"(?:^|\s)#", written, maxsplit=1)[0].strip()


def _text(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            raw = opened.read(_LARGEST_FILE + 1)
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror or type(error).__name__}.") from None
    if len(raw) > _LARGEST_FILE:
        raise ConfigError(f"{file}: is larger than {_LARGEST_FILE // 2**20} MB; that is not a file of variables.")
    return raw.decode("utf-8-sig", "replace")


def _is_own(file: Path) -> bool:
    """Whether the file belongs to this user or to root; in a shared folder it may belong to anybody."""
    return not hasattr(os, "getuid") or file.stat().st_uid in (0, os.getuid())
