"""`tersely ask`: investigates a question in this process, without a running service, and prints the verdict."""

from __future__ import annotations

import json
import shlex
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tersely.cli.errors import fail
from tersely.cli.extras import check_extra

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

    from tersely.mcp.servers import ServerOptions
    from tersely.sessions.overrides import Override
    from tersely.settings.model import Settings
    from tersely.store.sessions import Session

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_READ = "tersely read "
ANSWERS = ("final_analysis", "verdict")
"""Events that are not shown as progress: they are the output."""


@click.command()
@click.argument("question")
@click.option(
    "--servers",
    "servers",
    multiple=True,
    metavar="NAME[:TOOL,…]",
    help="Use only this server (and these tools). Repeatable.",
)
@click.option("--config", "file", type=FILE, help="Configuration file  [default: tersely.yaml]")
@click.option(
    "--mcp-config", type=FILE, help="File with MCP servers (`mcpServers`, JSON), used instead of those in tersely.yaml."
)
@click.option("--type", "alert_type", metavar="TYPE", help="Alert type; it selects the chain of the configuration.")
@click.option("--runbook", type=FILE, help="File with instructions for the agents.")
@click.option("--read-only", is_flag=True, help="Call only tools that declare that they change nothing.")
@click.option("--keep", is_flag=True, help="Keep what was found, to read complete results afterwards.")
@click.option("--quiet", is_flag=True, help="Show no progress.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def ask(
    question: str,
    servers: tuple[str, ...],
    file: Path | None,
    mcp_config: Path | None,
    alert_type: str | None,
    runbook: Path | None,
    read_only: bool,
    keep: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Investigate a QUESTION and print the verdict.

    Needs no alert and no running service. It uses the MCP servers of tersely.yaml, of --mcp-config, or of the first MCP
    client of this user that has some. With a key a model investigates; without one, read-only tools are called and
    their results compared. Progress goes to standard error.

    \b
    tersely ask "why is checkout failing?"
    tersely ask "why does web-7 restart?" --servers cluster:get_pods,get_logs --json

    Exit code 0 when a cause was found, 1 when none was found or the investigation failed, 2 when it could not begin.
    """
    check_extra("ask")

    if not question.strip():
        fail("The question is empty.")
    settings = _settings(file, mcp_config, alert_type, read_only=read_only)
    override = _override(servers, settings)
    text = runbook.read_text("utf-8", "replace") if runbook else ""
    raise SystemExit(_run(settings, question, alert_type, override, text, keep=keep, quiet=quiet, as_json=as_json))


def _settings(file: Path | None, mcp_config: Path | None, alert_type: str | None, *, read_only: bool) -> Settings:
    from tersely.agent.options import AgentOptions
    from tersely.sessions.chains import ChainOptions, StageOptions
    from tersely.settings.files import read_servers
    from tersely.settings.model import Settings, find_file

    settings = Settings.load(file=find_file(file))
    changes: dict[str, Any] = {}
    servers: dict[str, ServerOptions] = dict(settings.mcp_servers)
    if mcp_config:
        servers = {one.name: one.options for one in read_servers(mcp_config)}
    elif not any(not options.disabled for options in servers.values()):
        servers = _client_servers()
    if read_only:
        servers = {name: options.model_copy(update={"read_only": True}) for name, options in servers.items()}
    if servers != settings.mcp_servers:
        changes["mcp_servers"] = servers
    is_declared = bool(alert_type) or (settings.mcp_servers.keys() == servers.keys() and _has_default(settings))
    if not is_declared:
        names = tuple(name for name, options in servers.items() if not options.disabled)
        stage = StageOptions(name="investigate", agent="ask")
        changes["agents"] = {"ask": AgentOptions(mcp_servers=names)}
        changes["chains"] = {"ask": ChainOptions(alert_types=("question",), stages=(stage,))}
        changes["defaults"] = settings.defaults.model_copy(update={"alert_type": "question", "verdict": True})
    return settings.model_copy(update=changes)


def _has_default(settings: Settings) -> bool:
    """Whether a chain of the configuration investigates alerts without a type."""
    known = {alert_type: chain for chain in settings.chains.values() for alert_type in chain.alert_types}
    if settings.defaults.alert_type:
        return known[settings.defaults.alert_type].kind == "investigation"
    return len(settings.chains) == 1 and next(iter(settings.chains.values())).kind == "investigation"


def _client_servers() -> dict[str, ServerOptions]:
    """The servers of the first MCP client of this user that has some.

    Never those of the current folder: its project may be a stranger's, and servers are commands that are run.
    """
    from tersely.errors import ConfigError
    from tersely.settings.client_programs import CLIENTS, Machine, user_file
    from tersely.settings.environment import process_environment
    from tersely.settings.files import read_servers

    machine = Machine.here(sys.platform, Path.home(), process_environment())
    for client in CLIENTS.values():
        path = user_file(client, machine)
        try:
            found = read_servers(path) if path.is_file() else ()
        except ConfigError:
            continue
        if servers := {one.name: one.options for one in found if not one.options.disabled}:
            click.secho(f"Servers of {client.title} ({path}): {', '.join(servers)}", dim=True, err=True)
            return servers
    return fail(
        "There is no MCP server to investigate with: neither tersely.yaml nor an MCP client of this user declares one. "
        "Declare `mcp_servers` in tersely.yaml, or give --mcp-config FILE."
    )


def _override(servers: tuple[str, ...], settings: Settings) -> Override | None:
    import difflib

    from pydantic import ValidationError

    from tersely.cli.watch import selection
    from tersely.sessions.overrides import Override

    if not servers:
        return None
    # `--servers a,b` names two servers; `--servers a:x,y` two tools of one.
    chosen = [one for value in servers for one in ([value] if ":" in value else value.split(",")) if one.strip()]
    wanted = [selection(one.strip()) for one in chosen]
    known = [name for name, options in settings.mcp_servers.items() if not options.disabled]
    for one in wanted:
        if one["name"] not in known:
            near = difflib.get_close_matches(one["name"], known, n=1)
            fail(
                f"There is no server {one['name']!r}."
                + (f" Did you mean {near[0]!r}?" if near else f" There are: {', '.join(known)}.")
            )
    try:
        return Override.model_validate({"servers": wanted})
    except ValidationError as problem:
        fail(f"--servers: {problem.errors()[0]['msg']}.")


def _run(
    settings: Settings,
    question: str,
    alert_type: str | None,
    override: Override | None,
    runbook: str,
    *,
    keep: bool,
    quiet: bool,
    as_json: bool,
) -> int:
    import anyio
    from pydantic import SecretStr
    from rich.console import Console

    from tersely.logging_setup import configure_logging
    from tersely.store.private import private_folder

    configure_logging("tersely", "error")
    console = Console(highlight=False, stderr=True, quiet=quiet)
    with ExitStack() as stack:
        folder = settings.store.data_dir.expanduser() / "ask"
        if keep:
            private_folder(folder)
            database = Path(tempfile.mkdtemp(dir=folder)) / "tersely.db"
        else:
            database = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tersely-ask-"))) / "tersely.db"
        store = settings.store.model_copy(update={"database_url": SecretStr(f"sqlite:///{database}")})
        settings = settings.model_copy(update={"store": store})
        try:
            session = anyio.run(_investigated, settings, question, alert_type, override, runbook, console)
        except KeyboardInterrupt:
            return 130
    reading = ""
    if keep:
        environment = shlex.quote(f"TERSELY_DATABASE_URL={store.url}")
        reading = f"env {environment} tersely read --scope session:{session.id}"
        click.echo(f"To read a complete result: {reading} r_…", err=True)
    _print(session, question, reading, as_json=as_json)
    found = session.status == "completed" and bool((session.verdict or {"cause": session.analysis}).get("cause"))
    return 0 if found else 1


async def _investigated(
    settings: Settings,
    question: str,
    alert_type: str | None,
    override: Override | None,
    runbook: str,
    console: Console,
) -> Session:
    from tersely.app.sessions import sessions_app
    from tersely.cli.local_session import show_session
    from tersely.sessions.intake import Submission
    from tersely.store import sessions as rows
    from tersely.web.version import VERSION

    async with sessions_app(settings, version=VERSION) as sessions:
        submission = Submission(data=question, alert_type=alert_type, runbook=runbook, override=override)
        accepted = await sessions.intake.submit(submission, principal="local")
        await show_session(sessions, accepted.session_id, console, without=ANSWERS)
        async with sessions.database.reading() as db:
            return await rows.find(db, accepted.session_id)


def _print(session: Session, question: str, reading: str, *, as_json: bool) -> None:
    price = session.price_micros
    if as_json:
        fields = {
            "question": question,
            "status": session.status,
            "reason": session.reason,
            "verdict": session.verdict,
            "analysis": session.analysis,
            "model_calls": session.model_calls,
            "tool_calls": session.tool_calls,
            "input_tokens": session.input_tokens,
            "output_tokens": session.output_tokens,
            "price_usd": None if price is None else price / 1e6,
            "result_tokens": {"before": session.tokens_before, "after": session.tokens_after},
        }
        click.echo(json.dumps(fields, ensure_ascii=False, indent=2))
        return
    if session.status != "completed":
        click.secho(f"tersely: the investigation ended as {session.status}. {session.reason}", err=True)
    if session.verdict:
        click.echo(verdict_text(session.verdict, reading))
    elif session.analysis:
        click.echo(session.analysis)


def verdict_text(verdict: Mapping[str, Any], reading: str = "") -> str:
    """A verdict as plain text: cause, summary, evidence, next actions.

    Args:
        reading: The command that reads a kept result; empty if none is kept, and then no action suggests it.
    """
    from tersely.masking.clean import clean

    lines = [verdict["cause"] or "No likely cause was found."]
    facts = [f"{verdict['confidence']} confidence", verdict["service"]]
    facts += [f"since {verdict['since']}"] if verdict["since"] else []
    lines.append(" · ".join(fact for fact in facts if fact))
    if verdict["summary"] and verdict["summary"] != verdict["cause"]:
        lines += ["", verdict["summary"]]
    for heading, cited in (("Evidence:", verdict["evidence"]), ("Against it:", verdict["against"])):
        if cited:
            lines += ["", heading, *(f"  {one['source']}: {' '.join(one['quote'].split())[:300]}" for one in cited)]
    if verdict["actions"]:
        lines += ["", "Next:"]
        for number, action in enumerate(verdict["actions"], start=1):
            lines.append(f"  {number}. {action['text']}")
            command = action.get("command") or ""
            if command.startswith(_READ):
                command = f"{reading}{command.removeprefix(_READ.rstrip())}" if reading else ""
            if command:
                lines.append(f"     {command}")
    return clean("\n".join(lines)).text
