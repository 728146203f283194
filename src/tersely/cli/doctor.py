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
    from tersely.settings.model import Settings

MODEL_SECONDS = 30.0
LOW_DISK_BYTES = 2**30
MIN_DISK_BYTES = 100 * 2**20
MAX_CLOCK_DIFFERENCE = 5.0
"""Seconds."""

OLD_BACKUP_DAYS = 7

Verdict = Literal["fine", "look", "wrong"]
_MARKS: dict[Verdict, tuple[str, str]] = {"fine": ("✓", "green"), "look": ("!", "yellow"), "wrong": ("✗", "red")}


@dataclass(frozen=True)
class CheckOutcome:
    what: str
    verdict: Verdict
    words: str


@click.command()
@CONFIG
@click.option("--offline", is_flag=True, help="Do not call models or connect to servers.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def doctor(file: Path | None, offline: bool, as_json: bool) -> None:
    """Check that tersely up can run here.

    Checks configuration, disk, database, other workers, suspects, the last backup, port, models (one short call each)
    and MCP servers (one connection each). Changes nothing. Exit code 1 when a check fails.
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

    anyio.run(run_checks)
    ok = all(finding.verdict != "wrong" for finding in findings)
    if as_json:
        click.echo(json.dumps({"ok": ok, "findings": [asdict(finding) for finding in findings]}, ensure_ascii=False))
    raise SystemExit(0 if ok else 1)


async def _findings(file: Path | None, offline: bool) -> AsyncIterator[CheckOutcome]:
    import platform
    import sys

    from tersely.errors import ConfigError
    from tersely.settings.model import Settings, find_file
    from tersely.web.version import VERSION

    where = f"tersely {VERSION} on Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    yield CheckOutcome("program", "fine" if sys.version_info >= (3, 11) else "wrong", where)
    found = find_file(file)
    try:
        settings = Settings.load(file=found)
    except ConfigError as error:
        yield CheckOutcome("configuration", "wrong", str(error))
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
            "model", "look", f"none: agents only call read-only tools. Set {settings.model.missing()} for one"
        )
    async for finding in _servers(settings, offline):
        yield finding


def _disk(settings: Settings) -> CheckOutcome:
    import os
    import shutil

    from tersely.store.sqlite_files import file_of

    file = file_of(settings.store.url)
    folder = file.parent if file else settings.store.data_dir.expanduser()
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        return CheckOutcome("disk", "wrong", f"{existing} is not writable. Set TERSELY_DATA_DIR to a folder that is")
    free = shutil.disk_usage(existing).free
    space = f"{folder}, {free / 2**30:,.1f} GiB free"
    if free < LOW_DISK_BYTES:
        return CheckOutcome(
            "disk",
            "wrong" if free < MIN_DISK_BYTES else "look",
            f"{space}: kept results may need more (TERSELY_KEEP_MB)",
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
        async with Database.open(url) as database:
            async with database.reading() as db:
                clock_difference = abs((await overview.time(db) - datetime.now(UTC)).total_seconds())
                sessions = (await overview.look(db)).sessions
                suspects = await overview.suspects(db, SUSPECTED_AFTER)
                versions = {one.version for one in await executors.alive(db, lease=settings.queue.lease)}
            read_only = await overview.why_read_only(database)
            is_pooled = not database.is_sqlite and not await can_lock(database)
    except TerselyError as error:
        yield CheckOutcome("database", "wrong", str(error))
        return
    waiting = sessions.get("pending", 0)
    state = f"{'SQLite' if file else 'PostgreSQL'}, schema {SCHEMA}{f', {waiting:,} alerts waiting' if waiting else ''}"
    if read_only:
        yield CheckOutcome("database", "wrong", f"{state}; it cannot be written: {read_only}")
    elif clock_difference > MAX_CLOCK_DIFFERENCE:
        words = f"{state}; its clock differs from ours by {clock_difference:,.0f} s, so shown times will be off"
        yield CheckOutcome("database", "look", words)
    else:
        yield CheckOutcome("database", "fine", state)
    yield _takeover(settings, is_sqlite=file is not None, is_pooled=is_pooled)
    yield _versions(versions)
    yield _suspects(suspects)
    yield _backup(file, sum(sessions.values()))


def _takeover(settings: Settings, *, is_sqlite: bool, is_pooled: bool) -> CheckOutcome:
    if is_sqlite:
        return CheckOutcome("takeover", "fine", "sessions of a dead process are resumed when it is started again")
    if not is_pooled:
        return CheckOutcome("takeover", "fine", "sessions of a dead worker are resumed after a second or two")
    return CheckOutcome(
        "takeover",
        "look",
        f"PostgreSQL is behind a connection pooler, so sessions of a dead worker are resumed after its lease "
        f"({settings.queue.lease:g} s) instead of a second or two. Connect to PostgreSQL directly for that",
    )


def _versions(running: Collection[str]) -> CheckOutcome:
    from tersely.web.version import VERSION

    if others := sorted(set(running) - {VERSION}):
        return CheckOutcome(
            "versions", "look", f"workers of tersely {', '.join(others)} are running, this is {VERSION}"
        )
    return CheckOutcome("versions", "fine", "no worker of another version is running")


def _suspects(suspects: int) -> CheckOutcome:
    if not suspects:
        return CheckOutcome("suspects", "fine", "no open session is suspected of crashing its workers")
    return CheckOutcome(
        "suspects",
        "look",
        f"{suspects:,} open {'session is' if suspects == 1 else 'sessions are'} suspected of crashing workers. Each is "
        "tried in a process of its own; look for session_suspected in the log",
    )


def _backup(file: Path | None, sessions: int) -> CheckOutcome:
    from datetime import UTC, datetime

    from tersely.store.sqlite_files import last_backup

    if file is None:
        return CheckOutcome("backup", "fine", "not checked: pg_dump backs up PostgreSQL (see tersely backup --help)")
    if (last := last_backup(file)) is None:
        verdict: Verdict = "look" if sessions else "fine"
        return CheckOutcome("backup", verdict, "none is known. Make one with: tersely backup FILE")
    days = (datetime.now(UTC) - last.made_at).days
    return CheckOutcome(
        "backup", "look" if days >= OLD_BACKUP_DAYS else "fine", f"the last one is of {last.made_at:%Y-%m-%d %H:%M} UTC"
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
        return CheckOutcome("address", "wrong", str(error))
    try:
        listen(host, port).close()
    except OSError as error:
        try:
            version = httpx2.get(f"http://{host}:{port}/health", timeout=3).json()["version"]
            return CheckOutcome("address", "fine", f"http://{host}:{port}, tersely {version} is running there")
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, KeyError, TypeError):
            return CheckOutcome(
                "address", "wrong", f"{host}:{port} cannot be used: {error.strerror}. Choose another port: TERSELY_PORT"
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
        return CheckOutcome(check, "look", f"{model} has no key, so it was not called")
    if offline:
        return CheckOutcome(check, "fine", f"{model}, not called")
    llm = build_llm(settings.specs(name), retry_policy=RetryPolicy(delays=()))
    began = anyio.current_time()
    try:
        with anyio.fail_after(MODEL_SECONDS):
            answer = await llm.complete([Message("user", own_words("Say: ok"))], max_tokens=64)
    except TimeoutError:
        return CheckOutcome(check, "wrong", f"{model} did not answer within {MODEL_SECONDS:.0f} s")
    except LLMError as error:
        return CheckOutcome(check, "wrong", str(error))
    finally:
        await llm.aclose()
    took = anyio.current_time() - began
    price = "" if answer.usage.price is not None else "; its price is not listed, so sessions will show none"
    return CheckOutcome(check, "fine", f"{model} answered in {took:.1f} s, window {llm.window:,} tokens{price}")


async def _servers(settings: Settings, offline: bool) -> AsyncIterator[CheckOutcome]:
    from tersely.mcp.registry import registered
    from tersely.settings.environment import process_environment

    if not settings.servers:
        yield CheckOutcome(
            "servers",
            "look",
            "none: agents have no tools. Declare servers under mcp_servers, or: tersely config init --from FILE",
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
            findings.append(CheckOutcome(f"server {status.name}", "fine" if is_ready else "wrong", words))
    for finding in findings:
        yield finding
