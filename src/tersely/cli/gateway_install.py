"""`tersely gateway install`: routes the servers in a client's configuration through the gateway, and undoes it."""

from __future__ import annotations

import re
import shutil
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tersely.cli.errors import fail
from tersely.cli.extras import check_extra

if TYPE_CHECKING:
    from tersely.settings.client_files import FileChange, Route
    from tersely.settings.client_programs import ClientProgram, Machine

CLIENTS = (
    *("claude-desktop", "claude-code", "cursor", "vscode", "windsurf", "codex", "gemini-cli", "zed", "cline"),
    *("opencode", "goose", "jetbrains"),
)

_IMPORTANT_VARIABLES = re.compile(
    r"(?i)token|key|secret|password|credential|_url$|_uri$|_host$|^(aws|azure|gcp|google|github|gitlab|docker|kube|pg|node|npm|python|java)"
    r"|^(ssh_auth_sock|virtual_env|lang|lc_all|tz|tmpdir)$"
)
_IRRELEVANT_VARIABLES = re.compile(
    r"^(_|PWD|OLDPWD|SHLVL|PS1|LS_COLORS|LESS.*|HIST.*|TERM_.*|COLORTERM|WINDOWID|DISPLAY|PAGER|EDITOR|VISUAL|COLUMNS|LINES)$"
)


