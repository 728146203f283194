"""`tersely hook`: sets hooks of coding agents up, and checks them. Answering events is `tersely.coding.hook`."""

from __future__ import annotations

import json
import shlex
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tersely.cli.errors import fail
from tersely.cli.gateway_install import launcher, may_write
from tersely.cli.run import UNPARSED

if TYPE_CHECKING:
    from tersely.settings.client_hooks import HookClient

CLIENTS = ("claude-code",)


@click.group()
def hook() -> None:
    """Condense the results of a coding agent's own tools."""


@hook.command("claude-code", context_settings=UNPARSED, add_help_option=False)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def claude_code(words: tuple[str, ...]) -> None:
    """Answer one event of Claude Code."""
    from tersely.coding.hook import hook as answer
    from tersely.settings.environment import process_environment

    raise SystemExit(answer(["claude-code", *words], process_environment()))


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
    """Set the hooks of CLIENT up: claude-code.

    Shows the changes, asks, and saves a copy of the file beside it before writing. Comments and formatting are kept.

    \b
    tersely hook install claude-code --dry-run
    tersely hook install claude-code --project
    tersely hook install claude-code --undo
    """
    from tersely.settings import client_files as files
    from tersely.settings import client_hooks as hooks

    if project and named:
        fail("--project and --file cannot be combined: give one of them.")
    known = hooks.HOOK_CLIENTS[client]
    path = named or (Path.cwd() / known.project if project else Path.home() / known.user)
    text = files.read_file(path) if path.exists() else ""
    copy = path.with_name(path.name + files.BACKUP)
    original = files.read_file(copy) if copy.is_file() else None
    click.secho(f"{known.title} · {path}", bold=True)
    if undo:
        _undo(path, text, copy, original, dry_run, yes)
        return
    words = _words(known, project, threshold, budget, leave, no_mask_workspace) + (["--warm"] if warm else [])
    entries = known.entries(shlex.join(words), _matchers(), _seconds())
    after = hooks.with_hooks(path, text, entries)
    if after == text:
        click.echo("Nothing to change.")
        return
    _show_diff(path, text, after)
    if not may_write(path, dry_run, yes):
        return
    before = text if not hooks.has_hooks(path, text) else original if original is not None else ""
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
    words += [word for tool in (*leave, *_through_gateway()) for word in ("--leave", tool)]
    return words + (["--no-mask-workspace"] if no_mask_workspace else [])


def _through_gateway() -> list[str]:
    """The tools of servers that the gateway serves already: their results are masked, kept and condensed."""
    from tersely.errors import ConfigError
    from tersely.settings import client_files as files
    from tersely.settings.client_programs import CLIENTS as PROGRAMS
    from tersely.settings.client_programs import Machine, user_file
    from tersely.settings.environment import process_environment

    client = PROGRAMS["claude-code"]
    path = user_file(client, Machine.here(sys.platform, Path.home(), process_environment()))
    try:
        plan = files.plan_routing(client, path, files.read_file(path), files.Route(["tersely"]))
    except ConfigError:
        return []
    return [f"mcp__{name}__*" for name in plan.settled]


def _matchers() -> dict[str, str]:
    from tersely.coding.claude_code import TOOLS, WRITING_TOOLS

    return {"PostToolUse": TOOLS, "PreToolUse": WRITING_TOOLS}


def _seconds() -> float:
    from tersely.coding.hook import SECONDS

    return SECONDS


def _undo(path: Path, text: str, copy: Path, original: str | None, dry_run: bool, yes: bool) -> None:
    from tersely.settings import client_hooks as hooks

    if not hooks.has_hooks(path, text):
        click.echo("Nothing to change: there is no hook of tersely in this file.")
        return
    after = hooks.without_hooks(path, text, original)
    if original is not None and "".join(after.split()) == "".join(original.split()):
        after = original  # Nobody else has changed the file, so every byte is as it was.
    _show_diff(path, text, after)
    if not may_write(path, dry_run, yes):
        return
    if original == "" and after.strip() in ("", "{}"):
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
    from tersely.coding.exchanges import CLAUDE_CODE_OUTPUTS, NEEDLE, SECRET, VERSIONS, claude_code_events, refusal_of

    click.echo(f"Events and rules of Claude Code {VERSIONS[client]}")
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        for event in claude_code_events(folder):
            tool = event["tool_name"]
            answer = _answered(client, event, folder)
            problem = _problem(answer, refusal_of, CLAUDE_CODE_OUTPUTS[tool], SECRET)
            shows = tool == "Glob" or NEEDLE in json.dumps(answer)
            sizes = f"{len(json.dumps(event['tool_response'])):,} → {len(json.dumps(answer)):,} characters"
            failures += bool(problem) or not shows
            sign = click.style("✗", fg="red") if problem or not shows else click.style("✓", fg="green")
            click.echo(f"  {sign} {tool:<22} {problem or sizes}")
    path = Path.home() / ".claude" / "settings.json"
    _check_file(path)
    if failures:
        raise SystemExit(1)


def _problem(answer: Any, refusal_of: Any, schema: Any, secret: str) -> str:
    if answer is None:
        return "no answer; see hook.log in the data folder"
    if refusal := refusal_of(answer, schema):
        return f"the client would refuse it: {refusal}"
    return "a secret came through" if secret in json.dumps(answer) else ""


def _answered(client: str, event: dict[str, Any], folder: str) -> Any:
    """What the installed program answers, in a process of its own, as the client starts it."""
    import subprocess

    command = [*launcher(), "hook", client, "--data-dir", folder]
    done = subprocess.run(command, input=json.dumps(event), capture_output=True, text=True, check=False)
    if done.returncode or not done.stdout:
        return None
    return json.loads(done.stdout)["hookSpecificOutput"]["updatedToolOutput"]


def _check_file(path: Path) -> None:
    from tersely.settings import client_files as files
    from tersely.settings import client_hooks as hooks

    is_set_up = path.is_file() and hooks.has_hooks(path, files.read_file(path))
    click.echo(f"  {path}: {'set up' if is_set_up else 'not set up; tersely hook install claude-code'}")
