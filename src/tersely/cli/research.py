"""`tersely research`: researches a subject and writes sourced facts. An interrupted run resumes where it stopped."""

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
from tersely.cli.extras import check_extra
from tersely.cli.hooks import Hooks, pass_hooks

if TYPE_CHECKING:
    from rich.console import Console

    from tersely.settings.model import Settings

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
CHAIN = "research"


@click.command()
@click.argument("subject")
@click.option(
    "--topics",
    required=True,
    type=FILE,
    help="YAML list of topics, or of names with questions; {subject} is replaced.",
)
@click.option(
    "--schema", type=FILE, help="JSON schema of the facts to extract. Without one the result contains passages."
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File to write  [default: standard output]",
)
@click.option(
    "--mcp-config", type=FILE, help="File with MCP servers (`mcpServers`, JSON), used instead of those in tersely.yaml."
)
@click.option("--config", "file", type=FILE, help="Configuration file  [default: tersely.yaml]")
@click.option("--pages", type=click.IntRange(1, 500), metavar="N", help="Number of pages to read  [default: 15]")
@click.option(
    "--max-tokens", type=click.IntRange(1), metavar="N", help="Stop when the model has used this many tokens."
)
@click.option(
    "--max-price",
    type=click.FloatRange(min=0, min_open=True),
    metavar="X",
    help="Stop when the model has cost this many US dollars.",
)
@click.option("--fresh", is_flag=True, help="Start again, even if the same research exists.")
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
    """Research a SUBJECT on the web and extract sourced facts.

    For each topic: search, read pages, condense them, and extract facts with their pages and lines.

    \b
    tersely research "Fizeivmark" --topics topics.yaml --schema schema.json -o out.json
    MCP_WEB_SEARCH_URL=… MCP_SUMMARIZER_URL=… tersely research … --mcp-config mcp_config.json

    Needs MCP servers with a search tool and a tool that reads pages; uses a summarizer tool if there is one. With a
    key, a model searches and extracts; without one, search results are read in order and rules extract the facts.

    Every step is stored: the same command resumes an interrupted run, and prints the result of a finished one. Exit
    code 0 when the research completed, 1 when it failed or a budget stopped it.
    """
    check_extra("research")

    from tersely.settings.model import Settings, find_file

    settings = Settings.load(
        file=find_file(file),
        here=True,
        TERSELY_RESEARCH_PAGES=pages,
        TERSELY_RESEARCH_MAX_TOKENS=max_tokens,
        TERSELY_RESEARCH_MAX_PRICE=max_price,
    )
    data: dict[str, Any] = {"subject": subject, "topics": _topics(topics)}
    if schema:
        data["schema"] = _schema(schema)
    settings = _research_settings(settings, data, mcp_config)
    raise SystemExit(_run(settings, data, output, hooks, fresh=fresh, quiet=quiet))


