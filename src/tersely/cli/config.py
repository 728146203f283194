"""`tersely config`: write a first file, check it, see what holds and why, make tokens."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tersely.cli.errors import fail

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tersely.llm.providers import ProviderOptions
    from tersely.settings.files import Key
    from tersely.settings.model import Settings
    from tersely.settings.sources import SettingsTree

_FILE = click.option(
    "--config",
    "given",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The file; else TERSELY_CONFIG, ./tersely.yaml, or tersely.yaml in your configuration folder.",
)
SCHEMA_FILE = "tersely.schema.json"


@click.group()
def config() -> None:
    """Write tersely.yaml, check it, and see what holds.

    \b
    tersely config init                      a first file, with comments
    tersely config init --from ~/mcp.json    with the servers your MCP client has already
    tersely config check                     every mistake, with its line
    tersely config show                      every value, and where it comes from
    """


@config.command()
@click.argument("path", type=click.Path(path_type=Path), default=Path("tersely.yaml"))
@click.option(
    "--from",
    "source",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Take over the servers of an MCP client's file (`mcpServers`, JSON) or of another YAML.",
)
def init(path: Path, source: Path | None) -> None:
    """Write a first tersely.yaml to PATH, with comments; nothing is overwritten."""
    text = (Path(__file__).parent / "starter.yaml").read_text(encoding="utf-8")
    servers: dict[str, Any] = {}
    if source:
        servers = _servers_of(source)
        text = _with_servers(text, servers)
    path = path / "tersely.yaml" if path.is_dir() else path
    try:
        # A client's file may hold keys; what is made of it is for its owner's eyes.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if servers else 0o644)
    except FileExistsError:
        fail(f"{path} exists already and is left as it is. Name another file: tersely config init PATH")
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    schema = path.parent / SCHEMA_FILE
    if not schema.exists():
        schema.write_text(_schema_text(), encoding="utf-8")
    took = f", with {_count(len(servers), 'server')} of {source}" if source else ""
    click.echo(
        f"Wrote {click.style(str(path), bold=True)}{took}; {schema.name} beside it lets editors complete and check it."
    )
    click.secho("Next: tersely config check", dim=True)


def _servers_of(source: Path) -> dict[str, Any]:
    """The servers of a file as it says them, variables not filled in, in our own shape."""
    from tersely.errors import ConfigError
    from tersely.settings.files import one_shape, read_document

    data = read_document(source).data
    section = next(
        (name for name in ("mcp_servers", "mcpServers", "servers") if isinstance(data, dict) and name in data), None
    )
    if not section or not isinstance(data[section], dict):
        raise ConfigError(f"{source}: declares no servers: there is neither `mcpServers` nor `mcp_servers` in it.")
    return {
        str(name): one_shape(entry)[0] if section != "mcp_servers" and isinstance(entry, dict) else entry
        for name, entry in data[section].items()
    }


def _with_servers(starter: str, servers: dict[str, Any]) -> str:
    import yaml

    section = yaml.safe_dump({"mcp_servers": servers}, sort_keys=False, allow_unicode=True, width=120)
    return re.sub(r"^#mcp_servers:\n(?:#.*\n)*", lambda _: section, starter, count=1, flags=re.MULTILINE)


@config.command()
@_FILE
def check(given: Path | None) -> None:
    """List every mistake with its file and line; without any, say what was found."""
    from tersely.errors import ConfigError
    from tersely.settings.model import find_file, load_with_sources

    file = find_file(given)
    try:
        settings, gathered = load_with_sources(None, file)
    except ConfigError as wrong:
        mistakes = str(wrong).splitlines()
        for mistake in mistakes:
            place, colon, rest = mistake.partition(": ")
            click.echo(f"{click.style(place, bold=True)}{colon}{rest}", err=True)
        click.secho(f"{_count(len(mistakes), 'mistake')}.", fg="red", err=True)
        raise SystemExit(2) from None
    click.echo(f"{click.style('✓', fg='green')} {f'{file} is fine' if file else 'No file; the environment is fine'}.")
    for title, entries in _found(settings, gathered):
        click.echo()
        click.secho(title, bold=True)
        width = max((len(name) for name, _ in entries), default=0)
        for name, what in entries:
            click.echo(f"  {name:<{width}}  {click.style(what, dim=True)}".rstrip())


def _found(settings: Settings, gathered: SettingsTree) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    from tersely.llm.client import OPENROUTER_URL
    from tersely.masking.mask import Masker

    masker, default = Masker(), settings.defaults
    models = []
    for name, provider in settings.llm_providers.items():
        part = ["default"] if name == default.llm_provider else []
        part += ["summarizes"] if name == (default.summarization.llm_provider or default.llm_provider) else []
        window = _window(provider)
        where = f" at {provider.base_url}" if provider.base_url not in (None, OPENROUTER_URL) else ""
        parts = f" ({', '.join(part)})" if part else ""
        size = f", {window:,} tokens" if window else ""
        models.append((name, f"{provider.type} {provider.model}{where}{size}{parts}"))
    yield "Models", models or [("none", f"set {settings.model.missing()}; agents survey read-only tools instead")]
    servers = []
    for name, server in settings.mcp_servers.items():
        way = server.transport
        # As it was written: what a variable holds may be a secret.
        written = gathered.raw(("mcp_servers", name, "transport")) or {}
        reached = str(written.get("url") or " ".join(map(str, (written.get("command"), *(written.get("args") or ())))))
        servers.append((name, f"{way.kind} {masker.mask(reached)[:70]}{' (disabled)' if server.disabled else ''}"))
    yield "MCP servers", servers or [("none", "declare them under mcp_servers")]
    agents = []
    for name, agent in settings.agents.items():
        steps = f", at most {agent.max_iterations or default.max_iterations} steps"
        thinks = agent.llm_provider or default.llm_provider or "no model"
        agents.append((name, f"{thinks}, {agent.controller}{steps}; servers: {', '.join(agent.mcp_servers) or 'none'}"))
    yield "Agents", agents
    chains = []
    for name, chain in settings.chains.items():
        stages = " → ".join(f"{stage.name} ({stage.agent})" for stage in chain.stages)
        chains.append((name, f"{', '.join(chain.alert_types)}: {stages}"))
    yield "Chains", chains
    open_to = "this machine" if settings.up.host in ("127.0.0.1", "::1", "localhost") else "the network"
    tokens = ", ".join(token.name for token in settings.auth.tokens) or "no tokens"
    doors = [("address", f"{settings.up.host}:{settings.up.port}, open to {open_to}; {tokens}")]
    if default.alert_type:
        doors.append(("alerts", f"without a type count as {default.alert_type}"))
    yield "tersely up", doors


def _window(provider: ProviderOptions) -> int | None:
    """The model's context window in tokens; None where only the llm extra's price table lists it."""
    from tersely.extras import has_extra

    if provider.context_window or not has_extra("llm"):
        return provider.context_window
    from tersely.llm.facts import context_window

    return context_window(provider.type, provider.model)


@config.command()
@_FILE
@click.option(
    "--all", "everything", is_flag=True, help="Also what is built in for every provider, server, agent and chain."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: each key with its value and source.")
def show(given: Path | None, everything: bool, as_json: bool) -> None:
    """Print the values that hold, and where each comes from. Secrets are ***."""
    from tersely.settings.files import dotted
    from tersely.settings.model import find_file, load_with_sources

    settings, gathered = load_with_sources(None, find_file(given))
    maps = {name for name, value in settings if isinstance(value, dict)}
    rows = [row for row in _leaves(settings, gathered, ()) if everything or row[2] != BUILT_IN or row[0][0] not in maps]
    if as_json:
        told = {dotted(key): {"value": value, "source": source} for key, value, source in rows}
        click.echo(json.dumps(told, ensure_ascii=False, indent=2))
        return
    lines = list(_tree(rows))
    width = min(60, max((len(text) for text, _ in lines), default=0))
    for text, source in lines:
        if not source:
            click.echo(text)
        else:
            comment = click.style(f"# {source}", dim=True)
            click.echo(f"{click.style(text.ljust(width), dim=source == 'built in')}  {comment}")


BUILT_IN = "built in"


def _leaves(value: Any, gathered: SettingsTree, key: Key, source: str = "") -> Iterator[tuple[Key, Any, str]]:
    """Every single value with its key and where it comes from, in the order of the settings; secrets are covered."""
    from pydantic import BaseModel

    if isinstance(value, BaseModel):
        for name, inner in value:
            written = gathered.source((*key, name))
            by_default = (not written or written.place == "derived") and type(value).model_fields[name].default == inner
            yield from _leaves(inner, gathered, (*key, name), BUILT_IN if by_default else "")
    elif isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _leaves(inner, gathered, (*key, name))
    elif isinstance(value, tuple) and any(isinstance(inner, BaseModel) for inner in value):
        for number, inner in enumerate(value):
            yield from _leaves(inner, gathered, (*key, number))
    else:
        yield key, _covered(value, gathered.raw(key)), source or str(gathered.source(key) or BUILT_IN)


def _covered(value: Any, written: Any) -> Any:
    from pydantic import SecretStr

    from tersely.masking.mask import Masker

    if isinstance(value, SecretStr):
        return "***"
    # As it was written: what a variable holds may be a secret. And masked: somebody may have written one out.
    shown = written if isinstance(written, str | list) and "${" in str(written) else value
    if isinstance(shown, tuple | list):
        return json.loads(Masker().mask(json.dumps(list(shown), ensure_ascii=False)))
    return str(Masker().mask(str(shown))) if isinstance(shown, Path | str) else shown


def _tree(rows: Iterable[tuple[Key, Any, str]]) -> Iterator[tuple[str, str]]:
    """Lines of a YAML, each value with the comment that belongs behind it."""
    before: Key = ()
    for key, value, source in rows:
        shared = next(
            (n for n, (one, other) in enumerate(zip(key, before, strict=False)) if one != other),
            min(len(key), len(before)),
        )
        for depth in range(shared, len(key) - 1):
            yield f"{'  ' * depth}{_label(key[depth])}", ""
        yield f"{'  ' * (len(key) - 1)}{_label(key[-1])} {_scalar(value)}".rstrip(), source
        before = key


def _label(part: str | int) -> str:
    return "-" if isinstance(part, int) else f"{part}:"


def _scalar(value: Any) -> str:
    if value is None or value == {}:
        return ""
    if isinstance(value, list):
        return f"[{', '.join(_scalar(inner) for inner in value)}]"
    if isinstance(value, str):
        short = value if len(value) <= 90 else f"{value[:90]}…"
        return (
            short
            if re.fullmatch(r"[\w./*$@{}][\w ./:*$@{}+-]*", short) and ": " not in short
            else json.dumps(short, ensure_ascii=False)
        )
    return f"{value:g}" if isinstance(value, float) else json.dumps(value)


@config.command()
def schema() -> None:
    """Print the JSON schema of tersely.yaml, for editors."""
    click.echo(_schema_text(), nl=False)


def _schema_text() -> str:
    from tersely.cli.editor_schema import editor_schema

    return json.dumps(editor_schema(), indent=2, ensure_ascii=False) + "\n"


@config.command()
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    type=click.Choice(["submit", "read", "admin"]),
    default=("submit", "read"),
    show_default="submit, read",
    help="What its bearer may do. Repeatable.",
)
def token(name: str, scopes: tuple[str, ...]) -> None:
    """Make a token for NAME: print it once, and the entry to paste. Only its hash goes into the file."""
    import hashlib
    import secrets

    if not name.strip() or len(name) > 120 or any(sign in name for sign in ":,\n"):
        fail(f"{name!r} cannot be a token's name: up to 120 characters, without colon and comma.")
    scopes = tuple(dict.fromkeys(scopes))
    fresh = f"tersely_{secrets.token_urlsafe(32)}"
    digest = hashlib.sha256(fresh.encode()).hexdigest()
    click.secho(f"Token for {name}, shown this once:", bold=True, err=True)
    click.echo(fresh)
    quoted = json.dumps(name, ensure_ascii=False)
    entry = f"auth:\n  tokens:\n    - name: {quoted}\n      sha256: {digest}\n      scopes: [{', '.join(scopes)}]"
    click.secho("\nIn tersely.yaml:", bold=True, err=True)
    click.echo(entry, err=True)
    click.secho("\nor as a variable, entries separated by commas:", bold=True, err=True)
    click.echo(f"TERSELY_AUTH_TOKENS={name}:{digest}:{'+'.join(scopes)}", err=True)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
