"""Derives settings that are not written, and checks that names in the configuration refer to something.

Runs on the values as written, before they are validated: a file with one wrong number
still gets its wrong names reported. The derived settings let `tersely up` start without
a file: an agent with all servers, and a chain for alerts of the type `default`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import SecretStr, ValidationError

from tersely.agent.skills import load_skills
from tersely.errors import ConfigError, InputError
from tersely.llm.providers import DEFAULT_PROVIDER, PROVIDERS, Provider, ProviderOptions
from tersely.mcp.servers import Server
from tersely.sessions.plan import MOST_DEPTH
from tersely.sessions.runbook_options import ADDRESS, RunbookOptions
from tersely.settings.files import Key, nearest
from tersely.settings.sources import SettingsTree

DEFAULT = "default"
"""Name of the derived provider, agent, chain and alert type."""

_REFERENCES: tuple[tuple[Key, str], ...] = (
    (("defaults", "llm_provider"), "llm_providers"),
    (("defaults", "summarization", "llm_provider"), "llm_providers"),
    (("mcp_servers", "*", "summarization", "llm_provider"), "llm_providers"),
    (("mcp_servers", "*", "tool_policies", "*", "summarization", "llm_provider"), "llm_providers"),
    (("agents", "*", "mcp_servers", "*"), "mcp_servers"),
    (("agents", "*", "llm_provider"), "llm_providers"),
    (("agents", "*", "sub_agents", "*"), "agents"),
    (("agents", "*", "sub_agents", "*", "name"), "agents"),
    (("agents", "*", "fallbacks", "*"), "llm_providers"),
    (("chains", "*", "stages", "*", "agent"), "agents"),
    (("chains", "*", "stages", "*", "llm_provider"), "llm_providers"),
    (("chains", "*", "stages", "*", "fallbacks", "*"), "llm_providers"),
    (("chains", "*", "stages", "*", "fallback_providers", "*"), "llm_providers"),
    (("chains", "*", "stages", "*", "mcp_servers", "*"), "mcp_servers"),
    (("chains", "*", "stages", "*", "agents", "*"), "agents"),
    (("chains", "*", "stages", "*", "agents", "*", "name"), "agents"),
    (("chains", "*", "stages", "*", "agents", "*", "llm_provider"), "llm_providers"),
    (("chains", "*", "stages", "*", "agents", "*", "fallbacks", "*"), "llm_providers"),
    (("chains", "*", "stages", "*", "agents", "*", "fallback_providers", "*"), "llm_providers"),
    (("chains", "*", "stages", "*", "agents", "*", "fallback_providers", "*", "provider"), "llm_providers"),
    (("chains", "*", "stages", "*", "agents", "*", "mcp_servers", "*"), "mcp_servers"),
    (("chains", "*", "stages", "*", "synthesis", "agent"), "agents"),
    (("chains", "*", "stages", "*", "synthesis", "llm_provider"), "llm_providers"),
)
"""Keys whose value must be declared in another section; `*` matches any entry."""

_KEYED_BY_CHAIN: tuple[Key, ...] = (("slack", "channels"), ("email", "chains"))
"""Mappings whose keys are names of chains."""

_KINDS = {"llm_providers": "provider", "mcp_servers": "server", "agents": "agent"}


def complete(
    tree: SettingsTree,
    servers: Sequence[Server],
    *,
    from_model: Sequence[tuple[str, ProviderOptions]],
    model_is_named: bool,
    key_for: Callable[[Provider], SecretStr | None],
    environment: Mapping[str, str],
) -> None:
    """Derive the settings that are not written.

    Args:
        from_model: Providers derived from LLM_MODEL and its keys, the primary one first.
        model_is_named: Whether LLM_MODEL is set, rather than only a key.
        key_for: Returns the key in the variable of a provider.
        environment: Where the variables are that entries name.
    """
    if servers:
        tree.values["mcp_servers"] = {server.name: server.options for server in servers}
    if tree.includes("llm_providers"):
        _providers(tree, from_model, model_is_named, key_for, environment)
    if tree.includes("agents"):
        _agents(
            tree,
            [server.name for server in servers if not server.options.disabled],
            [name for name, _ in from_model[1:]],
        )
    if tree.includes("chains"):
        _chains(tree)


def _providers(
    tree: SettingsTree,
    from_model: Sequence[tuple[str, ProviderOptions]],
    model_is_named: bool,
    key_for: Callable[[Provider], SecretStr | None],
    environment: Mapping[str, str],
) -> None:
    providers, defaults = tree.mapping("llm_providers"), tree.mapping("defaults")
    for name, entry in providers.items():
        if isinstance(entry, dict):
            _named_variables(tree, name, entry, environment)
        if not isinstance(entry, dict) or entry.get("api_key"):
            continue
        provider = PROVIDERS.get(str(entry.get("type", DEFAULT_PROVIDER.name)))
        if provider is None:
            continue  # An unknown type is reported with the other values.
        if entry.get("base_url") and not provider.needs_url:
            continue  # Only for the provider's own address: a key is not sent to another server.
        if entry.get("api_key_env") or (provider.needs_project and (entry.get("project") or entry.get("project_env"))):
            continue
        if key := key_for(provider):
            tree.derive(("llm_providers", name, "api_key"), key, f"environment {provider.key_variable}")
        else:
            tree.report(
                ("llm_providers", name, "api_key"),
                f"is missing: set {provider.key_variable}, or write `api_key: ${{VARIABLE}}` here",
            )
    if DEFAULT not in providers and (model_is_named or not providers):
        for name, made in from_model:
            tree.derive(("llm_providers", name), made, "LLM_MODEL and its key")
    if not defaults.get("llm_provider"):
        if DEFAULT in providers or len(providers) == 1:
            name = DEFAULT if DEFAULT in providers else next(iter(providers))
            why = "the only provider" if len(providers) == 1 else "the provider called default"
            tree.derive(("defaults", "llm_provider"), name, why)
        elif providers and _is_needed(tree):
            message = f"is missing: there are several providers ({', '.join(providers)}); choose the default one"
            tree.report(("defaults", "llm_provider"), message)


def _named_variables(tree: SettingsTree, name: str, entry: Mapping[str, Any], environment: Mapping[str, str]) -> None:
    """Fill in what an entry takes from a variable that it names, e.g. `api_key_env`."""
    for field in ("api_key", "project", "location"):
        variable = entry.get(f"{field}_env")
        if not isinstance(variable, str) or not variable or "${" in variable:
            continue
        if entry.get(field):
            tree.report(("llm_providers", name, f"{field}_env"), f"has no effect beside {field}; keep one of them")
        elif value := environment.get(variable):
            given: Any = SecretStr(value) if field == "api_key" else value
            tree.derive(("llm_providers", name, field), given, f"environment {variable}")
        else:
            tree.report(("llm_providers", name, f"{field}_env"), f"the variable {variable} is not set")


def _is_needed(tree: SettingsTree) -> bool:
    """Whether a default provider is required."""
    if not tree.includes("agents"):
        return not tree.mapping("defaults", "summarization").get("llm_provider")
    agents = tree.mapping("agents").values()
    return not agents or any(isinstance(agent, dict) and not agent.get("llm_provider") for agent in agents)


def _agents(tree: SettingsTree, servers: list[str], other_models: list[str]) -> None:
    agents = tree.mapping("agents")
    if not agents:
        tree.derive(("agents", DEFAULT), {}, "no agent is declared")
    default_provider = tree.mapping("defaults").get("llm_provider")
    for name, agent in agents.items():
        if not isinstance(agent, dict):
            continue
        if "mcp_servers" not in agent:
            tree.derive(("agents", name, "mcp_servers"), list(servers), "all servers")
        if other_models and "fallbacks" not in agent and agent.get("llm_provider", default_provider) == DEFAULT:
            tree.derive(("agents", name, "fallbacks"), list(other_models), "LLM_FALLBACK_MODELS")


def _chains(tree: SettingsTree) -> None:
    chains, agents = tree.mapping("chains"), tree.mapping("agents")
    if not chains:
        if DEFAULT in agents or len(agents) == 1:
            agent = DEFAULT if DEFAULT in agents else next(iter(agents))
            stage = {"name": "investigation", "agent": agent}
            made = {"alert_types": [DEFAULT], "description": "Any alert.", "stages": [stage]}
            tree.derive(("chains", DEFAULT), made, "no chain is declared")
        elif agents:
            tree.report(
                ("chains",),
                f"is missing: there are several agents ({', '.join(agents)}); say which agents handle which alerts",
            )
    types = list(_alert_types(tree))
    if len(chains) == 1 and types and not tree.mapping("defaults").get("alert_type"):
        tree.derive(("defaults", "alert_type"), types[0][1], "the only chain")


def check_names(tree: SettingsTree) -> None:
    """Report names that are not declared, and alert types with two chains."""
    declared = {section: _declared(tree, section) for section in _KINDS}
    written = tree.raw(("mcp_servers",))
    servers = {**(written if isinstance(written, dict) else {}), **tree.mapping("mcp_servers")}
    values = {**tree.values, "mcp_servers": servers}
    for pattern, section in _REFERENCES:
        known = declared[section]
        if known is None:
            continue
        for key, name in _found(values, pattern, ()):
            if isinstance(name, str) and name not in known and "${" not in name:
                kind = _KINDS[section]
                known_names = nearest(name, known) if known else f"; no {kind} is declared under `{section}`."
                tree.report(key, f"there is no {kind} of this name{known_names}")
    if chains := _declared(tree, "chains"):
        for place in _KEYED_BY_CHAIN:
            for key, _ in _found(tree.values, (*place, "*"), ()):
                if key[-1] not in chains:
                    tree.report(key, f"there is no chain of this name{nearest(str(key[-1]), chains)}")
    _check_alert_types(tree)
    _check_runbooks(tree)
    _check_skills(tree)
    _check_sub_agents(tree)


def _check_sub_agents(tree: SettingsTree) -> None:
    """Report agents that would hand tasks to themselves, directly or through others, and too many levels."""
    asked: dict[str, list[str]] = {}
    for key, entry in _found(tree.values, ("agents", "*", "sub_agents", "*"), ()):
        name = entry.get("name") if isinstance(entry, Mapping) else entry
        if isinstance(name, str):
            asked.setdefault(str(key[1]), []).append(name)

    def longest(path: tuple[str, ...]) -> tuple[str, ...]:
        """The longest chain of agents that begins like this; it ends where an agent occurs again."""
        if path[-1] in path[:-1] or path[-1] not in asked:
            return path
        return max(
            (longest((*path, other)) for other in asked[path[-1]]), key=lambda one: (one[-1] in one[:-1], len(one))
        )

    for name in asked:
        path = longest((name,))
        if path[-1] == name and len(path) > 1:
            tree.report(("agents", name, "sub_agents"), f"the agent would ask itself: {' → '.join(path)}")
        elif len(path) - 1 > MOST_DEPTH and path[-1] not in path[:-1]:
            tree.report(("agents", name, "sub_agents"), f"{' → '.join(path)} are more than {MOST_DEPTH} levels")


def _check_skills(tree: SettingsTree) -> None:
    """Report skills that cannot be used, and names of skills that do not exist."""
    folder = tree.mapping("defaults").get("skills_folder")
    try:
        known = list(load_skills(Path(folder))) if isinstance(folder, str) and folder else []
    except ConfigError as problem:
        tree.report(("defaults", "skills_folder"), str(problem))
        return
    for option in ("skills", "required_skills"):
        for key, name in _found(tree.values, ("agents", "*", option, "*"), ()):
            if isinstance(name, str) and name not in known:
                hint = nearest(name, known) if known else "; `defaults.skills_folder` has none."
                tree.report(key, f"there is no skill of this name{hint}")


def _check_runbooks(tree: SettingsTree) -> None:
    """Report addresses of runbooks that would never be read."""
    hosts = tree.mapping("runbooks").get("allowed_hosts")
    try:
        runbooks = RunbookOptions() if hosts is None else RunbookOptions(allowed_hosts=hosts)
    except ValidationError:
        return  # Reported with the other values.
    for pattern in (("chains", "*", "runbook"), ("defaults", "runbook")):
        for key, value in _found(tree.values, pattern, ()):
            if isinstance(value, str) and ADDRESS.fullmatch(value.strip()) and "${" not in value:
                try:
                    runbooks.address(value)
                except InputError as problem:
                    tree.report(key, str(problem).removeprefix("runbook: "))


def _declared(tree: SettingsTree, section: str) -> list[str] | None:
    """Names declared in a section, also of invalid entries; None where they are not known."""
    if not tree.includes(section):
        return None
    written = tree.raw((section,)) if section == "mcp_servers" else tree.values.get(section, {})
    return list(map(str, written or ())) if isinstance(written, dict) or not written else None


def _check_alert_types(tree: SettingsTree) -> None:
    first: dict[str, Key] = {}
    for key, name in _alert_types(tree):
        if name in first:
            tree.report(
                key, f"{name!r} already belongs to the chain {first[name][1]!r}; an alert is handled by one chain"
            )
        first.setdefault(name, key)
    default = tree.mapping("defaults").get("alert_type") if tree.includes("chains") else None
    if isinstance(default, str) and first and default not in first:
        tree.report(("defaults", "alert_type"), f"no chain handles alerts of this type{nearest(default, list(first))}")


def _alert_types(tree: SettingsTree) -> Iterator[tuple[Key, str]]:
    for key, name in _found(tree.values, ("chains", "*", "alert_types", "*"), ()):
        if isinstance(name, str):
            yield key, name


def _found(value: Any, pattern: Key, at: Key) -> Iterator[tuple[Key, Any]]:
    """The values at a pattern of keys; parts of another shape are skipped."""
    if not pattern:
        yield at, value
        return
    part, rest = pattern[0], pattern[1:]
    if part == "*":
        entries = (
            value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list | tuple) else ()
        )
        for name, entry in entries:
            yield from _found(entry, rest, (*at, name))
    elif isinstance(value, Mapping):
        if part in value:
            yield from _found(value[part], rest, (*at, part))
    elif (attribute := getattr(value, str(part), None)) is not None:
        # A server, which has been validated already.
        yield from _found(attribute, rest, (*at, part))
