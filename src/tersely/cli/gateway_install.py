"""`tersely gateway install`: routes the servers in a client's configuration through the gateway, and undoes it."""

from __future__ import annotations

import re
import shutil
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tersely.cli.errors import fail
from tersely.cli.extras import check_extra

if TYPE_CHECKING:
    from tersely.settings.client_files import ClientProgram, FileChange, Machine, Route

CLIENTS = ("claude-desktop", "claude-code", "cursor", "vscode", "windsurf")

_IMPORTANT_VARIABLES = re.compile(
    r"(?i)token|key|secret|password|credential|_url$|_uri$|_host$|^(aws|azure|gcp|google|github|gitlab|docker|kube|pg|node|npm|python|java)"
    r"|^(ssh_auth_sock|virtual_env|lang|lc_all|tz|tmpdir)$"
)
_IRRELEVANT_VARIABLES = re.compile(
    r"^(_|PWD|OLDPWD|SHLVL|PS1|LS_COLORS|LESS.*|HIST.*|TERM_.*|COLORTERM|WINDOWID|DISPLAY|PAGER|EDITOR|VISUAL|COLUMNS|LINES)$"
)


@click.command()
@click.argument("client", type=click.Choice(CLIENTS), metavar="CLIENT")
@click.option(
    "--project",
    is_flag=True,
    help="Change the file of the project in this folder (.mcp.json, .cursor/mcp.json, .vscode/mcp.json).",
)
@click.option(
    "--file",
    "named",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Change this file, which has the client's format.",
)
@click.option(
    "--only", multiple=True, metavar="NAME", help="Route only this server. Repeatable; * and ? are wildcards."
)
@click.option(
    "--except",
    "skip",
    multiple=True,
    metavar="NAME",
    help="Do not route this server. Repeatable; * and ? are wildcards.",
)
@click.option(
    "--inherit-env",
    "inherit",
    multiple=True,
    metavar="NAME",
    help="Environment variable to pass on to the commands, besides those for proxies and certificates; '*' for all. "
    "Repeatable.",
)
@click.option("--dry-run", is_flag=True, help="Show what would change, without writing.")
@click.option("--yes", "-y", is_flag=True, help="Write without asking.")
@click.option("--undo", is_flag=True, help="Restore every server as it was before.")
def install(
    client: str,
    project: bool,
    named: Path | None,
    only: tuple[str, ...],
    skip: tuple[str, ...],
    inherit: tuple[str, ...],
    dry_run: bool,
    yes: bool,
    undo: bool,
) -> None:
    """Route the servers of a client through the gateway.

    CLIENT is claude-desktop, claude-code, cursor, vscode or windsurf.

    Shows the changes, asks, and saves a copy of the file beside it before writing. Comments and formatting are kept;
    secrets stay where they are. Run it again to route servers that were added since.

    \b
    tersely gateway install claude-desktop --dry-run
    tersely gateway install vscode --project
    tersely gateway install cursor --undo
    """
    if not undo:  # a route to a gateway that cannot start would cut the client off from its servers
        check_extra("gateway install")

    from tersely.settings import client_files as files
    from tersely.settings.environment import process_environment

    if project and named:
        fail("--project and --file cannot be combined: give one of them.")
    chosen = files.CLIENTS[client]
    machine = files.Machine.here(sys.platform, Path.home(), process_environment())
    path = _configuration_file(chosen, machine, project, named)
    text = files.read_file(path)
    copy = path.with_name(path.name + files.BACKUP)
    backup = files.read_file(copy) if copy.is_file() else None
    click.secho(f"{chosen.title} · {path}", bold=True)
    if undo:
        plan = files.plan_undoing(chosen, path, text, backup)
    else:
        # A project file is shared with other machines, where tersely may have another path.
        launcher = ["tersely"] if project else _launcher()
        route = files.Route(launcher, inherit, only, skip, folder=Path.cwd() if project else None, home=machine.home)
        plan = files.plan_routing(chosen, path, text, route)
        _check_names(plan, route)
    _show(plan, undo)
    if not plan.changed:
        click.echo("Nothing to change." if not plan.left else "Nothing can be changed.")
        return
    if not undo and chosen.passes_environment:
        _show_variables(plan, machine, inherit)
    if dry_run:
        click.echo("Nothing was written (--dry-run).")
        return
    if not yes:
        if not sys.stdin.isatty():
            fail("Standard input is not a terminal, so --yes is needed to write; --dry-run shows the changes.")
        if not click.confirm(f"Write {path.name}?", default=True):
            click.echo("Nothing was written.")
            return
    if undo:
        files.replace_file(path, plan.before, plan.after)
        if not plan.left:
            copy.unlink(missing_ok=True)
        click.echo(f"{_servers(len(plan.changed))} restored. {chosen.restart}")
        return
    original = files.plan_undoing(chosen, path, text, backup).after
    files.write_file(copy, original, permissions=stat.S_IMODE(path.stat().st_mode))
    files.replace_file(path, plan.before, plan.after)
    click.echo(f"{_servers(len(plan.changed))} routed through tersely. {chosen.restart}")
    for name, url in plan.public:
        click.echo(f"If {name} asks for a login: tersely gateway login {url}")
    where = " --project" if project else f" --file {named}" if named else ""
    click.secho(f"Copy of the original: {copy} · to undo: tersely gateway install {client}{where} --undo", dim=True)


