"""TARSy's configuration as a `tersely.yaml`: agents, chains, servers, providers, defaults.

Keys with the same meaning are translated; what has no counterpart is left out and
named in a note. TARSy's built-in agents, server and providers are added where the
file refers to them without declaring them. Sub-agents, which TARSy names in chains
and stages, belong to agents here: an agent that gets some there is added as a variant.
"""

import itertools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from tersely.agent.options import AgentOptions
from tersely.errors import ConfigError
from tersely.llm.providers import PROVIDERS, ProviderOptions
from tersely.mcp.servers import ServerOptions
from tersely.sessions.chains import ChainOptions
from tersely.settings.files import nearest, plain_message

_TEMPLATE = re.compile(r"\{\{\s*\.([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")
_PER_EXECUTION = {"SESSION_ID"}
"""Variables that TARSy fills in for each execution of an agent."""

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
BUILT_IN = Path(__file__).with_name("tarsy_built_in.yaml")
"""What TARSy has without being told: agents, a server, and the providers that its example files do not declare."""


@dataclass
class ImportedSettings:
    """Sections for a `tersely.yaml`, and what the user has to know about them."""

    sections: dict[str, Any] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def is_tarsy(data: object) -> bool:
    """Whether a document looks like TARSy's main configuration file."""
    if not isinstance(data, Mapping) or "chains" in data or "mcpServers" in data:
        return False
    agents = data.get("agents")
    texts = agents.values() if isinstance(agents, Mapping) else ()
    if "agent_chains" in data or any(isinstance(one, Mapping) and "custom_instructions" in one for one in texts):
        return True
    defaults = data.get("defaults")
    return isinstance(defaults, Mapping) and "llm_backend" in defaults


def import_tarsy(
    data: Mapping[str, Any], providers: Mapping[str, Any] | None = None, skills: Path | None = None
) -> ImportedSettings:
    """
    Args:
        data: The document of `tarsy.yaml`.
        providers: The document of `llm-providers.yaml`, if there is one.
        skills: The folder with the skills, if there is one.

    Raises:
        ConfigError: A section has another shape than TARSy's.
    """
    return _Importer(data, providers or {}, skills).imported()


