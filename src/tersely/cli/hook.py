"""`tersely hook`: sets hooks of coding agents up, and checks them. Answering events is `tersely.coding.hook`."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tersely.cli.errors import fail
from tersely.cli.gateway_install import launcher, may_write
from tersely.cli.run import UNPARSED
from tersely.coding.dialects import DIALECTS

if TYPE_CHECKING:
    from tersely.settings.client_hooks import HookClient

CLIENTS = tuple(DIALECTS)


@click.group()
def hook() -> None:
    """Condense the results of a coding agent's own tools."""


def _answering(client: str) -> click.Command:
    """The command that answers events of a client; `launch` runs it without this module."""

    @click.command(client, context_settings=UNPARSED, add_help_option=False)
    @click.argument("words", nargs=-1, type=click.UNPROCESSED)
    def answering(words: tuple[str, ...]) -> None:
        from tersely.coding.hook import hook as answer
        from tersely.settings.environment import process_environment

        raise SystemExit(answer([client, *words], process_environment()))

    answering.help = f"Answer one event of {client}."
    return answering


for _client in CLIENTS:
    hook.add_command(_answering(_client))


@hook.command()
@click.argument("client", type=click.Choice(CLIENTS), metavar="CLIENT")
@click.option("--project", is_flag=True, help="Change the settings of the project in this folder.")
@click.option(
    "--file",
    "named",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Change this file, which has the client's format.",
)
@click.option(
    "--threshold", type=click.IntRange(1), metavar="TOKENS", help="Leave results up to this size as they are."
)
@click.option("--budget", type=click.IntRange(200), metavar="TOKENS", help="Size of a condensed result, with its note.")
@click.option("--leave", multiple=True, metavar="TOOL", help="Leave this tool alone. Repeatable; * is a wildcard.")
@click.option("--no-mask-workspace", is_flag=True, help="Do not mask files of the agent's own folder.")
@click.option("--warm", is_flag=True, help="Answer through a helper process, which ends when it is idle.")
@click.option("--dry-run", is_flag=True, help="Show what would change, without writing.")
@click.option("--yes", "-y", is_flag=True, help="Write without asking.")
@click.option("--undo", is_flag=True, help="Restore the file as it was before.")
def install(
    client: str,
    project: bool,
    named: Path | None,
    threshold: int | None,
    budget: int | None,
    leave: tuple[str, ...],
    no_mask_workspace: bool,
    warm: bool,
    dry_run: bool,
    yes: bool,
    undo: bool,
) -> None:
    """Set the hooks of CLIENT up.

    CLIENT is claude-code, copilot, opencode, cursor, gemini-cli, qwen-code, codex, crush or goose. The last five let no
    hook replace a result, so theirs only refuses input that contains a mask.

    Shows the changes, asks, and saves a copy of the file beside it before writing. Comments and formatting are kept.

    \b
    tersely hook install claude-code --dry-run
    tersely hook install claude-code --project
    tersely hook install claude-code --undo
    """
    from tersely.settings import client_files as files
    from tersely.settings.client_hooks import HOOK_CLIENTS

    if project and named:
        fail("--project and --file cannot be combined: give one of them.")
    known = HOOK_CLIENTS[client]
    path = named or (Path.cwd() / known.project if project else Path.home() / known.user)
    text = files.read_file(path) if path.exists() else ""
    copy = path.with_name(path.name + files.BACKUP)
    original = files.read_file(copy) if copy.is_file() else None
    click.secho(f"{known.title} · {path}", bold=True)
    if undo:
        _undo(known, path, text, copy, original, dry_run, yes)
        return
    words = _words(known, project, threshold, budget, leave, no_mask_workspace) + (["--warm"] if warm else [])
    after = known.with_hooks(path, text, words, _seconds())
    if after == text:
        click.echo("Nothing to change.")
        return
    _show_diff(path, text, after)
    if not may_write(path, dry_run, yes):
        return
    before = text if not known.has_hooks(path, text) else original if original is not None else ""
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_file(copy, before, permissions=0o600)
    _write(path, text, after)
    click.echo(f"Hooks are set up. {known.restart}")
    where = " --project" if project else f" --file {named}" if named else ""
    click.secho(
        f"To see that it works: tersely hook check {client} · to undo: tersely hook install {client}{where} --undo",
        dim=True,
    )


def _words(
    client: HookClient,
    project: bool,
    threshold: int | None,
    budget: int | None,
    leave: tuple[str, ...],
    no_mask_workspace: bool,
) -> list[str]:
    """The command that the client starts."""
    from tersely.settings.environment import process_environment
    from tersely.settings.folders import data_folder
    from tersely.settings.model import Settings, find_file

    # A project file is shared with other machines, where tersely may have another path.
    words = [*(["tersely"] if project else launcher()), "hook", client.name]
    folder = Settings.load(None, find_file(here=False), sections=("store",)).store.data_dir.expanduser()
    if not project and str(folder) != data_folder({**process_environment(), "TERSELY_DATA_DIR": ""}):
        words += ["--data-dir", str(folder)]
    words += ["--threshold", str(threshold)] if threshold else []
    words += ["--budget", str(budget)] if budget else []
    routed = _through_gateway(client.name)
    names = _TOOL_NAMES.get(client.name, "")
    ours = [names.format(server=server, tool="*") for server in routed if names]
    words += [word for tool in (*leave, *ours) for word in ("--leave", tool)]
    words += ["--reader", names.format(server=routed[0], tool="read_result")] if routed and names else []
    return words + (["--no-mask-workspace"] if no_mask_workspace else [])


