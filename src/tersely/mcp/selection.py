"""Which tools may be listed and called, and under which names.

Pure functions over tools and options. Listing and calling use the same checks, so a
tool that is not listed cannot be called. A tool's declarations about itself can
only remove permissions, never grant them.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from tersely.mcp.raw import Tool
from tersely.mcp.servers import ServerOptions

LONGEST_NAME = 64
"""Maximum length of a tool name at the strictest model provider."""

_FOR_MODELS = re.compile(r"[A-Za-z0-9_-]+")
_FOR_CLIENTS = re.compile(r"[A-Za-z0-9_.-]+")
_FOR_PROTOCOL = re.compile(r"[\x21-\x7e]([\x20-\x7e]{0,126}[\x21-\x7e])?")
_SECRET_NAME = re.compile(r"(?i)pass(word|wd|phrase)?$|secret|token|api_?key|credential|authorization|private_?key")


def why_unusable(tool: Tool) -> str | None:
    """Why a definition cannot be used by any client; None if it can."""
    if not tool.name.isascii():
        # Look-alike letters let one tool imitate another.
        return f"{ascii(tool.name)[:80]} contains letters that are not plain ASCII"
    if not _FOR_PROTOCOL.fullmatch(tool.name):
        return f"{ascii(tool.name)[:80]} is longer than 128 characters or contains control characters"
    for name, header in _headers(tool.input_schema):
        if not isinstance(header, str) or not header.isprintable() or not header.isascii():
            return f"{tool.name} asks for argument {ascii(name)[:60]} to be sent in an invalid header"
        if _SECRET_NAME.search(name):
            return f"{tool.name} asks for argument {name[:60]!r} to be sent in a header, which proxies log"
    return None


def _headers(schema: Mapping[str, Any]) -> Iterable[tuple[str, object]]:
    properties = schema.get("properties")
    for name, described in properties.items() if isinstance(properties, dict) else ():
        if isinstance(described, dict):
            if "x-mcp-header" in described:
                yield str(name), described["x-mcp-header"]
            if described.get("type") == "object":
                yield from _headers(described)


def is_selected(tool: str, options: ServerOptions) -> bool:
    """Whether the configured filter includes this tool."""
    filter_ = options.tools
    if any(fnmatchcase(tool, pattern) for pattern in filter_.deny):
        return False
    return filter_.allow is None or any(fnmatchcase(tool, pattern) for pattern in filter_.allow)


def why_forbidden(tool: Tool, options: ServerOptions) -> str | None:
    """Why an agent may not call an existing tool; None if it may."""
    allowed = options.allow_destructive
    if allowed is True or (isinstance(allowed, tuple) and any(fnmatchcase(tool.name, pattern) for pattern in allowed)):
        return None
    if tool.destructive:
        return (
            f"Tool {tool.dotted!r} declares itself destructive, and the configuration does not allow destructive tools "
            "(allow_destructive)."
        )
    if options.read_only and not tool.read_only:
        return (
            f"Tool {tool.dotted!r} does not declare itself read-only, and its server is configured as read-only "
            "(read_only)."
        )
    return None


def names_for_models(tools: Sequence[Tool], *, keep: bool = False) -> dict[str, Tool]:
    """Tools by their name for models and clients, `server__tool`, in the given order.

    A name gets a suffix, a hash of server and tool, if it contains characters that
    some provider rejects, is too long, or would be shared by two tools. The suffix does
    not depend on other tools. With `keep`, the servers' own names stay, except those
    that clients could not pass to any model.
    """
    usable = _FOR_CLIENTS if keep else _FOR_MODELS
    plain = [tool.name if keep else f"{tool.server}__{tool.name}" for tool in tools]
    shared = Counter(plain)
    named: dict[str, Tool] = {}
    for tool, name in zip(tools, plain, strict=True):
        if shared[name] > 1 or not usable.fullmatch(name) or len(name) > LONGEST_NAME:
            named[_with_suffix(name, tool)] = tool
        else:
            named[name] = tool
    return named


def _with_suffix(name: str, tool: Tool) -> str:
    suffix = "_" + hashlib.sha256(f"{tool.server}\0{tool.name}".encode()).hexdigest()[:8]
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[: LONGEST_NAME - len(suffix)] + suffix