class _Importer:
    def __init__(self, data: Mapping[str, Any], providers: Mapping[str, Any], skills: Path | None) -> None:
        self._skills = skills
        self._found = ImportedSettings()
        self._data = {str(name): self._filled(value) for name, value in data.items()}
        self._built_in = yaml.safe_load(BUILT_IN.read_text(encoding="utf-8"))
        declared = {**self._section(providers, "llm_providers"), **self._section(self._data, "llm_providers")}
        self._declared: dict[str, Any] = {str(name): self._filled(entry) for name, entry in declared.items()}
        self._limits: dict[str, Mapping[str, Any]] = {}
        self._variants: dict[str, tuple[str, dict[str, Any]]] = {}
        """By name, the agent that a variant is made of, and what differs."""

    def imported(self) -> ImportedSettings:
        known = {"queue", "system", "defaults", "mcp_servers", "agents", "agent_chains", "llm_providers"}
        for name in self._data.keys() - known:
            self._note(name, "has no counterpart")
        agents = {name: self._agent(name, entry) for name, entry in self._entries("agents")}
        chains = {name: self._chain(name, entry) for name, entry in self._entries("agent_chains")}
        sections: dict[str, Any] = {"defaults": self._defaults()}
        if self._skills:
            sections["defaults"]["skills_folder"] = str(self._skills)
        servers = {name: self._server(name, entry) for name, entry in self._entries("mcp_servers")}
        self._add_built_in(agents, chains, servers)
        sections["llm_providers"] = self._providers(sections["defaults"], agents, chains, servers)
        sections |= {"mcp_servers": servers, "agents": agents, "chains": chains, **self._system(), **self._queue()}
        checks: tuple[tuple[str, type[BaseModel]], ...] = (
            ("llm_providers", ProviderOptions),
            ("mcp_servers", ServerOptions),
            ("agents", AgentOptions),
            ("chains", ChainOptions),
        )
        for section, model in checks:
            sections[section] = {
                name: fitted
                for name, entry in sections[section].items()
                if (fitted := self._fitted(model, entry, f"{section}.{name}")) is not None
            }
        self._found.sections = {name: value for name, value in sections.items() if value}
        return self._found

    # Sections

    def _server(self, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
        entry, place = dict(given), f"mcp_servers.{name}"
        transport = dict(entry.get("transport") or {})
        if "custom_headers" in transport:
            headers = {str(key): str(value) for key, value in dict(transport.pop("custom_headers")).items()}
            for header in [key for key, value in headers.items() if _is_per_execution(value)]:
                headers.pop(header)
                self._note(f"{place}.transport.custom_headers.{header}", "differs for each execution; left out")
            if headers:
                transport["headers"] = {**transport.get("headers", {}), **headers}
        if transport.get("verify_ssl") is False:
            self._note(
                f"{place}.transport.verify_ssl", "certificates are not checked; better name the authority: ca_file"
            )
        if "timeout" in transport:
            entry["timeout"] = transport.pop("timeout")
        entry["transport"] = transport
        if masking := entry.pop("data_masking", None):
            entry |= self._masking(place, masking)
        if isinstance(summarization := entry.get("summarization"), Mapping):
            entry["summarization"] = self._summarization(place, summarization)
        return entry

    def _summarization(self, place: str, given: Mapping[str, Any]) -> dict[str, Any]:
        options = {key: value for key, value in given.items() if key != "llm_backend"}
        threshold, size = options.get("size_threshold_tokens"), options.get("summary_max_token_limit", 1_000)
        if isinstance(threshold, int) and isinstance(size, int) and size >= threshold:
            options["summary_max_token_limit"] = max(50, threshold // 2)
            self._note(
                f"{place}.summarization", "summaries are shorter than the threshold: summary_max_token_limit was set"
            )
        return options

    def _masking(self, place: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """All kinds are masked by default, which includes TARSy's groups; e-mail addresses are not secrets here."""
        options: dict[str, Any] = {}
        if given.get("enabled") is False:
            options["enabled"] = False
        groups = [*given.get("pattern_groups", ()), *given.get("patterns", ()), given.get("pattern_group", "")]
        custom = {}
        if {"email", "security", "all"} & set(groups):
            custom["email"] = r"\b[A-Za-z0-9._%+-]+@[A-Za-z0-9]+(?:[.-][A-Za-z0-9]+)*\.[A-Za-z]{2,63}\b"
        for number, one in enumerate(given.get("custom_patterns") or (), start=1):
            pattern = one.get("pattern") if isinstance(one, Mapping) else None
            if isinstance(pattern, str):
                custom[f"custom_{number}"] = pattern
        if custom:
            options["custom_patterns"] = custom
        return {"data_masking": options} if options else {}

    def _agent(self, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
        entry = dict(given)
        if "custom_instructions" in entry:
            entry["instructions"] = entry.pop("custom_instructions")
        entry.pop("llm_backend", None)
        if "fallback_providers" in entry:
            entry["fallbacks"] = _names(entry.pop("fallback_providers"), "provider")
        if entry.get("type") in ("scoring", "exec_summary", "action"):
            self._note(f"agents.{name}", f"agents of type {entry['type']} have no counterpart")
        entry.pop("type", None)
        for key in ("required_skills", "skills"):
            if entry.get(key) and self._skills is None:
                self._note(f"agents.{name}.{key}", "left out, because there is no folder `skills` beside the file")
                entry.pop(key)
        self._limits[name] = self._section(entry, "orchestrator")
        entry.pop("orchestrator", None)
        if refs := entry.pop("sub_agents", None):
            entry |= self._sub_agents(f"agents.{name}", refs, self._limits[name])
        return entry

    # Sub-agents

    def _sub_agents(self, place: str, refs: Any, limits: Mapping[str, Any]) -> dict[str, Any]:
        """The sub-agents of an agent and its budget, with variants of those for which the reference differs."""
        limits = {**self._section(self._section(self._data, "defaults"), "orchestrator"), **limits}
        if "max_concurrent_agents" in limits:
            self._note(f"{place}.orchestrator.max_concurrent_agents", "tasks that one answer hands out run at once")
        names = []
        for one in refs if isinstance(refs, list) else ():
            ref = {"name": one} if isinstance(one, str) else dict(one)
            changes = {key: value for key, value in ref.items() if key not in ("name", "llm_backend")}
            if (seconds := _seconds(limits.get("agent_timeout"))) is not None:
                changes["budget"] = {"seconds": seconds}
            names.append(self._variant(str(ref.get("name")), changes, "sub-agent"))
        found: dict[str, Any] = {"sub_agents": names}
        if (seconds := _seconds(limits.get("max_budget"))) is not None:
            found["budget"] = {"seconds": seconds}
        return found

    def _variant(self, agent: str, changes: dict[str, Any], kind: str) -> str:
        """The name of an agent that differs from another one."""
        if not changes:
            return agent
        for number in itertools.count(1):
            name = f"{agent}-{kind}" + (f"-{number}" if number > 1 else "")
            if self._variants.setdefault(name, (agent, changes)) == (agent, changes):
                return name
        raise AssertionError("there are more numbers than agents")

    def _chain(self, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
        entry, place = dict(given), f"chains.{name}"
        provider, servers = entry.pop("llm_provider", None), entry.pop("mcp_servers", None)
        iterations = entry.pop("max_iterations", None)
        stages = [stage for stage in entry.get("stages") or () if isinstance(stage, Mapping)]
        refs = entry.pop("sub_agents", None)
        entry["stages"] = [
            self._stage(f"{place}.stages.{number}", {"sub_agents": refs, **stage})
            for number, stage in enumerate(stages)
        ]
        for stage in entry["stages"]:
            # TARSy's stages inherit what their chain says.
            for key, value in (("llm_provider", provider), ("mcp_servers", servers), ("max_iterations", iterations)):
                if value is not None:
                    stage.setdefault(key, value)
        entry.pop("llm_backend", None)
        if isinstance(chat := entry.pop("chat", None), Mapping) and chat.get("enabled") is False:
            self._note(f"{place}.chat", "questions can be switched off for all chains only: chat.max_questions: 0")
        for key in sorted((chat or {}).keys() - {"enabled"}) if isinstance(chat, Mapping) else ():
            self._note(f"{place}.chat.{key}", "questions are answered by the agent of the last stage")
        if "executive_summary_provider" in entry:
            entry.pop("executive_summary_provider")
            self._note(f"{place}.executive_summary_provider", "the summary is part of the verdict, by the same model")
        return entry

    def _stage(self, place: str, given: Mapping[str, Any]) -> dict[str, Any]:
        stage = {key: value for key, value in given.items() if key != "llm_backend"}
        for_all = stage.pop("sub_agents", None)
        agents = []
        for number, one in enumerate(stage.pop("agents", None) or ()):
            entry = {"name": one} if isinstance(one, str) else dict(one)
            entry.pop("llm_backend", None)
            where = f"{place}.agents.{number}"
            limits = {**self._limits.get(str(entry.get("name")), {}), **self._section(entry, "orchestrator")}
            entry.pop("orchestrator", None)
            changes: dict[str, Any] = {}
            if refs := entry.pop("sub_agents", None) or for_all:
                changes = self._sub_agents(where, refs, limits)
            for key in ("required_skills", "skills"):
                if key in entry:
                    self._note(f"{where}.{key}", "belongs to the agent here; set it under agents")
                    entry.pop(key)
            entry["name"] = self._variant(str(entry.get("name")), changes, "orchestrator")
            agents.append(entry)
        if len(agents) == 1:
            (only,) = agents
            stage["agent"] = only.pop("name")
            stage |= only
        elif agents:
            stage["agents"] = agents
        if isinstance(synthesis := stage.get("synthesis"), Mapping):
            stage["synthesis"] = {key: value for key, value in synthesis.items() if key != "llm_backend"}
        return stage

    def _defaults(self) -> dict[str, Any]:
        given = self._section(self._data, "defaults")
        taken = {key: given[key] for key in ("llm_provider", "max_iterations", "alert_type") if key in given}
        if "success_policy" in given:
            taken["success_policy"] = given["success_policy"]
        if isinstance(summarization := given.get("summarization"), Mapping) and summarization.get("llm_provider"):
            taken["summarization"] = {"llm_provider": summarization["llm_provider"]}
        if isinstance(masking := given.get("alert_masking"), Mapping):
            fitted = self._masking("defaults.alert_masking", masking)
            taken |= {"alert_masking": fitted["data_masking"]} if fitted else {}
        silent = {*taken, "llm_backend", "alert_masking", "summarization"}
        for key in given.keys() - silent:
            self._note(f"defaults.{key}", "has no counterpart")
        return taken

    def _queue(self) -> dict[str, Any]:
        given = self._section(self._data, "queue")
        queue: dict[str, Any] = {}
        if isinstance(given.get("max_concurrent_sessions"), int):
            queue["max_concurrent_sessions"] = given["max_concurrent_sessions"]
        for theirs, ours in (("session_timeout", "session_timeout"), ("poll_interval", "poll")):
            if (seconds := _seconds(given.get(theirs))) is not None:
                queue[ours] = seconds
        skipped = sorted(given.keys() - {"max_concurrent_sessions", "session_timeout", "poll_interval"})
        if skipped:
            self._note("queue", f"not needed here: {', '.join(skipped)}")
        return {"queue": queue} if queue else {}

    def _system(self) -> dict[str, Any]:
        given = self._section(self._data, "system")
        found: dict[str, Any] = {}
        if url := given.get("dashboard_url"):
            found["up"] = {"public_url": url}
        slack = given.get("slack")
        if isinstance(slack, Mapping) and slack.get("enabled") is not False and slack.get("channel"):
            variable = str(slack.get("token_env") or "SLACK_BOT_TOKEN")
            self._found.variables.setdefault(variable, "token of the Slack app")
            found["slack"] = {"token": f"${{{variable}}}", "channel": slack["channel"]}
        retention = given.get("retention")
        if isinstance(retention, Mapping) and isinstance(days := retention.get("session_retention_days"), int):
            found["retention"] = {"sessions_days": days}
        for key in given.keys() - {"dashboard_url", "slack", "retention", "cost_estimation"}:
            self._note(f"system.{key}", "has no counterpart, or is configured elsewhere")
        return found

    # What is referred to

    def _add_built_in(self, agents: dict[str, Any], chains: dict[str, Any], servers: dict[str, Any]) -> None:
        known: dict[str, Any] = self._built_in["agents"]
        handled = {kind for chain in chains.values() for kind in chain.get("alert_types") or ()}
        default = self._section(self._data, "defaults").get("alert_type")
        for name, chain in self._built_in["chains"].items():
            if name not in chains and (not chains or (default in chain["alert_types"] and default not in handled)):
                chains[name] = dict(chain)
                self._note(f"chains.{name}", "a built-in chain of TARSy was added")
        for name in self._variants:
            self._note(f"agents.{name}", f"added: {self._variants[name][0]} with the sub-agents or limits of its stage")
        wanted = [*_agents_of(chains), *_values(list(agents.values()), ("sub_agents",))]
        for name in wanted:
            base, changes = self._variants.get(name, (name, {}))
            # The list grows while it is read: sub-agents may be variants, and are to be added, too.
            wanted += changes.get("sub_agents", ())
            if name in agents:
                continue
            if base not in agents and base in known:
                self._note(f"agents.{base}", "a built-in agent of TARSy was added")
                agents[base] = dict(known[base])
            if base in agents:
                defined = {**known.get(base, {}), **agents[base]}
                agents[name] = {**defined, **changes} if changes else agents[base]
            else:
                self._note(f"agents.{base}", f"is not declared{nearest(base, [*agents, *known])}")
        for name in list(agents):
            if name in known and "mcp_servers" not in agents[name]:
                agents[name]["mcp_servers"] = list(known[name]["mcp_servers"])
        named = {server for agent in agents.values() for server in agent.get("mcp_servers") or ()}
        for name, server in self._built_in["mcp_servers"].items():
            if name in named and name not in servers:
                servers[name] = self._filled(server)
                self._note(f"mcp_servers.{name}", "a built-in server of TARSy was added")

    def _providers(self, *sections: Mapping[str, Any]) -> dict[str, Any]:
        used = set(_values(sections, ("llm_provider",))) | set(_values(sections, ("fallbacks",)))
        system = self._data.get("system")
        costs = system.get("cost_estimation") if isinstance(system, Mapping) else None
        rates = costs.get("model_rates") if isinstance(costs, Mapping) else None
        providers: dict[str, Any] = {}
        for name in sorted(used):
            if name in self._declared:
                providers[name] = self._provider(name, self._declared[name])
            elif name in self._built_in["llm_providers"]:
                providers[name] = dict(self._built_in["llm_providers"][name])
                self._note(f"llm_providers.{name}", "a built-in provider of TARSy was added")
            else:
                known = [*self._declared, *self._built_in["llm_providers"]]
                self._note(f"llm_providers.{name}", f"is not declared{nearest(name, known)}")
        for entry in providers.values():
            if isinstance(rates, Mapping) and isinstance(rate := rates.get(entry.get("model")), Mapping):
                entry["input_price"] = rate.get("input_per_million")
                entry["output_price"] = rate.get("output_per_million")
            for key in ("api_key_env", "project_env", "location_env"):
                if isinstance(entry.get(key), str):
                    self._found.variables.setdefault(entry[key], "")
        if unused := sorted(self._declared.keys() - used):
            self._note("llm_providers", f"left out, because nothing uses them: {', '.join(unused)}")
        return providers

    def _provider(self, name: str, given: object) -> dict[str, Any]:
        if not isinstance(given, Mapping):
            raise ConfigError(f"llm_providers.{name} is not a mapping.")
        entry = dict(given)
        address = str(entry.get("base_url") or "")
        azure = next((kind for kind, one in PROVIDERS.items() if one.needs_url), None)
        if azure and ".openai.azure.com" in address:
            entry["type"] = azure
        entry.pop("max_tool_result_tokens", None)
        return entry

    # Parts

    def _fitted(self, model: type[BaseModel], entry: Any, place: str) -> dict[str, Any] | None:
        """The entry without keys that have no counterpart; None if the rest is invalid."""
        while True:
            try:
                model.model_validate(_as_if_set(entry))
                return dict(entry)
            except ValidationError as wrong:
                errors = wrong.errors(include_url=False, include_context=False)
                extra = [one["loc"] for one in errors if one["type"] == "extra_forbidden"]
                if not extra:
                    where = ".".join((place, *map(str, errors[0]["loc"])))
                    self._note(where, f"left out: {plain_message(errors[0]['msg'], None, errors[0]['type'])}")
                    return None
                for path in extra:
                    _remove(entry, path)
                    self._note(".".join((place, *map(str, path))), "has no counterpart")

    def _entries(self, section: str) -> Iterable[tuple[str, Mapping[str, Any]]]:
        for name, entry in self._section(self._data, section).items():
            if not isinstance(entry, Mapping):
                raise ConfigError(f"{section}.{name} is not a mapping.")
            yield str(name), entry

    @staticmethod
    def _section(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
        found = data.get(name) or {}
        if not isinstance(found, Mapping):
            raise ConfigError(f"{name} is not a mapping.")
        return found

    def _filled(self, value: Any) -> Any:
        """The value with `${NAME}` for TARSy's `{{.NAME}}`, and other `${` escaped."""
        if isinstance(value, str):
            for name in _TEMPLATE.findall(value):
                if name not in _PER_EXECUTION:
                    self._found.variables.setdefault(name, "")
            return _TEMPLATE.sub(r"${\1}", value.replace("${", "$${"))
        if isinstance(value, Mapping):
            return {key: self._filled(inner) for key, inner in value.items()}
        return [self._filled(inner) for inner in value] if isinstance(value, list) else value

    def _note(self, place: str, text: str) -> None:
        self._found.notes.append(f"{place}: {text}")


def _is_per_execution(value: str) -> bool:
    return any(f"${{{name}}}" in value for name in _PER_EXECUTION)


def _names(value: object, key: str) -> list[str]:
    entries = value if isinstance(value, list) else []
    return [str(one[key]) if isinstance(one, Mapping) and key in one else str(one) for one in entries]


def _agents_of(chains: Mapping[str, Any]) -> list[str]:
    found: dict[str, None] = {}
    for chain in chains.values():
        for stage in chain["stages"]:
            names = [stage.get("agent"), *(one.get("name") for one in stage.get("agents", ()))]
            names.append((stage.get("synthesis") or {}).get("agent"))
            found |= dict.fromkeys(str(name) for name in names if name)
    return list(found)


def _values(value: Any, keys: tuple[str, ...]) -> Iterable[str]:
    """All texts under these keys, at any depth."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key in keys:
                yield from [inner] if isinstance(inner, str) else [one for one in inner or () if isinstance(one, str)]
            yield from _values(inner, keys)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _values(inner, keys)


def _as_if_set(value: Any) -> Any:
    """Any variable may be set to anything later; this value is valid everywhere, also as an address."""
    if isinstance(value, str):
        return re.sub(r"(?<!\$)\$\{[^{}]*\}", "http://variable.invalid", value)
    if isinstance(value, Mapping):
        return {key: _as_if_set(inner) for key, inner in value.items()}
    return [_as_if_set(inner) for inner in value] if isinstance(value, list) else value


def _remove(entry: Any, path: tuple[int | str, ...]) -> None:
    for part in path[:-1]:
        entry = entry[part]
    entry.pop(path[-1], None)


def _seconds(value: object) -> float | None:
    """A duration of Go, such as `1h30m`, in seconds."""
    if not isinstance(value, str) or not re.fullmatch(rf"(?:{_DURATION.pattern})+", value):
        return None
    return sum(float(number) * _SECONDS[unit] for number, unit in _DURATION.findall(value))
