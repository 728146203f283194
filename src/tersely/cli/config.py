"""`tersely config`: writes a first tersely.yaml, checks it, shows effective values and their sources, makes tokens."""

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
    from tersely.settings.imported import ImportedServers
    from tersely.settings.model import Settings
    from tersely.settings.sources import SettingsTree
    from tersely.settings.tarsy import ImportedSettings

_FILE = click.option(
    "--config",
    "given",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Configuration file  [env: TERSELY_CONFIG; default: tersely.yaml here or in your configuration folder]",
)
SCHEMA_FILE = "tersely.schema.json"


@click.group()
def config() -> None:
    """Write, check and show tersely.yaml.

    \b
    tersely config init                      write a commented file to start from
    tersely config init --from ~/mcp.json    with the servers of your MCP client
    tersely config check                     list every mistake with its line
    tersely config show                      print every value with its source
    """


@config.command()
@click.argument("path", type=click.Path(path_type=Path), default=Path("tersely.yaml"))
@click.option(
    "--from",
    "source",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Copy the servers of an MCP client's file (`mcpServers`, JSON) or another YAML file; or translate tarsy.yaml.",
)
def init(path: Path, source: Path | None) -> None:
    """Write a commented tersely.yaml to PATH.

    An existing file is never overwritten.
    """
    text = (Path(__file__).parent / "starter.yaml").read_text(encoding="utf-8")
    servers: dict[str, Any] = {}
    found: ImportedServers | ImportedSettings | None = None
    if source and (settings := _read_tarsy(source)):
        found, servers = settings, settings.sections.get("mcp_servers", {})
        text = _translated(settings, source)
    elif source:
        found = read = _read_servers(source)
        servers = read.servers
        text = _with_servers(text, servers)
    path = path / "tersely.yaml" if path.is_dir() else path
    try:
        # A client's file may contain keys, so only the owner can read what is made of it.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if servers else 0o644)
    except FileExistsError:
        fail(f"{path} already exists and was not changed. Name another file: tersely config init PATH")
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    schema = path.parent / SCHEMA_FILE
    if not schema.exists():
        schema.write_text(_schema_text(), encoding="utf-8")
    copied = f", with {_count(len(servers), 'server')} of {source}" if source else ""
    click.echo(
        f"Wrote {click.style(str(path), bold=True)}{copied}, and {schema.name} for completion and checks in editors."
    )
    if found:
        _show_import(found)
    click.secho("Next: tersely config check", dim=True)


def _read_servers(source: Path) -> ImportedServers:
    """The servers of a file in the shape of tersely.yaml, with variables not filled in."""
    from tersely.settings.files import read_document
    from tersely.settings.imported import import_servers

    place = source.absolute().parent
    # A client's folder for its files (.vscode, .cursor) is in the folder of the project.
    folder = place.parent if place.name.startswith(".") else place
    return import_servers(read_document(source), folder=folder, home=Path.home())


def _read_tarsy(source: Path) -> ImportedSettings | None:
    """TARSy's configuration, with the providers in the file beside it; None if the file is another one."""
    from tersely.settings.files import read_document
    from tersely.settings.tarsy import import_tarsy, is_tarsy

    data = read_document(source).data
    if not is_tarsy(data):
        return None
    ending = source.name.partition(".yaml")[2] if ".yaml" in source.name else ""
    beside = source.with_name(f"llm-providers.yaml{ending}")
    providers = read_document(beside).data if beside.is_file() else {}
    skills = source.absolute().with_name("skills")
    return import_tarsy(data, providers if isinstance(providers, dict) else {}, skills if skills.is_dir() else None)


def _translated(found: ImportedSettings, source: Path) -> str:
    import yaml

    head = f"# yaml-language-server: $schema={SCHEMA_FILE}\n# Translated from {source.name}.\n"
    if found.notes:
        head += "#\n# Not taken over, or different:\n" + "".join(f"#   {note}\n" for note in found.notes)
    body = yaml.safe_dump(found.sections, sort_keys=False, allow_unicode=True, width=110)
    return f"{head}\n{body}"


def _show_import(found: ImportedServers | ImportedSettings) -> None:
    for note in found.notes:
        click.echo(f"  {click.style('○', fg='yellow')} {note}")
    if found.variables:
        click.echo("Variables that the servers use:")
        for name, description in found.variables.items():
            click.echo(f"  {name}{f'  {description}' if description else ''}")


def _with_servers(starter: str, servers: dict[str, Any]) -> str:
    import yaml

    section = yaml.safe_dump({"mcp_servers": servers}, sort_keys=False, allow_unicode=True, width=120)
    return re.sub(r"^#mcp_servers:\n(?:#.*\n)*", lambda _: section, starter, count=1, flags=re.MULTILINE)