def _topics(path: Path) -> dict[str, str]:
    import yaml

    try:
        topics = yaml.safe_load(path.read_text("utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        fail(f"{path} is not valid YAML: {error}")
    if isinstance(topics, dict) and list(topics) == ["topics"]:
        topics = topics["topics"]
    if isinstance(topics, list) and all(isinstance(topic, str) for topic in topics):
        topics = {topic[:80]: topic for topic in topics}
    if not isinstance(topics, dict) or not topics or not all(isinstance(about, str) for about in topics.values()):
        fail(
            f"{path} must contain a list of topics, or names with questions, e.g.\n  people: Who lives in {{subject}}?"
        )
    return {str(name): about for name, about in topics.items()}


def _schema(path: Path) -> dict[str, Any]:
    from tersely.research.request import check_schema

    try:
        schema = json.loads(path.read_text("utf-8"))
        if not isinstance(schema, dict):
            raise ValueError("is not an object")
        check_schema(schema)
    except ValueError as error:
        fail(f"{path} {error}" if not isinstance(error, json.JSONDecodeError) else f"{path} is not valid JSON: {error}")
    return schema


def _research_settings(settings: Settings, data: dict[str, Any], mcp_config: Path | None) -> Settings:
    """The settings for this research: its servers, its chain, and its own database."""
    from pydantic import SecretStr

    from tersely.agent.options import AgentOptions
    from tersely.sessions.chains import ChainOptions, StageOptions
    from tersely.settings.files import read_servers

    servers = settings.mcp_servers
    if mcp_config:
        servers = {server.name: server.options for server in read_servers(mcp_config)}
    if not servers:
        fail(
            "No MCP server is configured, and research needs one that searches. Give --mcp-config FILE, or declare "
            "`mcp_servers` in tersely.yaml."
        )
    names = tuple(name for name, options in servers.items() if not options.disabled)
    chosen = next((chain for chain in settings.chains.values() if chain.kind == "research"), None)
    agent = settings.agents.get(chosen.stages[0].team()[0][1].name if chosen else "researcher") or AgentOptions()
    if mcp_config or not agent.mcp_servers:
        agent = agent.model_copy(update={"mcp_servers": names})
    chain = ChainOptions(alert_types=(CHAIN,), kind="research", stages=(StageOptions(name=CHAIN, agent="researcher"),))
    slug = re.sub(r"[^a-z0-9]+", "-", str(data["subject"]).lower()).strip("-")[:40]
    identity = [data, settings.research.model_dump(mode="json"), sorted(servers)]
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:12]
    folder = settings.store.data_dir.expanduser() / "research"
    folder.mkdir(parents=True, exist_ok=True)
    url = SecretStr(f"sqlite:///{folder / f'{slug}-{digest}.db'}")
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

    configure_logging("tersely", "error", settings.log_format)
    console = Console(highlight=False, stderr=True, quiet=quiet)
    try:
        result, reason = anyio.run(_research, settings, data, fresh, console, hooks)
    except KeyboardInterrupt:
        click.secho("Stopped. Run the same command to resume.", err=True)
        return 130
    if result is None:
        click.secho(f"tersely: {reason}", err=True)
        return 1
    text = json.dumps(result, ensure_ascii=False, indent=2) + "\n"
    if output is None or str(output) == "-":
        sys.stdout.write(text)
    else:
        _write(output, text)
        console.print(f"[dim]Result:[/] {output}")
    if pages := result["pages"]:
        database = shlex.quote(f"TERSELY_DATABASE_URL={settings.store.url}")
        command = f"env {database} tersely read --scope session:{result['session_id']} {pages[0]['handle']}"
        console.print("[dim]To read a page (any other handle works too):[/]")
        # Printed as one line so that it can be copied.
        console.print(command, soft_wrap=True, markup=False)
    if result["reason"]:
        click.secho(f"Stopped: {result['reason']}", err=True)
    return 1 if result["status"] == "stopped" else 0


def _write(path: Path, text: str) -> None:
    """Write atomically: a partial result must not look complete."""
    unfinished = path.with_name(path.name + ".part")
    unfinished.write_text(text, "utf-8")
    unfinished.replace(path)


async def _research(
    settings: Settings, data: dict[str, Any], fresh: bool, console: Console, hooks: Hooks
) -> tuple[dict[str, Any] | None, str]:
    """The result, or None and the reason."""
    from tersely.app.sessions import sessions_app
    from tersely.app.summarizer import kept_results
    from tersely.cli.local_session import show_session
    from tersely.research.work import result_of
    from tersely.sessions.intake import Submission
    from tersely.store import listing
    from tersely.store import sessions as rows
    from tersely.web.version import VERSION

    # Checked first: a finished research needs no servers.
    async with kept_results(settings) as kept:
        async with kept.database.reading() as db:
            listed, _ = await listing.list_page(db, listing.Filters(), limit=1)
        previous = listed[0].session if listed and not fresh else None
        if previous is not None and previous.status == "completed" and (result := await result_of(kept, previous)):
            console.print("[dim]This research is finished; printing its result. --fresh starts again.[/]")
            return result, ""
    async with sessions_app(settings, version=VERSION, on_point=hooks.on_point) as sessions:
        if previous is not None and not previous.has_ended:
            console.print("[dim]Resuming the interrupted research.[/]")
            session_id = previous.id
        else:
            accepted = await sessions.intake.submit(Submission(data=data, alert_type=CHAIN), principal="research")
            session_id = accepted.session_id
        await show_session(sessions, session_id, console)
        async with sessions.database.reading() as db:
            session = await rows.find(db, session_id)
        if session.status != "completed":
            # The timeline ends with the reason.
            reason = session.reason if console.quiet or not session.reason else ""
            return None, reason or f"The research {session.status}. The same command tries again."
        return await result_of(sessions.kept, session), "The result could not be kept; --fresh starts again."
