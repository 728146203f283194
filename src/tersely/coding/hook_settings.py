"""Options of hooks that are set once: in `hook.json` in the data folder, or in variables `TERSELY_HOOK_…`.

    {"threshold": 4000, "leave": ["mcp__github__*"], "mask_workspace": false}

Not in `tersely.yaml`, because loading and validating that file takes longer than a hook may. A value
that cannot be used is left out and reported, never raised: a hook must not break the agent.
"""

import os
from collections.abc import Callable, Mapping
from typing import Any

FILE = "hook.json"
PREFIX = "TERSELY_HOOK_"
_LARGEST_FILE = 64 * 1024


def _number(least: float) -> Callable[[Any], float]:
    def number(value: Any) -> float:
        found = float(value)
        if isinstance(value, bool) or not least <= found < 1e9:
            raise ValueError
        return int(found) if found.is_integer() else found

    return number


def _flag(value: Any) -> bool:
    known = {"0": False, "false": False, "no": False, "1": True, "true": True, "yes": True}
    return value if isinstance(value, bool) else known[str(value).lower()]


def _names(value: Any) -> tuple[str, ...]:
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise TypeError
    return tuple(name.strip() for name in names if name.strip())


SETTINGS: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "threshold": ("threshold", _number(0)),
    "budget": ("budget", _number(200)),
    "leave": ("leave", _names),
    "mask": ("masks", _flag),
    "mask_workspace": ("masks_workspace", _flag),
    "seconds": ("seconds", _number(0.05)),
}
"""By name: the option it sets, and how its value is read."""


def configured(folder: str, environment: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """The options that are set, and the names of what could not be used; a variable wins over the file."""
    given: dict[str, Any] = {}
    unusable: list[str] = []
    try:
        with open(os.path.join(folder, FILE), encoding="utf-8") as file:  # noqa: PTH118, PTH123
            import json

            given = json.loads(file.read(_LARGEST_FILE))
    except FileNotFoundError:
        pass
    except (OSError, ValueError):
        unusable.append(FILE)
    if not isinstance(given, dict):
        given = {}
        unusable.append(FILE)
    unusable += [f"{FILE}: {name}" for name in given if name not in SETTINGS]
    for name in SETTINGS:
        if (value := environment.get(PREFIX + name.upper())) is not None:
            given[name] = value
    found: dict[str, Any] = {}
    for name, value in given.items():
        if name in SETTINGS:
            option, read = SETTINGS[name]
            try:
                found[option] = read(value)
            except (ValueError, TypeError, KeyError, OverflowError):
                unusable.append(name)
    return found, unusable
