"""`tersely gateway install`: puts us between a client and its servers, and takes us out again."""

from __future__ import annotations

import os
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

_TELLING = re.compile(
    r"(?i)proxy|token|key|secret|password|credential|cert|_url$|_uri$|_host$|^(aws|azure|gcp|google|github|gitlab|docker|kube|pg|node|npm|python|java)"
    r"|^(ssh_auth_sock|virtual_env|lang|lc_all|tz|tmpdir)$"
)
_NOISE = re.compile(
    r"^(_|PWD|OLDPWD|SHLVL|PS1|LS_COLORS|LESS.*|HIST.*|TERM_.*|COLORTERM|WINDOWID|DISPLAY|PAGER|EDITOR|VISUAL|COLUMNS|LINES)$"
)


@click.command(short_help="Route a client's own servers through the gateway.")
@click.argument("client", type=click.Choice(CLIENTS))
@click.option(
    "--project",
    is_flag=True,
    help="The file of the project in this folder (.mcp.json, .cursor/mcp.json, .vscode/mcp.json).",
)
@click.option(
    "--file",
    "named",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Another file in the client's format.",
)
@click.option("--only", multiple=True, metavar="NAME", help="Only this server. Repeatable; * and ? may stand in it.")
@click.option(
    "--except", "skip", multiple=True, metavar="NAME", help="Not this server. Repeatable; * and ? may stand in it."
)
@click.option(
    "--inherit-env",
    "inherit",
    multiple=True,
    metavar="NAME",
    help="A variable that the commands are to keep seeing. Repeatable.",
)
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--undo", is_flag=True, help="Take us out again: every server as it was.")
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
    """Route the servers of a client's own configuration through the gateway.

    Shows what would change, asks, and writes a copy of the file beside it first. Comments and formatting stay; secrets
    stay
    where they are. Running it again routes what was added since.

    \b
    tersely gateway install claude-desktop --dry-run
    tersely gateway install vscode --project
    tersely gateway install cursor --undo
    """
    if not undo:  # a route to a gateway that cannot start would cut the client off from its servers
        check_extra("gateway install")

    from tersely.settings import client_files as files

    if project and named:
        fail("--project and --file name different files: give one of them.")
    chosen = files.CLIENTS[client]
    machine = files.Machine.here(sys.platform, Path.home(), os.environ)
    path = _found(chosen, machine, project, named)
    text = files.read_file(path)
    copy = path.with_name(path.name + files.BACKUP)
    backup = files.read_file(copy) if copy.is_file() else None
    click.secho(f"{chosen.title} · {path}", bold=True)
    if undo:
        plan = files.plan_undoing(chosen, path, text, backup)
    else:
        # A file within a project is shared with others, whose machines have us elsewhere.
        launcher = ["tersely"] if project else _launcher()
        route = files.Route(launcher, inherit, only, skip, folder=Path.cwd() if project else None, home=machine.home)
        plan = files.plan_routing(chosen, path, text, route)
        _check_names(plan, route)
    _show(plan, undo)
    if not plan.changed:
        click.echo("Nothing is to be changed." if not plan.left else "Nothing can be changed.")
        return
    if not undo and chosen.passes_environment:
        _show_variables(plan, machine, inherit)
    if dry_run:
        click.echo("Nothing was written (--dry-run).")
        return
    if not yes:
        if not sys.stdin.isatty():
            fail("Nobody can be asked here. Say --yes to write it, or --dry-run to only look.")
        if not click.confirm(f"Write {path.name}?", default=True):
            click.echo("Nothing was written.")
            return
    if undo:
        files.replace_file(path, plan.before, plan.after)
        if not plan.left:
            copy.unlink(missing_ok=True)
        click.echo(f"{_servers(len(plan.changed))} as before. {chosen.restart}")
        return
    before_us = files.plan_undoing(chosen, path, text, backup).after
    files.write_file(copy, before_us, rights=stat.S_IMODE(path.stat().st_mode))
    files.replace_file(path, plan.before, plan.after)
    click.echo(f"{_servers(len(plan.changed))} routed through tersely. {chosen.restart}")
    where = " --project" if project else f" --file {named}" if named else ""
    click.secho(f"The file as it was: {copy} · back again: tersely gateway install {client}{where} --undo", dim=True)


