"""`tersely doctor`: what `tersely up` would find, looked at before it is started. Changes nothing."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from tersely.cli.extras import check_extra
from tersely.cli.up import CONFIG

if TYPE_CHECKING:
    from tersely.settings.model import Settings

MODEL_SECONDS = 30.0
LITTLE_SPACE = 2**30
NO_SPACE = 100 * 2**20
CLOCKS_APART = 5.0

Verdict = Literal["fine", "look", "wrong"]
_MARKS: dict[Verdict, tuple[str, str]] = {"fine": ("✓", "green"), "look": ("!", "yellow"), "wrong": ("✗", "red")}


@dataclass(frozen=True)
class CheckOutcome:
    what: str
    verdict: Verdict
    words: str


@click.command()
@CONFIG
@click.option("--offline", is_flag=True, help="Ask no model and start no server.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def doctor(file: Path | None, offline: bool, as_json: bool) -> None:
    """Look whether tersely up would work here: configuration, disk, database, models, servers, port.

    Each model is asked for one word, each MCP server is connected to; nothing is changed. Exit code 1 when something is
    wrong.
    """
    check_extra("doctor")

    import logging

    import anyio

    # Failures are part of what is shown; as log lines they would stand between it.
    logging.getLogger().addHandler(logging.NullHandler())
    findings: list[CheckOutcome] = []

    async def look() -> None:
        async for finding in _findings(file, offline):
            findings.append(finding)
            if not as_json:
                mark, color = _MARKS[finding.verdict]
                click.echo(f"{click.style(mark, fg=color)} {finding.what:<18} {finding.words}")

    anyio.run(look)
    is_well = all(finding.verdict != "wrong" for finding in findings)
    if as_json:
        click.echo(
            json.dumps({"ok": is_well, "findings": [asdict(finding) for finding in findings]}, ensure_ascii=False)
        )
    raise SystemExit(0 if is_well else 1)


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
    except ConfigError as wrong:
        yield CheckOutcome("configuration", "wrong", f"{wrong}")
        return
    yield CheckOutcome(
        "configuration", "fine", f"{found}" if found else "no file, which is fine: everything has a default"
    )
    yield _disk(settings)
    yield await _database(settings)
    yield _port(settings)
    for name in settings.llm_providers:
        yield await _model(settings, name, offline)
    if not settings.llm_providers:
        yield CheckOutcome(
            "model", "look", f"none: agents survey read-only tools. Set {settings.model.missing()} for one"
        )
    async for finding in _servers(settings, offline):
        yield finding


def _disk(settings: Settings) -> CheckOutcome:
    import os
    import shutil

    folder = settings.store.data_dir.expanduser()
    there = next(path for path in (folder, *folder.parents) if path.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        return CheckOutcome("disk", "wrong", f"{there} cannot be written to. Set TERSELY_DATA_DIR to a folder of yours")
    free = shutil.disk_usage(there).free
    words = f"{folder}, {free / 2**30:,.1f} GiB free"
    if free < LITTLE_SPACE:
        return CheckOutcome(
            "disk", "wrong" if free < NO_SPACE else "look", f"{words}: kept results may need more (TERSELY_KEEP_MB)"
        )
    return CheckOutcome("disk", "fine", words)


async def _database(settings: Settings) -> CheckOutcome:
    from datetime import UTC, datetime

    from tersely.errors import TerselyError
    from tersely.store import overview
    from tersely.store.database import Database
    from tersely.store.tables import SCHEMA

    url = settings.store.url
    if path := _not_there_yet(url):
        return CheckOutcome("database", "fine", f"SQLite, {path} (made at the first start)")
    try:
        async with Database.open(url) as database, database.reading() as db:
            apart = abs((await overview.time(db) - datetime.now(UTC)).total_seconds())
            waiting = (await overview.look(db)).sessions.get("pending", 0)
    except TerselyError as problem:
        return CheckOutcome("database", "wrong", str(problem))
    kind = "SQLite" if url.startswith("sqlite") else "PostgreSQL"
    words = f"{kind}, schema {SCHEMA}{f', {waiting:,} alerts wait' if waiting else ''}"
    if apart > CLOCKS_APART:
        return CheckOutcome(
            "database", "look", f"{words}; its clock and ours are {apart:,.0f} s apart: times in lists will look odd"
        )
    return CheckOutcome("database", "fine", words)


def _not_there_yet(url: str) -> Path | None:
    """The file of a database that nobody has made; opening it would make it."""
    path = Path(url.split("///", 1)[1]) if url.startswith("sqlite") else None
    return path if path and not path.exists() else None


def _port(settings: Settings) -> CheckOutcome:
    import httpx2

    from tersely.errors import ConfigError
    from tersely.web.auth import authenticator
    from tersely.web.serve import listen

    host, port = settings.up.host, settings.up.port
    try:
        authenticator(settings, host)
    except ConfigError as wrong:
        return CheckOutcome("address", "wrong", str(wrong))
    try:
        listen(host, port).close()
    except OSError as problem:
        try:
            version = httpx2.get(f"http://{host}:{port}/health", timeout=3).json()["version"]
            return CheckOutcome("address", "fine", f"http://{host}:{port}, where tersely {version} runs already")
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, KeyError, TypeError):
            return CheckOutcome(
                "address", "wrong", f"{host}:{port} cannot be used: {problem.strerror}. Choose another: TERSELY_PORT"
            )
    return CheckOutcome("address", "fine", f"http://{host}:{port} is free")


async def _model(settings: Settings, name: str, offline: bool) -> CheckOutcome:
    import anyio

    from tersely.errors import LLMError
    from tersely.llm.limits import RetryPolicy, build_llm
    from tersely.llm.messages import Message
    from tersely.masking.masked import assume_masked

    options = settings.llm_providers[name]
    what, who = f"model {name}", f"{options.type} {options.model}"
    if options.needs_key:
        return CheckOutcome(what, "look", f"{who} has no key, so it is not asked")
    if offline:
        return CheckOutcome(what, "fine", f"{who}, not asked")
    llm = build_llm(settings.specs(name), retry_policy=RetryPolicy(delays=()))
    began = anyio.current_time()
    try:
        with anyio.fail_after(MODEL_SECONDS):
            answer = await llm.complete([Message("user", assume_masked("Say: ok"))], max_tokens=64)  # our own words
    except TimeoutError:
        return CheckOutcome(what, "wrong", f"{who} did not answer within {MODEL_SECONDS:.0f} s")
    except LLMError as problem:
        return CheckOutcome(what, "wrong", str(problem))
    finally:
        await llm.aclose()
    took = anyio.current_time() - began
    price = "" if answer.usage.price is not None else "; nobody lists its price, so sessions will have none"
    return CheckOutcome(what, "fine", f"{who} answered in {took:.1f} s, window {llm.window:,} tokens{price}")


async def _servers(settings: Settings, offline: bool) -> AsyncIterator[CheckOutcome]:
    from tersely.mcp.registry import registered

    if not settings.servers:
        yield CheckOutcome(
            "servers",
            "look",
            "none: agents have no tools. Declare some under mcp_servers, or: tersely config init --from FILE",
        )
        return
    if offline:
        yield CheckOutcome("servers", "fine", f"{', '.join(server.name for server in settings.servers)}, not started")
        return
    findings = []
    async with registered(settings.servers) as registry:
        for status in registry.statuses():
            is_well = status.state == "ready"
            words = f"{status.tools} tools" if is_well else f"{status.state}: {status.last_error or 'no answer yet'}"
            if status.refused:
                words += f"; not usable: {'; '.join(status.refused[:3])}"
            findings.append(CheckOutcome(f"server {status.name}", "fine" if is_well else "wrong", words))
    for finding in findings:
        yield finding