@config.command()
@_FILE
def check(given: Path | None) -> None:
    """List every mistake with its file and line, or what was configured."""
    from tersely.errors import ConfigError
    from tersely.settings.environment import settings_environment
    from tersely.settings.model import env_folder, find_file, load_with_sources

    file = find_file(given)
    try:
        environment = settings_environment(env_folder(file, here=True))
        settings, gathered = load_with_sources(environment, file)
    except ConfigError as error:
        mistakes = str(error).splitlines()
        for mistake in mistakes:
            place, colon, rest = mistake.partition(": ")
            click.echo(f"{click.style(place, bold=True)}{colon}{rest}", err=True)
        click.secho(f"{_count(len(mistakes), 'mistake')}.", fg="red", err=True)
        raise SystemExit(2) from None
    click.echo(f"{click.style('✓', fg='green')} {f'{file} is valid' if file else 'No file; the environment is valid'}.")
    if environment.file:
        lines = ", ".join(map(str, environment.skipped))
        skipped = f"; not read as NAME=value: line {lines}" if lines else ""
        click.echo(f"  {_count(len(environment.from_file), 'variable')} of {environment.file}{skipped}")
    for title, entries in _overview(settings, gathered):
        click.echo()
        click.secho(title, bold=True)
        width = max((len(name) for name, _ in entries), default=0)
        for name, description in entries:
            click.echo(f"  {name:<{width}}  {click.style(description, dim=True)}".rstrip())


def _overview(settings: Settings, gathered: SettingsTree) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    from tersely.masking.mask import Masker

    masker, default = Masker(), settings.defaults
    models = []
    for name, provider in settings.llm_providers.items():
        roles = ["default"] if name == default.llm_provider else []
        roles += ["summarizes"] if name == (default.summarization.llm_provider or default.llm_provider) else []
        window = _window(provider)
        where = "" if provider.uses_default_url else f" at {provider.base_url}"
        shown_roles = f" ({', '.join(roles)})" if roles else ""
        size = f", {window:,} tokens" if window else ""
        models.append((name, f"{provider.type} {provider.model}{where}{size}{shown_roles}"))
    yield "Models", models or [("none", f"set {settings.model.missing()}; agents only call read-only tools")]
    servers = []
    for name, server in settings.mcp_servers.items():
        # As written in the file: the value of a variable may be a secret.
        written = gathered.raw(("mcp_servers", name, "transport")) or {}
        target = str(written.get("url") or " ".join(map(str, (written.get("command"), *(written.get("args") or ())))))
        servers.append(
            (name, f"{server.transport.kind} {masker.mask(target)[:70]}{' (disabled)' if server.disabled else ''}")
        )
    yield "MCP servers", servers or [("none", "declare them under mcp_servers")]
    agents = []
    for name, agent in settings.agents.items():
        steps = f", at most {agent.max_iterations or default.max_iterations} steps"
        model = agent.llm_provider or default.llm_provider or "no model"
        agents.append((name, f"{model}, {agent.controller}{steps}; servers: {', '.join(agent.mcp_servers) or 'none'}"))
    yield "Agents", agents
    chains = []
    for name, chain in settings.chains.items():
        stages = " → ".join(f"{stage.name} ({', '.join(name for name, _ in stage.team())})" for stage in chain.stages)
        chains.append((name, f"{', '.join(chain.alert_types)}: {stages}"))
    yield "Chains", chains
    if left_out := _left_out_native_tools(settings):
        yield "Native tools that are not sent", left_out
    reachable_from = "this machine" if settings.up.host in ("127.0.0.1", "::1", "localhost") else "the network"
    tokens = ", ".join(token.name for token in settings.auth.tokens) or "no tokens"
    service = [("address", f"{settings.up.host}:{settings.up.port}, open to {reachable_from}; {tokens}")]
    if default.alert_type:
        service.append(("alerts", f"without a type get the type {default.alert_type}"))
    yield "tersely up", service


