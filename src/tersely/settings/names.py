"""What the configuration leaves open, and whether the names in it lead anywhere.

Works on what was written, before it is checked value by value: a file with one
wrong number still gets told about its wrong names. What is filled in here is
what lets `tersely up` start with no file at all: an agent over all servers, and
a chain for alerts of the type `default`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import SecretStr

from tersely.llm.providers import DEFAULT_PROVIDER, PROVIDERS, Provider, ProviderOptions
from tersely.mcp.servers import Server
from tersely.settings.files import Key, nearest
from tersely.settings.sources import SettingsTree

DEFAULT = "default"
"""What the provider, the agent, the chain and the alert type are called that nobody wrote."""

_REFERENCES: tuple[tuple[Key, str], ...] = (
    (("defaults", "llm_provider"), "llm_providers"),
    (("defaults", "summarization", "llm_provider"), "llm_providers"),
    (("mcp_servers", "*", "summarization", "llm_provider"), "llm_providers"),
    (("mcp_servers", "*", "tool_policies", "*", "summarization", "llm_provider"), "llm_providers"),
    (("agents", "*", "mcp_servers", "*"), "mcp_servers"),
    (("agents", "*", "llm_provider"), "llm_providers"),
    (("agents", "*", "fallbacks", "*"), "llm_providers"),
    (("chains", "*", "stages", "*", "agent"), "agents"),
    (("chains", "*", "stages", "*", "llm_provider"), "llm_providers"),
)
"""Where a name stands that must be declared elsewhere; `*` is any entry."""

_KINDS = {"llm_providers": "provider", "mcp_servers": "server", "agents": "agent"}


def complete(
    gathered: SettingsTree,
    servers: Sequence[Server],
    *,
    from_model: Sequence[tuple[str, ProviderOptions]],
    model_is_named: bool,
    key_for: Callable[[Provider], SecretStr | None],
) -> None:
    """Fill in what nobody wrote.

    Args:
        from_model: Providers made of LLM_MODEL and its keys, the first one first.
        model_is_named: Whether somebody asked for that model, rather than having a key lie around.
        key_for: The key in the usual variable of a type of provider.
    """
    if servers:
        gathered.values["mcp_servers"] = {server.name: server.options for server in servers}
    if gathered.asks_for("llm_providers"):
        _providers(gathered, from_model, model_is_named, key_for)
    if gathered.asks_for("agents"):
        _agents(
            gathered,
            [server.name for server in servers if not server.options.disabled],
            [name for name, _ in from_model[1:]],
        )
    if gathered.asks_for("chains"):
        _chains(gathered)


def _providers(
    gathered: SettingsTree,
    from_model: Sequence[tuple[str, ProviderOptions]],
    model_is_named: bool,
    key_for: Callable[[Provider], SecretStr | None],
) -> None:
    providers, defaults = gathered.mapping("llm_providers"), gathered.mapping("defaults")
    for name, entry in providers.items():
        # Only for the provider's own address: a key is not sent to another server.
        if not isinstance(entry, dict) or entry.get("api_key") or entry.get("base_url"):
            continue
        provider = PROVIDERS.get(str(entry.get("type", DEFAULT_PROVIDER.name)))
        if provider is None:
            continue  # An unknown type is reported with the other values.
        if key := key_for(provider):
            gathered.derive(("llm_providers", name, "api_key"), key, f"environment {provider.key_variable}")
        else:
            gathered.complain(
                ("llm_providers", name, "api_key"),
                f"is missing: set {provider.key_variable}, or write `api_key: ${{VARIABLE}}` here",
            )
    if DEFAULT not in providers and (model_is_named or not providers):
        for name, made in from_model:
            gathered.derive(("llm_providers", name), made, "LLM_MODEL and its key")
    if not defaults.get("llm_provider"):
        if DEFAULT in providers or len(providers) == 1:
            name = DEFAULT if DEFAULT in providers else next(iter(providers))
            why = "the only provider" if len(providers) == 1 else "the provider called default"
            gathered.derive(("defaults", "llm_provider"), name, why)
        elif providers and _is_needed(gathered):
            message = (
                f"is missing: there are several providers ({', '.join(providers)}); say which one is meant by default"
            )
            gathered.complain(("defaults", "llm_provider"), message)


def _is_needed(gathered: SettingsTree) -> bool:
    """Whether somebody has to be told which provider is the default."""
    if not gathered.asks_for("agents"):
        return not gathered.mapping("defaults", "summarization").get("llm_provider")
    agents = gathered.mapping("agents").values()
    return not agents or any(isinstance(agent, dict) and not agent.get("llm_provider") for agent in agents)


def _agents(gathered: SettingsTree, servers: list[str], other_models: list[str]) -> None:
    agents = gathered.mapping("agents")
    if not agents:
        gathered.derive(("agents", DEFAULT), {}, "no agent is declared")
    default_provider = gathered.mapping("defaults").get("llm_provider")
    for name, agent in agents.items():
        if not isinstance(agent, dict):
            continue
        if "mcp_servers" not in agent:
            gathered.derive(("agents", name, "mcp_servers"), list(servers), "all servers")
        if other_models and "fallbacks" not in agent and agent.get("llm_provider", default_provider) == DEFAULT:
            gathered.derive(("agents", name, "fallbacks"), list(other_models), "LLM_FALLBACK_MODELS")


def _chains(gathered: SettingsTree) -> None:
    chains, agents = gathered.mapping("chains"), gathered.mapping("agents")
    if not chains:
        if DEFAULT in agents or len(agents) == 1:
            agent = DEFAULT if DEFAULT in agents else next(iter(agents))
            stage = {"name": "investigation", "agent": agent}
            made = {"alert_types": [DEFAULT], "description": "Any alert.", "stages": [stage]}
            gathered.derive(("chains", DEFAULT), made, "no chain is declared")
        elif agents:
            gathered.complain(
                ("chains",),
                f"is missing: there are several agents ({', '.join(agents)}); say which of them work on which alerts",
            )
    types = list(_alert_types(gathered))
    if len(chains) == 1 and types and not gathered.mapping("defaults").get("alert_type"):
        gathered.derive(("defaults", "alert_type"), types[0][1], "the only chain")


def check_names(gathered: SettingsTree) -> None:
    """Complain about every name that leads nowhere, and about alert types that lead to two chains."""
    declared = {section: _declared(gathered, section) for section in _KINDS}
    written = gathered.raw(("mcp_servers",))
    servers = {**(written if isinstance(written, dict) else {}), **gathered.mapping("mcp_servers")}
    values = {**gathered.values, "mcp_servers": servers}
    for pattern, section in _REFERENCES:
        known = declared[section]
        if known is None:
            continue
        for key, name in _found(values, pattern, ()):
            if isinstance(name, str) and name not in known and "${" not in name:
                kind = _KINDS[section]
                there_are = nearest(name, known) if known else f"; no {kind} is declared under `{section}`."
                gathered.complain(key, f"there is no {kind} of this name{there_are}")
    _check_alert_types(gathered)


def _declared(gathered: SettingsTree, section: str) -> list[str] | None:
    """Names under a section, those with mistakes included; None where they are not known."""
    if not gathered.asks_for(section):
        return None
    written = gathered.raw((section,)) if section == "mcp_servers" else gathered.values.get(section, {})
    return list(map(str, written or ())) if isinstance(written, dict) or not written else None


def _check_alert_types(gathered: SettingsTree) -> None:
    first: dict[str, Key] = {}
    for key, name in _alert_types(gathered):
        if name in first:
            gathered.complain(
                key, f"{name!r} belongs to the chain {first[name][1]!r} already; an alert is worked on by one chain"
            )
        first.setdefault(name, key)
    default = gathered.mapping("defaults").get("alert_type") if gathered.asks_for("chains") else None
    if isinstance(default, str) and first and default not in first:
        gathered.complain(
            ("defaults", "alert_type"), f"no chain is for alerts of this type{nearest(default, list(first))}"
        )


def _alert_types(gathered: SettingsTree) -> Iterator[tuple[Key, str]]:
    for key, name in _found(gathered.values, ("chains", "*", "alert_types", "*"), ()):
        if isinstance(name, str):
            yield key, name


def _found(value: Any, pattern: Key, at: Key) -> Iterator[tuple[Key, Any]]:
    """The values at a pattern of keys, whatever shape the rest has."""
    if not pattern:
        yield at, value
        return
    part, rest = pattern[0], pattern[1:]
    if part == "*":
        entries = (
            value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list | tuple) else ()
        )
        for name, inner in entries:
            yield from _found(inner, rest, (*at, name))
    elif isinstance(value, Mapping):
        if part in value:
            yield from _found(value[part], rest, (*at, part))
    elif (inner := getattr(value, str(part), None)) is not None:
        # A server, which its own reader has checked already.
        yield from _found(inner, rest, (*at, part))
