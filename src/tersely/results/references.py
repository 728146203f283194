"""References to kept results in the arguments of a call: `"result:r_…"` or `{"$result": "r_…"}`."""

import re
from typing import Any

from tersely.errors import InputError, ResultNotFound

_HANDLE = re.compile(r"result:(r_[0-9A-Za-z]{10,40})")
_DEEPEST = 200


def handle_of(value: Any) -> str | None:
    """The handle, if this value is a reference to a kept result."""
    if isinstance(value, str):
        match = _HANDLE.fullmatch(value) if value.startswith("result:r_") else None
        return match[1] if match else None
    if isinstance(value, dict) and value.keys() == {"$result"}:
        handle = value["$result"]
        if not isinstance(handle, str):
            raise ResultNotFound(str(handle))
        return handle.removeprefix("result:")
    return None


def handles_in(arguments: Any) -> dict[str, int]:
    """The handles in the arguments of a call, at any depth, and how often each occurs."""
    found: dict[str, int] = {}
    _find(arguments, found)
    return found


def _find(value: Any, found: dict[str, int], depth: int = 0) -> None:
    if depth > _DEEPEST:
        raise InputError(f"The arguments are nested more than {_DEEPEST} levels deep.")
    if (handle := handle_of(value)) is not None:
        found[handle] = found.get(handle, 0) + 1
    elif isinstance(value, dict | list | tuple):
        for inner in value.values() if isinstance(value, dict) else value:
            _find(inner, found, depth + 1)