@click.command()
@click.argument("client", type=click.Choice(CLIENTS), metavar="[CLIENT]", required=False)
@click.option("--list", "listed", is_flag=True, help="Show the clients, their files and how many servers are routed.")
@click.option("--all", "everything", is_flag=True, help="Change the files of all clients that are found.")
@click.option(
    "--project",
    is_flag=True,
    help="Change the file of the project in this folder (.mcp.json, .cursor/mcp.json, .vscode/mcp.json …).",
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
    client: str | None,
    listed: bool,
    everything: bool,
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

    CLIENT is claude-desktop, claude-code, cursor, vscode, windsurf, codex, gemini-cli, zed, cline, opencode, goose or
    jetbrains.

    Shows the changes, asks, and saves a copy of the file beside it before writing. Comments and formatting are kept;
    secrets stay where they are. Run it again to route servers that were added since.

    \b
    tersely gateway install --list
    tersely gateway install claude-desktop --dry-run
    tersely gateway install vscode --project
    tersely gateway install cursor --undo
    """
    if not undo:  # a route to a gateway that cannot start would cut the client off from its servers
        check_extra("gateway install")

    from tersely.errors import ConfigError
    from tersely.settings.client_programs import CLIENTS as PROGRAMS
    from tersely.settings.client_programs import Machine
    from tersely.settings.environment import process_environment

    machine = Machine.here(sys.platform, Path.home(), process_environment())
    if listed:
        _list_clients(machine, project)
        return
    if project and named:
        fail("--project and --file cannot be combined: give one of them.")
    if everything and (client or named):
        fail("--all is for every client; leave CLIENT and --file out.")
    if not everything and client is None:
        fail(f"Which client? Give one of {', '.join(CLIENTS)}, or --all; --list shows what is here.")
    job = _Installation(machine, project, named, only, skip, inherit, dry_run, yes, undo)
    if client is not None:
        job.run(PROGRAMS[client])
        return
    found = [one for one in PROGRAMS.values() if (path := _file_of(one, machine, project)) and path.is_file()]
    if not found:
        fail("No client has a file here. --list shows where they are expected.")
    failures = []
    for one in found:
        try:
            job.run(one)
        except ConfigError as problem:  # one broken file must not keep the others from being changed
            failures.append(str(problem))
            click.secho(str(problem), fg="yellow", err=True)
        click.echo()
    if failures:
        raise SystemExit(2)


@dataclass(frozen=True)
class _Installation:
    """The options of one run of `install`."""

    machine: Machine
    project: bool
    named: Path | None
    only: tuple[str, ...]
    skip: tuple[str, ...]
    inherit: tuple[str, ...]
    dry_run: bool
    yes: bool
    undo: bool

    def run(self, client: ClientProgram) -> None:
        """Change the file of one client."""
        from tersely.settings import client_files as files

        path = _configuration_file(client, self.machine, self.project, self.named)
        text = files.read_file(path)
        copy = path.with_name(path.name + files.BACKUP)
        backup = files.read_file(copy) if copy.is_file() else None
        click.secho(f"{client.title} · {path}", bold=True)
        plan = files.plan_undoing(client, path, text, backup) if self.undo else self._routing(client, path, text)
        _show(plan, self.undo)
        if not plan.changed:
            click.echo("Nothing to change." if not plan.left else "Nothing can be changed.")
            return
        if not self.undo and client.passes_environment:
            _show_variables(plan, self.machine, self.inherit)
        if not may_write(path, self.dry_run, self.yes):
            return
        if self.undo:
            files.replace_file(path, plan.before, plan.after)
            if not plan.left:
                copy.unlink(missing_ok=True)
            click.echo(f"{_servers(len(plan.changed))} restored. {client.restart}")
            return
        original = files.plan_undoing(client, path, text, backup).after
        files.write_file(copy, original, permissions=stat.S_IMODE(path.stat().st_mode))
        files.replace_file(path, plan.before, plan.after)
        click.echo(f"{_servers(len(plan.changed))} routed through tersely. {client.restart}")
        for name, url in plan.public:
            click.echo(f"If {name} asks for a login: tersely gateway login {url}")
        where = " --project" if self.project else f" --file {self.named}" if self.named else ""
        undo = f"tersely gateway install {client.name}{where} --undo"
        click.secho(f"Copy of the original: {copy} · to undo: {undo}", dim=True)

    def _routing(self, client: ClientProgram, path: Path, text: str) -> FileChange:
        from tersely.settings import client_files as files

        # A project file is shared with other machines, where tersely may have another path.
        command = ["tersely"] if self.project else launcher()
        folder = Path.cwd() if self.project else None
        route = files.Route(command, self.inherit, self.only, self.skip, folder=folder, home=self.machine.home)
        plan = files.plan_routing(client, path, text, route)
        _check_names(plan, route)
        return plan


def may_write(path: Path, dry_run: bool, yes: bool) -> bool:
    """Ask before a file is written; without a terminal, `--yes` is needed."""
    if dry_run:
        click.echo("Nothing was written (--dry-run).")
        return False
    if yes:
        return True
    if not sys.stdin.isatty():
        fail("Standard input is not a terminal, so --yes is needed to write; --dry-run shows the changes.")
    if not click.confirm(f"Write {path.name}?", default=True):
        click.echo("Nothing was written.")
        return False
    return True


def _list_clients(machine: Machine, project: bool) -> None:
    from tersely.errors import ConfigError
    from tersely.settings import client_files as files
    from tersely.settings.client_programs import CLIENTS as PROGRAMS

    width = max(map(len, PROGRAMS))
    for client in PROGRAMS.values():
        path = _file_of(client, machine, project)
        if path is None:
            state = "has no project files"
        elif not path.is_file():
            state = f"no file  {path}"
        else:
            try:
                plan = files.plan_routing(client, path, files.read_file(path), files.Route(["tersely"]))
                count = len(plan.settled) + len(plan.changed) + len(plan.left)
                state = f"{len(plan.settled)} of {count} servers routed  {path}"
            except ConfigError as problem:
                state = f"cannot be read: {problem}"
        click.echo(f"{client.name:<{width}}  {state}")


def _file_of(client: ClientProgram, machine: Machine, project: bool) -> Path | None:
    from tersely.settings.client_programs import user_file

    if not project:
        return user_file(client, machine)
    return Path.cwd() / client.project if client.project else None


def _configuration_file(client: ClientProgram, machine: Machine, project: bool, named: Path | None) -> Path:
    if named:
        return named if named.is_file() else fail(f"{named}: no such file.")
    users, projects = _file_of(client, machine, False), _file_of(client, machine, True)
    assert users is not None
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


def launcher() -> list[str]:
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