_TOOL_NAMES = {"claude-code": "mcp__{server}__{tool}", "opencode": "{server}_{tool}"}
"""How the tools of MCP servers are called in a client whose servers the gateway can serve."""


def _through_gateway(client: str) -> tuple[str, ...]:
    """The servers that the gateway serves already: their results are masked, kept and condensed."""
    from tersely.errors import ConfigError
    from tersely.settings import client_files as files
    from tersely.settings.client_programs import CLIENTS as PROGRAMS
    from tersely.settings.client_programs import Machine, user_file
    from tersely.settings.environment import process_environment

    program = PROGRAMS.get(client)
    if program is None:
        return ()
    path = user_file(program, Machine.here(sys.platform, Path.home(), process_environment()))
    try:
        return files.plan_routing(program, path, files.read_file(path), files.Route(["tersely"])).settled
    except ConfigError:
        return ()


def _seconds() -> float:
    from tersely.coding.hook import SECONDS

    return SECONDS


def _undo(
    client: HookClient, path: Path, text: str, copy: Path, original: str | None, dry_run: bool, yes: bool
) -> None:
    if not client.has_hooks(path, text):
        click.echo("Nothing to change: there is no hook of tersely in this file.")
        return
    after = client.without_hooks(path, text, original)
    if original is not None and "".join(after.split()) == "".join(original.split()):
        after = original  # Nobody else has changed the file, so every byte is as it was.
    _show_diff(path, text, after)
    if not may_write(path, dry_run, yes):
        return
    if original == "" and not after:
        path.unlink()  # There was no file.
    else:
        _write(path, text, after)
    copy.unlink(missing_ok=True)
    click.echo("The hooks are removed.")


def _write(path: Path, before: str, after: str) -> None:
    from tersely.settings import client_files as files

    if path.exists():
        files.replace_file(path, before, after)
    else:
        files.write_file(path, after, permissions=0o600)


def _show_diff(path: Path, before: str, after: str) -> None:
    """The changed lines only: the rest of the file is private."""
    import difflib

    for line in difflib.unified_diff(before.splitlines(), after.splitlines(), str(path), str(path), lineterm="", n=0):
        colour = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1])
        click.secho(line[:400], fg=None if line.startswith(("+++", "---")) else colour)


@hook.command()
@click.argument("client", type=click.Choice(CLIENTS), metavar="CLIENT", default="claude-code")
def check(client: str) -> None:
    """Check our answers with recorded events of CLIENT."""
    from tersely.coding.exchanges import NEEDLE, REFUSALS, REPLACEMENTS, SECRET, VERSIONS, events_of, writing_event_of
    from tersely.masking.mask import Masker
    from tersely.settings.client_hooks import HOOK_CLIENTS
    from tersely.store.private import masking_key

    click.echo(f"Events and rules of {VERSIONS[client]}")
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        mark = Masker(key=masking_key(folder)).mask(f"password={SECRET}")
        expected = [*zip(events_of(client, folder), REPLACEMENTS.get(client, ()), strict=True)]
        for event, schema in (*expected, (writing_event_of(client, folder, str(mark)), REFUSALS[client])):
            tool = event.get("tool_name") or event["toolName"]
            answer = _answered(client, event, folder)
            problem = _problem(answer, schema, SECRET, Path(folder) / "hook.log")
            if not problem and schema is not REFUSALS[client] and tool != "Glob" and NEEDLE not in json.dumps(answer):
                problem = "what matters is not shown"
            sizes = f"{len(json.dumps(event)):,} → {len(json.dumps(answer)):,} characters"
            failures += bool(problem)
            sign = click.style("✗", fg="red") if problem else click.style("✓", fg="green")
            click.echo(f"  {sign} {tool:<22} {problem or ('refused' if schema is REFUSALS[client] else sizes)}")
    _check_file(HOOK_CLIENTS[client])
    if failures:
        raise SystemExit(1)


def _problem(answer: Any, schema: Any, secret: str, log: Path) -> str:
    from tersely.coding.exchanges import refusal_of
    from tersely.settings.environment import process_environment

    if answer is None:
        if process_environment().get("TERSELY_OFF", "") not in ("", "0"):
            return "no answer, because TERSELY_OFF is set"
        lines = log.read_text("utf-8").splitlines() if log.exists() else []
        return f"no answer: {lines[-1]}" if lines else "no answer"
    if refusal := refusal_of(answer, schema):
        return f"the client would not accept it: {refusal}"
    return "a secret came through" if secret in json.dumps(answer) else ""


def _answered(client: str, event: dict[str, Any], folder: str) -> Any:
    """What the installed program answers, in a process of its own, as the client starts it."""
    import subprocess

    command = [*launcher(), "hook", client, "--data-dir", folder, "--seconds", "60"]
    done = subprocess.run(command, input=json.dumps(event), capture_output=True, text=True, check=False)
    return None if done.returncode or not done.stdout else json.loads(done.stdout)


def _check_file(client: HookClient) -> None:
    from tersely.settings import client_files as files

    path = Path.home() / client.user
    is_set_up = path.is_file() and client.has_hooks(path, files.read_file(path))
    click.echo(f"  {path}: {'set up' if is_set_up else f'not set up; tersely hook install {client.name}'}")
