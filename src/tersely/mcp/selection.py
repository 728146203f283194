"""Which tools may be seen and called, and under which names.

Pure functions over tools and options. The same verdict is asked for when tools are
listed and when one is called, so a name that was never shown cannot be called
either. What a tool declares about itself can only take rights away, never give them.
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
"""What the strictest model provider takes for a tool's name."""

_FOR_MODELS = re.compile(r"[A-Za-z0-9_-]+")
_FOR_CLIENTS = re.compile(r"[A-Za-z0-9_.-]+")
_FOR_PROTOCOL = re.compile(r"[\x21-\x7e]([\x20-\x7e]{0,126}[\x21-\x7e])?")
_SECRETIVE = re.compile(r"(?i)pass(word|wd|phrase)?$|secret|token|api_?key|credential|authorization|private_?key")


def why_unusable(tool: Tool) -> str | None:
    """What is wrong with a definition, whoever asks; None when nothing is."""
    if not tool.name.isascii():
        # Letters that look like others are how one tool is passed off as another.
        return f"{ascii(tool.name)[:80]} contains letters that are not plain ASCII"
    if not _FOR_PROTOCOL.fullmatch(tool.name):
        return f"{ascii(tool.name)[:80]} is longer than 128 characters or contains control characters"
    for name, header in _headers(tool.input_schema):
        if not isinstance(header, str) or not header.isprintable() or not header.isascii():
            return f"{tool.name} wants argument {ascii(name)[:60]} sent in a header that is none"
        if _SECRETIVE.search(name):
            return f"{tool.name} wants argument {name[:60]!r} sent in a header, where proxies log it"
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
    """Whether the operator's filter lets this tool exist."""
    chosen = options.tools
    if any(fnmatchcase(tool, pattern) for pattern in chosen.deny):
        return False
    return chosen.allow is None or any(fnmatchcase(tool, pattern) for pattern in chosen.allow)


def why_forbidden(tool: Tool, options: ServerOptions) -> str | None:
    """Why an agent may not call a tool that exists; None when it may."""
    allowed = options.allow_destructive
    if allowed is True or (isinstance(allowed, tuple) and any(fnmatchcase(tool.name, pattern) for pattern in allowed)):
        return None
    if tool.destructive:
        return (
            f"Tool {tool.dotted!r} declares itself destructive, and the configuration does not allow it "
            "(allow_destructive)."
        )
    if options.read_only and not tool.read_only:
        return (
            f"Tool {tool.dotted!r} does not declare itself read-only, and its server is used for reading only "
            "(read_only)."
        )
    return None


def names_for_models(tools: Sequence[Tool], *, keep: bool = False) -> dict[str, Tool]:
    """Tools by the name a model or a client calls them, `server__tool`, in the given order.

    A name with letters that some provider does not take, one that is too long and one
    that two tools would share gets an ending made from server and tool: the same
    one every time, whatever other tools there are. With `keep` the servers' own names stay,
    but for those that clients could not hand to any model.
    """
    usable = _FOR_CLIENTS if keep else _FOR_MODELS
    plain = [tool.name if keep else f"{tool.server}__{tool.name}" for tool in tools]
    shared = Counter(plain)
    named: dict[str, Tool] = {}
    for tool, name in zip(tools, plain, strict=True):
        if shared[name] > 1 or not usable.fullmatch(name) or len(name) > LONGEST_NAME:
            named[_with_ending(name, tool)] = tool
        else:
            named[name] = tool
    return named


def _with_ending(name: str, tool: Tool) -> str:
    ending = "_" + hashlib.sha256(f"{tool.server}\0{tool.name}".encode()).hexdigest()[:8]
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[: LONGEST_NAME - len(ending)] + ending
