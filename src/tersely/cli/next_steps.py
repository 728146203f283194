"""What to do about an MCP server that cannot be used; shared by `doctor`, `gateway check` and `research`."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tersely.mcp.servers import ServerOptions


def next_step(name: str, options: ServerOptions, reason: str, *, is_starting: bool) -> str:
    """One or two sentences for the person in front of the terminal. Secrets of the command are masked."""
    from tersely.masking.mask import mask

    transport = options.transport
    if "tersely gateway login" in reason:
        return "Log in with the command above, then try again."
    if transport.command:
        command = mask(shlex.join([transport.command, *transport.args]))
        if is_starting:
            return (
                "The first start may be downloading the program: run it once in a terminal and try again, or raise "
                f"mcp_servers.{name}.start_timeout ({options.start_timeout:g} s). Run: {command}"
            )
        if "could not be started" in reason:
            return (
                f"Install {transport.command}, or write its full path as the command; a program that runs in your "
                "shell may not be on the PATH of this process."
            )
        return f"Run it in a terminal to see why it ends; variables that it needs go into `env`. Run: {command}"
    url = mask(str(transport.url).partition("?")[0])
    if any(status in reason for status in ("HTTP 401", "HTTP 403")):
        return "Check that the token in its headers is set and not expired."
    if any(status in reason for status in ("HTTP 404", "HTTP 405")):
        return f"Check the path: most servers answer at /mcp, older ones at /sse with `type: sse`. Address: {url}"
    if is_starting or "timed out" in reason:
        return f"It accepts no connection in time: check firewall, VPN and HTTPS_PROXY. Try: curl -i {url}"
    return f"Start the server, or correct host and port. Try: curl -i {url}"
