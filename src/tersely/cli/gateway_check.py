"""`tersely gateway check`: connects to every server and reports what a client would get through the gateway."""

from __future__ import annotations

import json
import logging
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, Unpack

import click

from tersely.cli.extras import check_extra
from tersely.cli.next_steps import next_step
from tersely.cli.upstreams import UpstreamOptions, check_providers, upstream_options, upstream_servers

if TYPE_CHECKING:
    from pathlib import Path

    from tersely.mcp.connect.supervisor import Connection
    from tersely.mcp.logins import LoginStore
    from tersely.mcp.raw import Tool
    from tersely.mcp.registry import ToolRegistry
    from tersely.mcp.servers import Server, ServerOptions

_ROUND_TRIPS = 3
_PATIENCE = 300.0
"""Seconds to wait for a command that is still starting, e.g. one that is being downloaded."""

_PROGRESS_SECONDS = 3.0
"""Seconds between two lines about a server that is still starting."""


@click.command()
@upstream_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option(
    "--accept", is_flag=True, help="Accept the current descriptions of tools that changed since they were first seen."
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def check(command: tuple[str, ...], as_json: bool, accept: bool, **given: Unpack[UpstreamOptions]) -> None:
    """Connect to all servers and report what a client would get.

    Reports tools, latency, what is condensed and masked, and suspicious descriptions. Calls no tool. Exit code 1 when
    a server cannot be used.

    \b
    tersely gateway check --config mcp.json
    tersely gateway check -- npx -y @modelcontextprotocol/server-filesystem .
    """
    check_extra("gateway check")

    import anyio

    from tersely.settings.model import GATEWAY, Settings, find_file

    servers = upstream_servers(command, **given)
    settings = Settings.load(None, find_file(), sections=GATEWAY, here=True)
    check_providers(servers, settings.llm_providers)
    # The report contains failures; log lines between its lines would repeat them.
    logging.getLogger("tersely").addHandler(logging.NullHandler())
    logging.getLogger("tersely").propagate = False
    report = anyio.run(check_servers, servers, settings.store.data_dir, accept, settings.store.logins)
    if as_json:
        click.echo(json.dumps(report, ensure_ascii=False))
    else:
        _show(report)
    raise SystemExit(0 if report["ok"] else 1)


async def check_servers(
    servers: Sequence[Server],
    data_dir: Path,
    accept: bool = False,
    logins: LoginStore | None = None,
    patience: float = _PATIENCE,
) -> dict[str, Any]:
    """The report as `--json` prints it."""
    import anyio

    from tersely.mcp.connect.supervisor import connected
    from tersely.mcp.registry import ToolRegistry
    from tersely.servers.gateway.catalogue import ListingOptions, catalogue
    from tersely.servers.gateway.tool_pins import SEEN_FILE, ToolPins
    from tersely.settings.environment import process_environment
    from tersely.text.tokens import O200K

    seen = ToolPins(data_dir / SEEN_FILE)
    took: dict[str, float] = {}
    trips: dict[str, float | None] = {}

    async def measure(connection: Connection, began: float) -> None:
        with anyio.move_on_after(max(patience, connection.server.options.start_timeout)):
            # A failed attempt ends the wait; one that only takes long does not.
            while connection.status().state == "starting":
                with anyio.move_on_after(_PROGRESS_SECONDS):
                    await connection.settled()
                waiting = perf_counter() - began
                if connection.status().state == "starting" and waiting >= _PROGRESS_SECONDS:
                    said = f": {_printable(connection.progress, 100)}" if connection.progress else ""
                    click.echo(f"{connection.name} is still starting, for {waiting:.0f} s{said}", err=True)
        took[connection.name] = perf_counter() - began
        if connection.status().state == "ready":
            trips[connection.name] = await _round_trip(connection)

    began = perf_counter()
    async with connected(servers, wait=0, environment=process_environment(), logins=logins) as connections:
        async with anyio.create_task_group() as tasks:
            for connection in connections.values():
                tasks.start_soon(measure, connection, began)
        registry = ToolRegistry(connections, keep_names=True, obey_declarations=False, first_seen=seen.of(servers))
        named = {(named.tool.server, named.tool.name): named.name for named in registry.tools()}
        reports = [
            _server(registry, connection, named, took[name], trips.get(name))
            for name, connection in connections.items()
        ]
        own_tokens = sum(map(O200K.count, catalogue(registry, ListingOptions()).own_texts))
        if accept:
            current = {
                server.name: {tool.name: tool.fingerprint for tool in connections[server.name].tools}
                for server in servers
                if server.name in connections
            }
            seen.accept(servers, current)
    disabled = [server.name for server in servers if server.options.disabled]
    return {
        "ok": all(report["state"] == "ready" for report in reports),
        "accepted": accept,
        "servers": reports,
        "disabled": disabled,
        "own_tokens": own_tokens,
    }


async def _round_trip(connection: Connection) -> float | None:
    """Seconds of the fastest of a few pings; a server that rejects them has answered as well."""
    from tersely.errors import ToolError, ToolRejected

    times: list[float] = []
    for _ in range(_ROUND_TRIPS):
        began = perf_counter()
        try:
            await connection.request("ping", timeout=5)
        except ToolRejected:
            pass
        except ToolError:
            return None
        times.append(perf_counter() - began)
    return min(times)


def _server(
    registry: ToolRegistry,
    connection: Connection,
    named: Mapping[tuple[str, str], str],
    took: float,
    trip: float | None,
) -> dict[str, Any]:
    from tersely.mcp.selection import is_selected
    from tersely.mcp.suspicion import suspicions_in

    status, options = connection.status(), connection.server.options
    usable = [tool for tool in connection.tools if (tool.server, tool.name) in named]
    own = {tool.name for tool in connection.tools}
    elsewhere = sorted({name for server, name in named if server != connection.name} - own)
    refused = [
        *status.refused,
        *(why for dotted, why in registry.refused().items() if dotted.startswith(f"{connection.name}.")),
    ]
    is_ready, is_starting = status.state == "ready", status.state == "starting"
    reason = "" if is_ready else status.last_error or f"It was not ready within {options.start_timeout:g} s."
    if is_starting and connection.progress:
        reason = f"{reason} It wrote last: {connection.progress}"
    return {
        "name": connection.name,
        "state": "ready" if is_ready else "starting" if is_starting else "failed",
        "reason": reason,
        "next_step": "" if is_ready else next_step(connection.name, options, reason, is_starting=is_starting),
        "reached_by": _target(options),
        "protocol": status.protocol,
        "server": dict(status.server_info),
        "latency_ms": {
            "connect": round(took * 1000, 1) if is_ready else None,
            "list": status.latency_ms,
            "round_trip": round(trip * 1000, 1) if trip is not None else None,
        },
        "tools": [_tool(registry, tool, named[tool.server, tool.name], options, elsewhere) for tool in usable],
        "refused": refused,
        "filtered": sorted(tool.name for tool in connection.tools if not is_selected(tool.name, options)),
        "suspicious": suspicions_in(str(connection.introduction.get("instructions") or "")) if is_ready else [],
    }


def _tool(
    registry: ToolRegistry, tool: Tool, name: str, options: ServerOptions, elsewhere: Sequence[str]
) -> dict[str, Any]:
    from tersely.mcp.suspicion import suspicions

    condensing, masking = options.policy(tool.name)
    return {
        "name": name,
        "title": tool.title,
        "description": _first_sentence(tool.description),
        "read_only": tool.read_only,
        "destructive": tool.destructive,
        "condensed": {
            "over_tokens": condensing.size_threshold_tokens,
            "to_tokens": condensing.summary_max_token_limit,
            "by": "model" if condensing.use_model else "structure",
        }
        if condensing.enabled
        else None,
        "masked": {"groups": list(masking.groups), "custom": sorted(masking.custom_patterns)}
        if masking.enabled
        else None,
        "changed": registry.is_redefined(tool),
        "suspicious": suspicions(tool, elsewhere),
    }


def _first_sentence(text: str) -> str:
    from tersely.masking.clean import clean

    flat = " ".join(clean(text[:2_000]).text.split())
    return re.split(r"(?<=[.!?]) ", flat, maxsplit=1)[0][:200]


def _target(options: ServerOptions) -> str:
    """The server's command or address, without secrets."""
    from tersely.masking.mask import mask

    transport = options.transport
    target = (
        " ".join([transport.command, *transport.args]) if transport.command else str(transport.url).partition("?")[0]
    )
    return mask(target)


# Terminal output


def _show(report: Mapping[str, Any]) -> None:
    from rich.console import Console

    console = Console(highlight=False, width=None if sys.stdout.isatty() else 140, soft_wrap=False)
    for server in report["servers"]:
        _show_server(console, server)
        console.print()
    _show_totals(console, report)


def _show_server(console: Any, server: Mapping[str, Any]) -> None:
    from rich.text import Text

    is_ready = server["state"] == "ready"
    head = Text("● " if is_ready else "✗ ", style="green" if is_ready else "red") + Text(
        _printable(server["name"]), style="bold"
    )
    console.print(head + Text(f"  {_printable(server['reached_by'], 100)}", style="dim"))
    if not is_ready:
        console.print(Text(f"  {_printable(server['reason'], 600)}", style="red"))
        console.print(Text(f"  → {_printable(server['next_step'], 600)}"))
        return
    info, latency = server["server"], server["latency_ms"]
    who = " ".join(_printable(str(info[part]), 40) for part in ("name", "version") if info.get(part))
    times = [
        f"{title} {_ms(latency[name])}"
        for name, title in (("connect", "connected in"), ("list", "listed in"), ("round_trip", "round trip"))
    ]
    facts = [who, f"protocol {server['protocol']}", *times]
    console.print(Text("  " + " · ".join(fact for fact in facts if fact), style="dim"))
    if server["tools"]:
        _show_tools(console, server["tools"])
    else:
        console.print(Text("  no tools", style="dim"))
    for name, reasons in [
        ("its instructions", server["suspicious"]),
        *((tool["name"], tool["suspicious"]) for tool in server["tools"]),
    ]:
        for reason in reasons:
            console.print(Text("  ⚠ ", style="yellow") + Text(f"{_printable(name)}: {_printable(reason, 400)}"))
    for reason in server["refused"]:
        console.print(Text("  ✗ refused: ", style="yellow") + Text(_printable(reason, 300)))
    if server["filtered"]:
        console.print(
            Text(f"  left out by the configuration: {', '.join(map(_printable, server['filtered']))}", style="dim")
        )


def _show_tools(console: Any, tools: Sequence[Mapping[str, Any]]) -> None:
    """Print the most common policy once, and the policy of each tool that differs from it."""
    from rich.table import Table
    from rich.text import Text

    policies = {tool["name"]: f"condensed {_condensing(tool)} · masked: {_masking(tool)}" for tool in tools}
    common = Counter(policies.values()).most_common(1)[0][0]
    console.print(Text(f"  {common}", style="dim"))
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, overflow="ellipsis")
    table.add_column(no_wrap=True, overflow="ellipsis", max_width=60)
    table.add_column(overflow="fold")
    for tool in tools:
        marks = _marks(tool)
        if policies[tool["name"]] != common:
            marks += Text((" · " if marks else "") + policies[tool["name"]], style="cyan")
        table.add_row(
            Text(f"  {_printable(tool['name'])}"), Text(_printable(tool["description"], 200), style="dim"), marks
        )
    console.print(table)