def _found(client: ClientProgram, machine: Machine, project: bool, named: Path | None) -> Path:
    from tersely.settings.client_files import user_file

    if named:
        return named if named.is_file() else fail(f"{named}: there is no such file.")
    users, projects = user_file(client, machine), Path.cwd() / client.project if client.project else None
    if project:
        if projects is None:
            fail(f"{client.title} has no files in projects; its file is {users}.")
        if not projects.is_file():
            fail(f"{projects}: there is no such file, so this project declares no servers for {client.title}.")
        return projects
    if not users.is_file():
        hint = (
            f" This project has {client.project}: add --project."
            if projects and projects.is_file()
            else " Name another one with --file."
        )
        fail(f"{users}: there is no such file, so {client.title} has no servers there.{hint}")
    return users


def _launcher() -> list[str]:
    """The words that start us wherever the client runs: desktop programs do not have a shell's PATH."""
    started = Path(sys.argv[0])
    if started.stem.lower() == "tersely" and started.is_file():
        return [str(started.absolute())]
    found = shutil.which("tersely")
    return [found] if found else [sys.executable, "-m", "tersely"]


def _check_names(plan: FileChange, route: Route) -> None:
    known = {*plan.changed, *plan.settled, *(name for name, _ in plan.left)}
    for pattern in (*route.only, *route.skip):
        if not any(sign in pattern for sign in "*?[") and pattern not in known:
            fail(
                f"{plan.path}: there is no server called {pattern!r}. There are: {', '.join(sorted(known)) or 'none'}."
            )


def _show(plan: FileChange, undo: bool) -> None:
    for line in plan.diff():
        shown = line if len(line) <= 400 else line[:400] + "…"
        colour = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1])
        click.secho(shown, fg=None if line.startswith(("+++", "---")) else colour)
    for name in plan.changed:
        click.echo(f"  {click.style('●', fg='green')} {name}: {'as it was' if undo else 'through tersely'}")
    if plan.settled and not undo:
        click.echo(f"  {click.style('●', dim=True)} already through tersely: {', '.join(plan.settled)}")
    for name, reason in plan.left:
        click.echo(f"  {click.style('○', fg='yellow')} {name}: left alone, {reason}")


def _show_variables(plan: FileChange, machine: Machine, inherit: tuple[str, ...]) -> None:
    from tersely.settings.client_files import lost_variables

    lost = [name for name in lost_variables(list(os.environ), machine, inherit) if not _NOISE.match(name)]
    if not plan.commands or not lost:
        return
    telling = [name for name in lost if _TELLING.search(name)]
    rest = [name for name in lost if name not in telling]
    count = len(plan.commands)
    click.echo(
        f"\nSo far {'this command' if count == 1 else f'these {count} commands'} inherited the whole environment of "
        "the client. "
        f"Through us {'it sees what its entry names' if count == 1 else 'they see what their entries name'}, "
        "and a minimum such as PATH and HOME.\n"
        f"Of the variables set here {'it no longer sees' if count == 1 else 'they no longer see'}:"
    )
    for names, is_telling in ((telling, True), (rest, False)):
        if names:
            words = click.wrap_text(", ".join(names), 110, "  ", "  ")
            click.secho(words, bold=is_telling or None, dim=None if is_telling else True)
    example = next(iter(telling or rest))
    click.echo(f"If a server needs one, pass it on: --inherit-env {example}\n")


def _servers(count: int) -> str:
    return "1 server is" if count == 1 else f"{count} servers are"