def _configuration_file(client: ClientProgram, machine: Machine, project: bool, named: Path | None) -> Path:
    from tersely.settings.client_files import user_file

    if named:
        return named if named.is_file() else fail(f"{named}: no such file.")
    users, projects = user_file(client, machine), Path.cwd() / client.project if client.project else None
    if project:
        if projects is None:
            fail(f"{client.title} has no project files; its file is {users}.")
        if not projects.is_file():
            fail(f"{projects}: no such file, so this project declares no servers for {client.title}.")
        return projects
    if not users.is_file():
        hint = (
            f" This project has {client.project}: add --project."
            if projects and projects.is_file()
            else " Name another file with --file."
        )
        fail(f"{users}: no such file, so {client.title} has no servers there.{hint}")
    return users


def _launcher() -> list[str]:
    """The command that starts tersely with an absolute path: desktop programs do not have a shell's PATH."""
    started = Path(sys.argv[0])
    if started.stem.lower() == "tersely" and started.is_file():
        return [str(started.absolute())]
    found = shutil.which("tersely")
    return [found] if found else [sys.executable, "-m", "tersely"]


def _check_names(plan: FileChange, route: Route) -> None:
    known = {*plan.changed, *plan.settled, *(name for name, _ in plan.left)}
    for pattern in (*route.only, *route.skip):
        if not any(char in pattern for char in "*?[") and pattern not in known:
            fail(f"{plan.path}: there is no server {pattern!r}. Known servers: {', '.join(sorted(known)) or 'none'}.")


def _show(plan: FileChange, undo: bool) -> None:
    for line in plan.diff():
        shown = line if len(line) <= 400 else line[:400] + "…"
        colour = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1])
        click.secho(shown, fg=None if line.startswith(("+++", "---")) else colour)
    for name in plan.changed:
        click.echo(f"  {click.style('●', fg='green')} {name}: {'restored' if undo else 'through tersely'}")
    if plan.settled and not undo:
        click.echo(f"  {click.style('●', dim=True)} already through tersely: {', '.join(plan.settled)}")
    for name, reason in plan.left:
        click.echo(f"  {click.style('○', fg='yellow')} {name}: not changed, {reason}")


def _show_variables(plan: FileChange, machine: Machine, inherit: tuple[str, ...]) -> None:
    from tersely.settings.client_files import lost_variables
    from tersely.settings.environment import process_environment

    lost = [
        name
        for name in lost_variables(process_environment(), machine, inherit)
        if not _IRRELEVANT_VARIABLES.match(name)
    ]
    if not plan.commands or not lost:
        return
    important = [name for name in lost if _IMPORTANT_VARIABLES.search(name)]
    rest = [name for name in lost if name not in important]
    count = len(plan.commands)
    click.echo(
        f"\nSo far {'this command' if count == 1 else f'these {count} commands'} inherited the client's environment. "
        f"Through the gateway {'it gets' if count == 1 else 'they get'} only the variables of "
        f"{'its entry' if count == 1 else 'their entries'}, those for proxies and certificates, and a minimum "
        "such as PATH and HOME.\n"
        f"Of the variables that are set here {'it no longer gets' if count == 1 else 'they no longer get'}:"
    )
    for names, is_important in ((important, True), (rest, False)):
        if names:
            listed = click.wrap_text(", ".join(names), 110, "  ", "  ")
            click.secho(listed, bold=is_important or None, dim=None if is_important else True)
    example = next(iter(important or rest))
    click.echo(f"If a server needs one, pass it on: --inherit-env {example} (or '*' for all)\n")


def _servers(count: int) -> str:
    return "1 server is" if count == 1 else f"{count} servers are"