def _condensing(tool: Mapping[str, Any]) -> str:
    if not (how := tool["condensed"]):
        return "never"
    by = ", by a model" if how["by"] == "model" else ""
    return f"over {how['over_tokens']:,} to {how['to_tokens']:,} tokens{by}"


def _masking(tool: Mapping[str, Any]) -> str:
    from tersely.masking.mask import DEFAULT_GROUPS

    if not (how := tool["masked"]):
        return "nothing"
    groups = "all secrets" if set(how["groups"]) == set(DEFAULT_GROUPS) else ", ".join(how["groups"])
    return groups + (f" + {len(how['custom'])} of your own" if how["custom"] else "")


def _marks(tool: Mapping[str, Any]) -> Any:
    from rich.text import Text

    marks = Text()
    for applies, word, style in (
        (tool["changed"], "changed since first seen", "bold red"),
        (tool["suspicious"], "suspicious", "yellow"),
        (tool["destructive"], "destructive", "dim"),
        (tool["read_only"], "read-only", "dim"),
    ):
        if applies:
            marks += Text((" · " if marks else "") + word, style=style)
    return marks


def _show_totals(console: Any, report: Mapping[str, Any]) -> None:
    from rich.text import Text

    servers = report["servers"]
    ready = [server for server in servers if server["state"] == "ready"]
    tools = [tool for server in servers for tool in server["tools"]]
    changed = sum(tool["changed"] for tool in tools)
    suspicious = sum(bool(tool["suspicious"]) for tool in tools) + sum(bool(server["suspicious"]) for server in servers)
    refused = sum(len(server["refused"]) for server in servers)
    parts = [f"{len(ready)} of {len(servers)} servers ready", f"{len(tools)} tool{'s' * (len(tools) != 1)}"]
    parts += [
        f"{count} {word}"
        for count, word in ((suspicious, "suspicious"), (changed, "changed"), (refused, "refused"))
        if count
    ]
    parts += [f"{len(report['disabled'])} disabled"] if report["disabled"] else []
    parts += [f"the gateway adds {report['own_tokens']:,} tokens to the list of tools"]
    console.print(Text(" · ".join(parts), style="bold" if report["ok"] else "bold red"))
    if changed:
        hint = (
            "The current descriptions are accepted."
            if report["accepted"]
            else "Review what changed; --accept accepts the current descriptions."
        )
        console.print(Text(hint, style="dim"))


def _ms(value: float | None) -> str:
    return (
        "–"
        if value is None
        else f"{value / 1000:.1f} s"
        if value >= 1000
        else f"{value:.0f} ms"
        if value >= 10
        else f"{value:.1f} ms"
    )


def _printable(text: str, longest: int = 80) -> str:
    """Texts come from servers and may contain control sequences."""
    shown = "".join(char if char.isprintable() else "?" for char in text)
    return shown if len(shown) <= longest else shown[:longest] + "…"
