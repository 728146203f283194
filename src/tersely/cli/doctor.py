"""`tersely doctor`: checks that `tersely up` can run here, without changing anything."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Collection
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from tersely.cli.extras import check_extra
from tersely.cli.up import CONFIG

if TYPE_CHECKING:
    from tersely.errors import LLMError
    from tersely.llm.providers import ProviderOptions
    from tersely.settings.model import Settings

MODEL_SECONDS = 30.0
LOW_DISK_BYTES = 2**30
MIN_DISK_BYTES = 100 * 2**20
MAX_CLOCK_DIFFERENCE = 5.0
"""Seconds."""

OLD_BACKUP_DAYS = 7
CHECKED_BYTES = 2**30
"""SQLite files up to this size, together, are read to find damaged pages; that takes seconds."""

Verdict = Literal["fine", "look", "wrong"]
_MARKS: dict[Verdict, tuple[str, str]] = {"fine": ("✓", "green"), "look": ("!", "yellow"), "wrong": ("✗", "red")}


@dataclass(frozen=True)
class CheckOutcome:
    what: str
    verdict: Verdict
    words: str
    next_step: str = ""
    """What to do about it; every outcome but a fine one has one."""


@click.command()
@CONFIG
@click.option("--offline", is_flag=True, help="Do not call models or connect to servers.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def doctor(file: Path | None, offline: bool, as_json: bool) -> None:
    """Check that tersely up can run here.

    Checks configuration, disk, database, other workers, suspects, the last backup, port, models (one short call each)
    and MCP servers (one connection each), Slack and the mail server (nothing is sent), and says what to do about each
    failure. Changes nothing. Exit code 1 when a check fails.
    """
    check_extra("doctor")

    import logging

    import anyio

    # The output reports failures; log lines between its lines would repeat them.
    logging.getLogger().addHandler(logging.NullHandler())
    findings: list[CheckOutcome] = []

    async def run_checks() -> None:
        async for finding in _findings(file, offline):
            findings.append(finding)
            if not as_json:
                mark, color = _MARKS[finding.verdict]
                click.echo(f"{click.style(mark, fg=color)} {finding.what:<18} {finding.words}")
                if finding.next_step:
                    click.echo(f"{'':<20} {click.style('→', fg=color)} {finding.next_step}")

    anyio.run(run_checks)
    ok = all(finding.verdict != "wrong" for finding in findings)
    if as_json:
        click.echo(json.dumps({"ok": ok, "findings": [asdict(finding) for finding in findings]}, ensure_ascii=False))
    raise SystemExit(0 if ok else 1)


async def _findings(file: Path | None, offline: bool) -> AsyncIterator[CheckOutcome]:
    import platform

    from tersely.errors import ConfigError
    from tersely.settings.model import Settings, find_file
    from tersely.web.version import VERSION

    where = f"tersely {VERSION} on Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    yield CheckOutcome("program", "fine", where)
    found = find_file(file)
    try:
        settings = Settings.load(file=found, here=True)
    except ConfigError as error:
        shown = "tersely config check" + (f" --config {file}" if file else "")
        yield CheckOutcome("configuration", "wrong", str(error), f"Correct these lines, then run: {shown}")
        return
    yield CheckOutcome("configuration", "fine", f"{found}" if found else "no file; every setting has a default")
    yield _disk(settings)
    async for finding in _database(settings):
        yield finding
    yield _port(settings)
    for name in settings.llm_providers:
        yield await _model(settings, name, offline)
    if not settings.llm_providers:
        yield CheckOutcome(
            "model", "look", "none: agents only call read-only tools", f"For one, set {settings.model.missing()}."
        )
    async for finding in _servers(settings, offline):
        yield finding
    async for finding in _people(settings, offline):
        yield finding


async def _people(settings: Settings, offline: bool) -> AsyncIterator[CheckOutcome]:
    """The ways to tell people about sessions. Nothing is sent."""
    import httpx2

    from tersely.cpu.run import run_in_thread
    from tersely.sessions.slack import NotificationError, SlackApi
    from tersely.sessions.smtp import check_email

    slack, email = settings.slack, settings.email
    if slack.token:
        channels = ", ".join(sorted({slack.channel, *slack.channels.values()} - {""}))
        try:
            async with httpx2.AsyncClient() as http:
                api = SlackApi(http, slack.api_url, slack.token.get_secret_value(), slack.timeout)
                words = "not asked" if offline else await api.check()
            yield CheckOutcome("slack", "fine", f"{words}; channels {channels}")
        except NotificationError as problem:
            step = "Check TERSELY_SLACK_TOKEN (or slack.token), and that this machine reaches Slack."
            yield CheckOutcome("slack", "wrong", f"refused the token: {problem}", step)
        if not settings.up.public_url:
            step = "Set TERSELY_PUBLIC_URL to the address under which people open the dashboard."
            yield CheckOutcome("links", "look", "messages have no link to the session", step)
    if email.host and (email.to or email.chains):
        try:
            if not offline:
                await run_in_thread(check_email, email)
            yield CheckOutcome("email", "fine", f"{email.host}:{email.port}" + (", not connected" if offline else ""))
        except NotificationError as problem:
            step = "Check TERSELY_SMTP_HOST, _PORT, _SECURITY, _USERNAME and _PASSWORD."
            yield CheckOutcome("email", "wrong", f"{email.host}:{email.port}: {problem}", step)


def _disk(settings: Settings) -> CheckOutcome:
    import os
    import shutil

    from tersely.store.sqlite_files import file_of

    file = file_of(settings.store.url)
    folder = file.parent if file else settings.store.data_dir.expanduser()
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        return CheckOutcome(
            "disk", "wrong", f"{existing} is not writable", "Set TERSELY_DATA_DIR to a folder that is writable."
        )
    free = shutil.disk_usage(existing).free
    space = f"{folder}, {free / 2**30:,.1f} GiB free"
    if free < LOW_DISK_BYTES:
        return CheckOutcome(
            "disk",
            "wrong" if free < MIN_DISK_BYTES else "look",
            f"{space}: kept results may need more",
            "Free some space, move TERSELY_DATA_DIR, or keep less: TERSELY_KEEP_MB, TERSELY_KEEP_DAYS.",
        )
    return CheckOutcome("disk", "fine", space)


async def _database(settings: Settings) -> AsyncIterator[CheckOutcome]:
    from datetime import UTC, datetime

    from tersely.errors import TerselyError
    from tersely.sessions.suspects import SUSPECTED_AFTER
    from tersely.store import executors, overview
    from tersely.store.database import Database
    from tersely.store.liveness import can_lock
    from tersely.store.sqlite_files import check_file, engine_file, file_of
    from tersely.store.tables import SCHEMA

    url = settings.store.url
    file = file_of(url)
    if file and not file.exists():
        # Opening it would create it.
        yield CheckOutcome("database", "fine", f"SQLite, {file} (created at the first start)")
        return
    try:
        if file:
            check_file(engine_file(file))
            pages = _pages(file)
        async with Database.open(url) as database:
            async with database.reading() as db:
                clock_difference = abs((await overview.time(db) - datetime.now(UTC)).total_seconds())
                sessions = (await overview.look(db)).sessions
                suspects = await overview.suspects(db, SUSPECTED_AFTER)
                versions = {one.version for one in await executors.alive(db, lease=settings.queue.lease)}
            read_only = await overview.why_read_only(database)
            is_pooled = not database.is_sqlite and not await can_lock(database)
    except TerselyError as error:
        step = (
            "Check TERSELY_DATA_DIR; another version may have written it. A backup: tersely restore FILE."
            if file
            else "Check TERSELY_DATABASE_URL and that the server is up; for an old schema run: tersely migrate"
        )
        yield CheckOutcome("database", "wrong", str(error), step)
        return
    waiting = sessions.get("pending", 0)
    state = f"{f'SQLite, {pages}' if file else 'PostgreSQL'}, schema {SCHEMA}"
    if waiting:
        state += f", {waiting:,} alerts waiting"
    if read_only:
        step = "Make its file and folder writable." if file else "Connect to the primary, as a user who may write."
        yield CheckOutcome("database", "wrong", f"{state}; it cannot be written: {read_only}", step)
    elif clock_difference > MAX_CLOCK_DIFFERENCE:
        words = f"{state}; its clock differs from ours by {clock_difference:,.0f} s, so shown times will be off"
        yield CheckOutcome("database", "look", words, "Synchronise both clocks (NTP).")
    else:
        yield CheckOutcome("database", "fine", state)
    yield _takeover(settings, is_sqlite=file is not None, is_pooled=is_pooled)
    yield _versions(versions)
    yield _suspects(suspects)
    yield _backup(file, sum(sessions.values()))


def _pages(file: Path) -> str:
    """Look for damaged pages in both SQLite files.

    Raises:
        StoreUnavailable: There is one.
    """
    from tersely.store.sqlite_files import check_pages, engine_file

    files = [one for one in (file, engine_file(file)) if one.exists()]
    size = sum(one.stat().st_size for one in files)
    if size > CHECKED_BYTES:
        return (
            f"pages not checked (its files, {size / 2**20:,.0f} MB, are larger than {CHECKED_BYTES / 2**20:,.0f} MB; "
            "tersely backup checks them)"
        )
    for one in files:
        check_pages(one)
    return "no damaged page"


def _takeover(settings: Settings, *, is_sqlite: bool, is_pooled: bool) -> CheckOutcome:
    if is_sqlite:
        return CheckOutcome("takeover", "fine", "sessions of a dead process are resumed when it is started again")
    if not is_pooled:
        return CheckOutcome("takeover", "fine", "sessions of a dead worker are resumed after a second or two")
    return CheckOutcome(
        "takeover",
        "look",
        f"PostgreSQL is behind a connection pooler, so sessions of a dead worker are resumed after its lease "
        f"({settings.queue.lease:g} s) instead of a second or two",
        "Connect to PostgreSQL directly in TERSELY_DATABASE_URL.",
    )


def _versions(running: Collection[str]) -> CheckOutcome:
    from tersely.web.version import VERSION

    if others := sorted(set(running) - {VERSION}):
        return CheckOutcome(
            "versions",
            "look",
            f"workers of tersely {', '.join(others)} are running, this is {VERSION}",
            "Update them, too, unless an update is under way.",
        )
    return CheckOutcome("versions", "fine", "no worker of another version is running")


def _suspects(suspects: int) -> CheckOutcome:
    if not suspects:
        return CheckOutcome("suspects", "fine", "no open session is suspected of crashing its workers")
    return CheckOutcome(
        "suspects",
        "look",
        f"{suspects:,} open {'session is' if suspects == 1 else 'sessions are'} suspected of crashing workers; each is "
        "tried in a process of its own",
        "Look for session_suspected in the log of the workers.",
    )


def _backup(file: Path | None, sessions: int) -> CheckOutcome:
    from datetime import UTC, datetime

    from tersely.store.sqlite_files import last_backup

    if file is None:
        return CheckOutcome("backup", "fine", "not checked: pg_dump backs up PostgreSQL (see tersely backup --help)")
    if (last := last_backup(file)) is None:
        verdict: Verdict = "look" if sessions else "fine"
        step = "Make one: tersely backup FILE" if sessions else ""
        return CheckOutcome("backup", verdict, "none is known", step)
    is_old = (datetime.now(UTC) - last.made_at).days >= OLD_BACKUP_DAYS
    words = f"the last one is of {last.made_at:%Y-%m-%d %H:%M} UTC"
    return CheckOutcome(
        "backup", "look" if is_old else "fine", words, "Make a new one: tersely backup FILE" if is_old else ""
    )


def _port(settings: Settings) -> CheckOutcome:
    import httpx2

    from tersely.errors import ConfigError
    from tersely.http.listen import listen
    from tersely.web.auth import build_authenticator

    host, port = settings.up.host, settings.up.port
    try:
        build_authenticator(settings, host)
    except ConfigError as error:
        return CheckOutcome("address", "wrong", str(error), "Make a token with: tersely config token NAME")
    try:
        listen(host, port).close()
    except OSError as error:
        try:
            version = httpx2.get(f"http://{host}:{port}/health", timeout=3).json()["version"]
            return CheckOutcome("address", "fine", f"http://{host}:{port}, tersely {version} is running there")
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, KeyError, TypeError):
            return CheckOutcome(
                "address",
                "wrong",
                f"{host}:{port} cannot be used: {error.strerror}",
                "Choose another port (TERSELY_PORT, or --port), or an address of this machine (TERSELY_HOST).",
            )
    return CheckOutcome("address", "fine", f"http://{host}:{port} is free")


async def _model(settings: Settings, name: str, offline: bool) -> CheckOutcome:
    import anyio

    from tersely.errors import LLMError
    from tersely.llm.limits import RetryPolicy, build_llm
    from tersely.llm.messages import Message
    from tersely.masking.masked import own_words

    options = settings.llm_providers[name]
    check, model = f"model {name}", f"{options.type} {options.model}"
    if options.needs_key:
        return CheckOutcome(
            check, "look", f"{model} has no key, so it was not called", f"Set llm_providers.{name}.api_key."
        )
    if offline:
        return CheckOutcome(check, "fine", f"{model}, not called")
    llm = build_llm(settings.specs(name), retry_policy=RetryPolicy(delays=()))
    began = anyio.current_time()
    try:
        with anyio.fail_after(MODEL_SECONDS):
            answer = await llm.complete([Message("user", own_words("Say: ok"))], max_tokens=64)
    except TimeoutError:
        words = f"{model} did not answer within {MODEL_SECONDS:.0f} s"
        return CheckOutcome(check, "wrong", words, f"Try again; check {_place_of(options)} and HTTPS_PROXY.")
    except LLMError as error:
        return CheckOutcome(check, "wrong", str(error), _model_step(error, name, _place_of(options)))
    finally:
        await llm.aclose()
    took = anyio.current_time() - began
    price = "" if answer.usage.price is not None else "; its price is not listed, so sessions will show none"
    return CheckOutcome(check, "fine", f"{model} answered in {took:.1f} s, window {llm.window:,} tokens{price}")


def _place_of(options: ProviderOptions) -> str:
    return f"that {options.base_url} is right and up" if not options.uses_default_url else "the network"


def _model_step(error: LLMError, name: str, place: str) -> str:
    from tersely.errors import LLMMisconfigured, LLMOutOfQuota

    if isinstance(error, LLMMisconfigured):
        return f"Check key and model of llm_providers.{name}, or the variables with the key and LLM_MODEL."
    if isinstance(error, LLMOutOfQuota):
        return "Raise the quota or budget at the provider, or name another provider."
    return f"Try again; check {place}, and the provider's status."


async def _servers(settings: Settings, offline: bool) -> AsyncIterator[CheckOutcome]:
    from tersely.cli.next_steps import next_step
    from tersely.mcp.registry import registered
    from tersely.settings.environment import process_environment

    if not settings.servers:
        yield CheckOutcome(
            "servers",
            "look",
            "none: agents have no tools",
            "Declare servers under mcp_servers, or copy those of your MCP client: tersely config init --from FILE",
        )
        return
    if offline:
        yield CheckOutcome("servers", "fine", f"{', '.join(server.name for server in settings.servers)}, not connected")
        return
    findings = []
    async with registered(
        settings.servers, environment=process_environment(), logins=settings.store.logins
    ) as registry:
        for status in registry.statuses():
            is_ready = status.state == "ready"
            words = f"{status.tools} tools" if is_ready else f"{status.state}: {status.last_error or 'no answer yet'}"
            if status.refused:
                words += f"; refused tools: {'; '.join(status.refused[:3])}"
            options = settings.mcp_servers[status.name]
            is_starting = status.state == "starting"
            step = "" if is_ready else next_step(status.name, options, status.last_error, is_starting=is_starting)
            findings.append(CheckOutcome(f"server {status.name}", "fine" if is_ready else "wrong", words, step))
    for finding in findings:
        yield finding