def _left_out_native_tools(settings: Settings) -> list[tuple[str, str]]:
    """Agents whose model cannot use an enabled native tool, or not beside the tools of MCP servers."""
    from tersely.errors import ConfigError
    from tersely.extras import has_extra

    if not has_extra("llm"):
        return []
    from tersely.llm.client import ChatModel

    found = []
    for name, agent in settings.agents.items():
        provider = settings.llm_providers.get(agent.llm_provider or settings.defaults.llm_provider or "")
        if provider is None or not agent.native_tools.over(provider.native_tools).enabled():
            continue
        try:
            model = ChatModel(provider.spec())
        except ConfigError:
            continue  # Its extra is not installed; the command that needs it says so.
        declares_tools = bool(agent.mcp_servers) and agent.controller != "react"
        missing = model.left_out(agent.native_tools, with_tools=declares_tools)
        if not missing:
            continue
        alone = model.left_out(agent.native_tools, with_tools=False)
        why = (
            f"{provider.model} does not support {'it' if len(missing) == 1 else 'them'}"
            if set(missing) <= set(alone)
            else f"{provider.model} cannot use native tools beside those of MCP servers; use `controller: react`, or "
            "an agent with `mcp_servers: []`"
        )
        found.append((name, f"{', '.join(missing)}: {why}"))
    return found


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
    "--all", "everything", is_flag=True, help="Include the defaults of every provider, server, agent and chain."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object with the value and source of each key.")
def show(given: Path | None, everything: bool, as_json: bool) -> None:
    """Print the effective values and their sources.

    Secrets are shown as ***.
    """
    from tersely.settings.files import dotted
    from tersely.settings.model import find_file, load_with_sources

    settings, gathered = load_with_sources(None, find_file(given), here=True)
    maps = {name for name, value in settings if isinstance(value, dict)}
    rows = [row for row in _leaves(settings, gathered, ()) if everything or row[2] != BUILT_IN or row[0][0] not in maps]
    if as_json:
        report = {dotted(key): {"value": value, "source": source} for key, value, source in rows}
        click.echo(json.dumps(report, ensure_ascii=False, indent=2))
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
    """Every single value with its key and its source, in the order of the settings; secrets are redacted."""
    from pydantic import BaseModel

    if isinstance(value, BaseModel):
        for name, inner in value:
            written = gathered.source((*key, name))
            is_default = (not written or written.place == "derived") and type(value).model_fields[name].default == inner
            yield from _leaves(inner, gathered, (*key, name), BUILT_IN if is_default else "")
    elif isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _leaves(inner, gathered, (*key, name))
    elif isinstance(value, tuple) and any(isinstance(inner, BaseModel) for inner in value):
        for number, inner in enumerate(value):
            yield from _leaves(inner, gathered, (*key, number))
    else:
        yield key, _redacted(value, gathered.raw(key)), source or str(gathered.source(key) or BUILT_IN)


def _redacted(value: Any, written: Any) -> Any:
    from pydantic import SecretStr

    from tersely.masking.mask import Masker

    if isinstance(value, SecretStr):
        return "***"
    # As written in the file, because the value of a variable may be a secret; and masked, because the file may
    # contain one in plain text.
    shown = written if isinstance(written, str | list) and "${" in str(written) else value
    if isinstance(shown, tuple | list):
        return json.loads(Masker().mask(json.dumps(list(shown), ensure_ascii=False)))
    return str(Masker().mask(str(shown))) if isinstance(shown, Path | str) else shown


def _tree(rows: Iterable[tuple[Key, Any, str]]) -> Iterator[tuple[str, str]]:
    """Lines of a YAML document, each with the source that is shown as its comment."""
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
    """Print the JSON schema of tersely.yaml for editors."""
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
    type=click.Choice(["submit", "override", "read", "admin"]),
    default=("submit", "read"),
    show_default="submit, read",
    help="What the token allows. Repeatable.",
)
def token(name: str, scopes: tuple[str, ...]) -> None:
    """Make an API token for NAME and print its entry for tersely.yaml.

    The token itself is printed once, on stdout; the entry contains only its hash.
    """
    import hashlib
    import secrets

    if not name.strip() or len(name) > 120 or any(char in name for char in ":,\n"):
        fail(f"{name!r} cannot be the name of a token: use up to 120 characters without colon and comma.")
    scopes = tuple(dict.fromkeys(scopes))
    new_token = f"tersely_{secrets.token_urlsafe(32)}"
    digest = hashlib.sha256(new_token.encode()).hexdigest()
    click.secho(f"Token for {name}, shown only once:", bold=True, err=True)
    click.echo(new_token)
    quoted = json.dumps(name, ensure_ascii=False)
    entry = f"auth:\n  tokens:\n    - name: {quoted}\n      sha256: {digest}\n      scopes: [{', '.join(scopes)}]"
    click.secho("\nIn tersely.yaml:", bold=True, err=True)
    click.echo(entry, err=True)
    click.secho("\nor as a variable, entries separated by commas:", bold=True, err=True)
    click.echo(f"TERSELY_AUTH_TOKENS={name}:{digest}:{'+'.join(scopes)}", err=True)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
