"""`tersely research`: a subject, its topics and a schema in; sourced facts out. Killed and started again, it goes
on.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tersely.cli.errors import fail
from tersely.cli.hooks import Hooks, pass_hooks

if TYPE_CHECKING:
    from rich.console import Console

    from tersely.app.sessions import SessionsApp
    from tersely.settings.model import Settings

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
CHAIN = "research"


@click.command()
@click.argument("subject")
@click.option(
    "--topics",
    required=True,
    type=FILE,
    help="A YAML list of topics, or names and what to find out; {subject} is filled in.",
)
@click.option(
    "--schema", type=FILE, help="JSON schema of the facts that are wanted. Without one the result is passages."
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where the result goes  [default: standard output]",
)
@click.option(
    "--mcp-config", type=FILE, help="Servers from this file (`mcpServers`, JSON) instead of those in tersely.yaml."
)
@click.option("--config", "file", type=FILE, help="The configuration file  [default: tersely.yaml]")
@click.option("--pages", type=click.IntRange(1, 500), help="Pages to read in all  [default: 15]")
@click.option(
    "--max-tokens", type=click.IntRange(1), help="Stop, and say so, when the model has cost this many tokens."
)
@click.option(
    "--max-price",
    type=click.FloatRange(min=0, min_open=True),
    help="Stop, and say so, when the model has cost so many US dollars.",
)
@click.option("--fresh", is_flag=True, help="Begin anew, even if the same research is there already.")
@click.option("--quiet", is_flag=True, help="Show no progress.")
@pass_hooks
def research(
    hooks: Hooks,
    subject: str,
    topics: Path,
    schema: Path | None,
    output: Path | None,
    mcp_config: Path | None,
    file: Path | None,
    pages: int | None,
    max_tokens: int | None,
    max_price: float | None,
    fresh: bool,
    quiet: bool,
) -> None:
    """Research a SUBJECT topic by topic: search, read, condense, extract; each fact with its pages and lines.

    \b
    tersely research "Fizeivmark" --topics topics.yaml --schema schema.json -o out.json
    MCP_WEB_SEARCH_URL=… MCP_SUMMARIZER_URL=… tersely research … --mcp-config mcp_config.json

    A search tool and one that reads pages are needed; a summarizer is used where there is one. With a key a model
    researches and extracts; without one search results are read in order and rules find the facts.

    Every step is stored: the same command goes on where it was stopped or killed, and shows what is there once it
    is through. Exit code 0 when it went through, 1 when it failed or a budget stopped it.
    """
    from tersely.settings.model import Settings, find_file

    settings = Settings.load(
        file=find_file(file),
        TERSELY_RESEARCH_PAGES=pages,
        TERSELY_RESEARCH_MAX_TOKENS=max_tokens,
        TERSELY_RESEARCH_MAX_PRICE=max_price,
    )
    data: dict[str, Any] = {"subject": subject, "topics": _topics(topics)}
    if schema:
        data["schema"] = _schema(schema)
    settings = _arranged(settings, data, mcp_config)
    raise SystemExit(_run(settings, data, output, hooks, fresh=fresh, quiet=quiet))


def _topics(path: Path) -> dict[str, str]:
    import yaml

    try:
        said = yaml.safe_load(path.read_text("utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as wrong:
        fail(f"{path} is not valid YAML: {wrong}")
    if isinstance(said, dict) and list(said) == ["topics"]:
        said = said["topics"]
    if isinstance(said, list) and all(isinstance(one, str) for one in said):
        said = {one[:80]: one for one in said}
    if not isinstance(said, dict) or not said or not all(isinstance(about, str) for about in said.values()):
        fail(
            f"{path} should hold a list of topics, or names and what to find out, such as\n  people: Who lives in "
            f"{{subject}}?"
        )
    return {str(name): about for name, about in said.items()}


def _schema(path: Path) -> dict[str, Any]:
    from tersely.research.request import check_schema

    try:
        schema = json.loads(path.read_text("utf-8"))
        if not isinstance(schema, dict):
            raise ValueError("is no object")
        check_schema(schema)
    except ValueError as wrong:
        fail(f"{path} {wrong}" if not isinstance(wrong, json.JSONDecodeError) else f"{path} is not valid JSON: {wrong}")
    return schema


def _arranged(settings: Settings, data: dict[str, Any], mcp_config: Path | None) -> Settings:
    """The settings for this one research: its servers, a chain for it, and a database of its own."""
    from pydantic import SecretStr

    from tersely.agent.options import AgentOptions
    from tersely.sessions.chains import ChainOptions, StageOptions
    from tersely.settings.files import read_servers

    servers = settings.mcp_servers
    if mcp_config:
        servers = {server.name: server.options for server in read_servers(mcp_config)}
    if not servers:
        fail(
            "No MCP server is configured, so nothing can be searched. Give --mcp-config FILE, or `mcp_servers` in "
            "tersely.yaml."
        )
    names = tuple(name for name, options in servers.items() if not options.disabled)
    chosen = next((chain for chain in settings.chains.values() if chain.kind == "research"), None)
    agent = settings.agents.get(chosen.stages[0].agent if chosen else "researcher") or AgentOptions()
    if mcp_config or not agent.mcp_servers:
        agent = agent.model_copy(update={"mcp_servers": names})
    chain = ChainOptions(alert_types=(CHAIN,), kind="research", stages=(StageOptions(name=CHAIN, agent="researcher"),))
    words = re.sub(r"[^a-z0-9]+", "-", str(data["subject"]).lower()).strip("-")[:40]
    whole = [data, settings.research.model_dump(mode="json"), sorted(servers)]
    digest = hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()[:12]
    folder = settings.store.data_dir.expanduser() / "research"
    folder.mkdir(parents=True, exist_ok=True)
    url = SecretStr(f"sqlite:///{folder / f'{words}-{digest}.db'}")
    return settings.model_copy(
        update={
            "mcp_servers": servers,
            "agents": {"researcher": agent},
            "chains": {CHAIN: chain},
            "store": settings.store.model_copy(update={"database_url": url}),
            "queue": settings.queue.model_copy(update={"session_timeout": 86_400.0}),
        }
    )


def _run(
    settings: Settings, data: dict[str, Any], output: Path | None, hooks: Hooks, *, fresh: bool, quiet: bool
) -> int:
    import anyio
    from rich.console import Console

    from tersely.logging_setup import configure_logging

    configure_logging("tersely", "error")
    console = Console(highlight=False, stderr=True, quiet=quiet)
    try:
        result, reason = anyio.run(_researched, settings, data, fresh, console, hooks)
    except KeyboardInterrupt:
        click.secho("Stopped. The same command goes on from here.", err=True)
        return 130
    if result is None:
        click.secho(f"tersely: {reason}", err=True)
        return 1
    text = json.dumps(result, ensure_ascii=False, indent=2) + "\n"
    if output is None or str(output) == "-":
        sys.stdout.write(text)
    else:
        _write(output, text)
        console.print(f"[dim]The result:[/] {output}")
    if pages := result["pages"]:
        database = shlex.quote(f"TERSELY_DATABASE_URL={settings.store.url}")
        read = f"env {database} tersely read --scope session:{result['session_id']} {pages[0]['handle']}"
        console.print("[dim]A page as it was read, and the same with any other handle:[/]")
        # Not broken: it is there to be copied.
        console.print(read, soft_wrap=True, markup=False)
    if result["reason"]:
        click.secho(f"Stopped: {result['reason']}", err=True)
    return 1 if result["status"] == "stopped" else 0


def _write(path: Path, text: str) -> None:
    """All of it or nothing: a result that was half written would look like one."""
    half = path.with_name(path.name + ".part")
    half.write_text(text, "utf-8")
    half.replace(path)


async def _researched(
    settings: Settings, data: dict[str, Any], fresh: bool, console: Console, hooks: Hooks
) -> tuple[dict[str, Any] | None, str]:
    """The result, or why there is none."""
    from tersely.app.sessions import sessions_app
    from tersely.app.summarizer import kept_results
    from tersely.research.work import result_of
    from tersely.sessions.intake import Submission
    from tersely.store import listing
    from tersely.store import sessions as rows
    from tersely.web.version import VERSION

    # Looked at before anything is started: what is through needs no servers.
    async with kept_results(settings) as kept:
        async with kept.database.reading() as db:
            listed, _ = await listing.list_page(db, listing.Filters(), limit=1)
        before = listed[0].session if listed and not fresh else None
        if before is not None and before.status == "completed" and (result := await result_of(kept, before)):
            console.print("[dim]This was researched before; here is what was found. --fresh begins anew.[/]")
            return result, ""
    async with sessions_app(settings, version=VERSION, on_point=hooks.on_point) as parts:
        if before is not None and not before.has_ended:
            console.print("[dim]Going on with what was begun.[/]")
            session_id = before.id
        else:
            accepted = await parts.intake.submit(Submission(data=data, alert_type=CHAIN), principal="research")
            session_id = accepted.session_id
        await _shown(parts, session_id, console)
        async with parts.database.reading() as db:
            session = await rows.find(db, session_id)
        if session.status != "completed":
            return None, session.reason or f"It ended as {session.status}."
        return await result_of(parts.kept, session), "The result could not be kept; --fresh begins anew."


async def _shown(parts: SessionsApp, session_id: str, console: Console) -> None:
    """Draw the session until it ends."""
    from rich.live import Live

    from tersely.store.events import channel_of
    from tersely.terminal import ENDS, Screen

    screen = Screen(console)
    async with parts.bus.subscribe(channel_of(session_id), 0) as events:
        with Live(console=console, get_renderable=screen.growing, refresh_per_second=8, transient=True):
            async for payload in events:
                event = json.loads(payload)
                screen.take(event)
                if event["type"] == "session.status" and event["status"] in ENDS:
                    break
    screen.close()
