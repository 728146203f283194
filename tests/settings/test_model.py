"""Settings: all mistakes at once, secrets never shown."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from pydantic import BaseModel

from tersely.agent.options import AgentOptions
from tersely.errors import ConfigError
from tersely.llm.providers import NativeTools, ProviderOptions
from tersely.sessions.chains import ChainOptions, Defaults, StageOptions
from tersely.settings.model import Settings, find_file, load_with_sources, user_file


def test_the_defaults_are_those_of_the_service_this_one_stands_in_for() -> None:
    settings = Settings.load({})
    assert (settings.model.model, settings.summarizer.port) == ("openai/gpt-4o-mini", 8007)
    assert (
        settings.summarizer.chunk_size,
        settings.summarizer.chunk_overlap,
        settings.summarizer.max_output_tokens,
    ) == (8000, 500, 5000)


def test_an_empty_variable_counts_as_unset_and_the_command_line_wins() -> None:
    assert Settings.load({"MCP_SUMMARIZER_PORT": ""}).summarizer.port == 8007
    assert Settings.load({"MCP_SUMMARIZER_PORT": "9000"}).summarizer.port == 9000
    assert Settings.load({"MCP_SUMMARIZER_PORT": "9000"}, MCP_SUMMARIZER_PORT=9001).summarizer.port == 9001
    assert Settings.load({"MCP_SUMMARIZER_PORT": "9000"}, MCP_SUMMARIZER_PORT=None).summarizer.port == 9000


def test_all_mistakes_are_named_at_once_and_no_secret_is() -> None:
    with pytest.raises(ConfigError) as problem:
        Settings.load(
            {
                "MCP_SUMMARIZER_PORT": "high",
                "OPENROUTER_BASE_URL": "ollama",
                "LLM_CONTEXT_WINDOW": "1",
                "OPENROUTER_API_KEY": "sk-canary",
            }
        )
    message = str(problem.value)
    assert all(
        name in message
        for name in ("MCP_SUMMARIZER_PORT='high'", "OPENROUTER_BASE_URL='ollama'", "LLM_CONTEXT_WINDOW='1'")
    )
    assert "canary" not in message
    assert "canary" not in repr(Settings.load({"OPENROUTER_API_KEY": "sk-canary", "TERSELY_TOKEN": "t-canary"}))


def test_an_overlap_as_large_as_the_chunk_is_refused_with_both_values() -> None:
    with pytest.raises(ConfigError, match=r"\(9000\) must be smaller than DEFAULT_CHUNK_SIZE_TOKENS \(8000\)"):
        Settings.load({"DEFAULT_CHUNK_OVERLAP_TOKENS": "9000"})


@pytest.mark.parametrize(
    ("environment", "models"),
    [
        ({}, []),
        ({"OPENROUTER_API_KEY": "k"}, ["openrouter openai/gpt-4o-mini"]),
        ({"OPENROUTER_BASE_URL": "http://localhost:11434/v1", "LLM_MODEL": "llama3.1"}, ["openrouter llama3.1"]),
        ({"LLM_MODEL": "anthropic:claude-haiku-4-5"}, []),
        ({"LLM_MODEL": "anthropic:claude-haiku-4-5", "ANTHROPIC_API_KEY": "k"}, ["anthropic claude-haiku-4-5"]),
        (
            {
                "OPENROUTER_API_KEY": "k",
                "GOOGLE_API_KEY": "g",
                "LLM_FALLBACK_MODELS": "google:gemini-2.5-flash, mistralai/small:free",
            },
            ["openrouter openai/gpt-4o-mini", "google gemini-2.5-flash", "openrouter mistralai/small:free"],
        ),
    ],
)
def test_a_model_is_configured_when_its_key_is_or_a_server_of_ones_own(
    environment: dict[str, str], models: list[str]
) -> None:
    assert [f"{spec.provider} {spec.model}" for spec in Settings.load(environment).model.specs()] == models


# The file

CONFIGURATION = Path(__file__).parents[2] / "docs" / "reference" / "configuration.md"


def written(folder: Path, text: str, name: str = "tersely.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def mistakes(folder: Path, text: str, **environment: str) -> list[str]:
    path = written(folder, text)
    with pytest.raises(ConfigError) as wrong:
        Settings.load(environment, path)
    return str(wrong.value).replace(str(path), path.name).split("\n")


def test_without_a_file_there_is_an_agent_over_all_servers_and_a_chain_for_any_alert() -> None:
    settings = Settings.load({})

    assert settings.llm_providers == {} and settings.defaults.llm_provider is None and settings.summarizing() == ()
    assert settings.agents == {"default": AgentOptions()}
    assert settings.chains["default"].alert_types == ("default",) and settings.defaults.alert_type == "default"
    assert [stage.agent for stage in settings.chains["default"].stages] == ["default"]


def test_without_a_file_the_model_of_the_environment_is_the_default_provider_and_its_fallbacks_step_in() -> None:
    settings = Settings.load({"OPENROUTER_API_KEY": "k", "LLM_MODEL": "a/b", "LLM_FALLBACK_MODELS": "c/d, anthropic:e"})

    assert settings.defaults.llm_provider == "default" and settings.agents["default"].fallbacks == ("c/d",), (
        "nobody has a key for the third"
    )
    assert [spec.model for spec in settings.specs(*settings.summarizing())] == ["a/b", "c/d"]


def test_the_file_gives_way_to_the_environment_and_both_to_the_command_line(tmp_path: Path) -> None:
    file = written(
        tmp_path, "up: {port: 1}\nqueue:\n  lease: 10\n  grace: 5\nstore: {keep_days: 7}\nlog_level: debug\n"
    )
    settings, sources = load_with_sources(
        {"TERSELY_PORT": "2", "TERSELY_LEASE": "20", "TERSELY_GRACE": ""}, file, TERSELY_PORT=3
    )

    assert (settings.up.port, settings.queue.lease, settings.queue.grace, settings.store.keep_days) == (3, 20, 5, 7)
    assert settings.log_level == "debug"
    said = [
        str(sources.source(key)) for key in (("up", "port"), ("queue", "lease"), ("queue", "grace"), ("queue", "poll"))
    ]
    assert said == ["command line TERSELY_PORT", "environment TERSELY_LEASE", f"{file}:4", "None"]


def test_the_example_of_the_reference_is_read_as_it_says() -> None:
    example = CONFIGURATION.read_text(encoding="utf-8").split("```yaml\n")[1].split("```")[0]
    names = ("ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "METRICS_TOKEN", "SLACK_BOT_TOKEN", "WEBHOOK_SECRET")
    with TemporaryDirectory() as folder:
        settings = Settings.load(dict.fromkeys(names, "canary"), written(Path(folder), example))

    assert settings.agents["first-look"].mcp_servers == ("kubernetes",)
    assert settings.agents["cause-finder"].mcp_servers == ("kubernetes", "metrics"), (
        "an agent that names no servers has all"
    )
    assert [server.name for server in settings.servers] == ["kubernetes", "metrics"]
    assert [spec.model for spec in settings.specs("main", *settings.agents["first-look"].fallbacks)] == [
        "claude-sonnet-4-5",
        "gemini-2.5-flash",
        "llama3.1",
    ]
    assert settings.summarizing() == ("fast",)
    assert settings.store.database_url is None, "an empty variable counts as unset"
    tools = settings.agents["cause-finder"].native_tools.over(settings.llm_providers["fast"].native_tools)
    assert tools.google_search is False and tools.url_context is None
    assert "canary" not in repr(settings)


def test_the_reference_explains_every_key_of_the_file() -> None:
    page = CONFIGURATION.read_text(encoding="utf-8")

    def keys(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, str]]:
        for name, field in model.model_fields.items():
            if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
                yield from keys(field.annotation, f"{prefix}{name}.")
            else:
                yield f"| `{prefix}{name}` |", f" | {' '.join((field.description or '').split())} |"

    for title, model in (
        ("`llm_providers`", ProviderOptions),
        ("`agents`", AgentOptions),
        ("`chains`", ChainOptions),
        ("`chains`", StageOptions),
        ("`defaults`", Defaults),
    ):
        section = page.split(f"\n## {title}\n")[1].split("\n## ")[0].splitlines()
        for start, end in keys(model):
            assert any(line.startswith(start) and line.endswith(end) for line in section), (
                f"{title}: {start} is not explained as in the code"
            )
    rest = page.split("\n## The rest\n")[1]
    for name, group in Settings.model_fields.items():
        if isinstance(group.annotation, type) and issubclass(group.annotation, BaseModel) and name != "defaults":
            missing = [start for start, _ in keys(group.annotation, f"{name}.") if start not in rest]
            assert not missing, f"docs/reference/configuration.md lacks {missing}"


def test_every_mistake_is_told_at_once_with_its_line_and_the_nearest_name(tmp_path: Path) -> None:
    text = """\
llm_providers:
  fast: {type: openroutr, model: x, api_key: "${KEY}"}
  slow: {model: y, api_key: "${NOPE}", temperature: 9}
  other: {model: z}
mcp_servers:
  k8s: {transport: {comand: npx}, summarization: {llm_provider: fats}}
  logs: {transport: {command: x}}
agents:
  one:
    mcp_servers: [k8, logs]
    controler: react
    fallbacks: [slwo]
  two:
chains:
  a:
    alert_types: [X, Y]
    stages: [{name: s, agent: oen}, {name: on}]
  b: {alert_types: [Y], stages: []}
defaults: {llm_provider: fst, alert_type: Z}
queue:
  lease: often
  max_pendng: 3
auth: {tokens: [{name: a, sha256: hunter2}]}
store: {keep_days: 0}
agent: {}
x-anchors: {anything: goes}
"""
    found = mistakes(tmp_path, text, KEY="sk-canary", TERSELY_PORT="high", TERSELY_SUMMARIZATION_PROVIDER="fastt")

    assert [": ".join(line.split(": ")[:2]) for line in found[:-2]] == [
        "tersely.yaml:2: llm_providers.fast.type",
        "tersely.yaml:3: llm_providers.slow.api_key",
        "tersely.yaml:3: llm_providers.slow.temperature",
        "tersely.yaml:4: llm_providers.other.api_key",
        "tersely.yaml:6: mcp_servers.k8s.transport.comand",
        "tersely.yaml:6: mcp_servers.k8s.summarization.llm_provider",
        "tersely.yaml:10: agents.one.mcp_servers[0]",
        "tersely.yaml:11: agents.one.controler",
        "tersely.yaml:12: agents.one.fallbacks[0]",
        "tersely.yaml:17: chains.a.stages[0].agent",
        "tersely.yaml:17: chains.a.stages[1].name",
        "tersely.yaml:17: chains.a.stages[1].agent",
        "tersely.yaml:18: chains.b.alert_types[0]",
        "tersely.yaml:18: chains.b.stages",
        "tersely.yaml:19: defaults.llm_provider",
        "tersely.yaml:19: defaults.alert_type",
        "tersely.yaml:21: queue.lease",
        "tersely.yaml:22: queue.max_pendng",
        "tersely.yaml:23: auth.tokens[0].sha256",
        "tersely.yaml:24: store.keep_days",
        "tersely.yaml:25: agent",
    ]
    assert found[-2].startswith(
        "TERSELY_SUMMARIZATION_PROVIDER='fastt': there is no provider of this name; did you mean 'fast'?"
    )
    assert found[-1].startswith("TERSELY_PORT='high': should be a valid integer")
    said = "\n".join(found)
    assert (
        said.count("did you mean") >= 8
        and "'Y' already belongs to the chain 'a'" in said
        and "put it in quotes" in said
    )
    assert "canary" not in said and "hunter2" not in said


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("- a\n- b\n", "tersely.yaml:1: must be a mapping of model, summarizer"),
        ("agents: 5\n", "tersely.yaml:1: agents: should be a mapping (is 5)"),
        ("queue: soon\n", "tersely.yaml:1: queue: should be a mapping"),
        ("mcp_servers: []\n", "tersely.yaml:1: mcp_servers: must be a mapping of server names"),
        ("agents: {a: , b: }\n", "chains: is missing: there are several agents (a, b)"),
        (
            "llm_providers:\n  a: {model: x, base_url: 'http://a'}\n  b: {model: x, base_url: 'http://b'}\n",
            "defaults.llm_provider: is missing: there are several providers (a, b)",
        ),
        (
            "chains: {a: {alert_types: [x], stages: [{name: s, agent: a}, {name: s, agent: a}]}}\nagents: {a: }\n",
            "two stages are called 's'",
        ),
        (
            "summarizer: {chunk_size: 300}\n",
            "tersely.yaml:1: summarizer: DEFAULT_CHUNK_OVERLAP_TOKENS (500) must be smaller",
        ),
        ("auth: {trusted_proxies: {addresses: [proxy.local]}}\n", "'proxy.local' is neither an address nor a network"),
        (
            "llm_providers: {a: {model: x, base_url: localhost}}\n",
            "must be an address such as http://localhost:11434/v1",
        ),
    ],
)
def test_what_cannot_be_is_explained(tmp_path: Path, text: str, says: str) -> None:
    assert says in "\n".join(mistakes(tmp_path, text))


def test_keys_with_nothing_behind_them_and_an_empty_file_are_as_good_as_none(tmp_path: Path) -> None:
    assert Settings.load({}, written(tmp_path, "")) == Settings.load({})
    bare = written(tmp_path, "agents:\nqueue:\n  lease:\nstore: {database_url: '${NOBODY:-}'}\nup:\n")
    assert Settings.load({}, bare) == Settings.load({})


def test_a_key_in_the_environment_goes_only_to_the_provider_it_is_for(tmp_path: Path) -> None:
    text = """\
llm_providers:
  theirs: {model: x}
  mine: {model: x, base_url: "http://localhost:1/v1"}
  claude: {type: anthropic, model: c}
defaults: {llm_provider: theirs}
"""
    environment = {"OPENROUTER_API_KEY": "sk-or", "ANTHROPIC_API_KEY": "sk-ant"}
    providers = Settings.load(environment, written(tmp_path, text)).llm_providers

    assert [provider.spec().api_key for provider in providers.values()] == ["sk-or", None, "sk-ant"]
    assert list(providers) == ["theirs", "mine", "claude"], "a key that lies around makes no provider of its own"
    beside = Settings.load({**environment, "LLM_MODEL": "a/b"}, written(tmp_path, text))
    assert beside.llm_providers["default"].model == "a/b", "a model that was asked for does"
    assert beside.defaults.llm_provider == "theirs"


def test_a_command_that_needs_part_of_the_file_ignores_errors_in_the_rest(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        "store: {keep_days: 3}\nagents: {a: {mcp_servers: [nobody]}}\nqueue: {lease: never}\nup: {host: '${UNSET}'}\n",
    )

    assert Settings.load({"TERSELY_PORT": "high"}, file, sections=("store",)).store.keep_days == 3
    with pytest.raises(ConfigError):
        Settings.load({}, file)


def test_the_file_is_the_one_that_was_named_else_the_one_here_else_the_users_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("TERSELY_CONFIG", raising=False)
    assert find_file() is None
    user_file().parent.mkdir(parents=True)
    user_file().touch()
    assert find_file() == user_file()
    Path("tersely.yaml").touch()
    assert find_file() == Path("tersely.yaml")
    assert find_file(environment={"TERSELY_CONFIG": "other.yaml"}) == Path("other.yaml")
    assert find_file(Path("named.yaml"), {"TERSELY_CONFIG": "other.yaml"}) == Path("named.yaml")
    with pytest.raises(ConfigError, match=r"named\.yaml: cannot be read: No such file"):
        Settings.load({}, Path("named.yaml"))


def test_tokens_can_come_from_a_variable() -> None:
    settings = Settings.load(
        {
            "TERSELY_AUTH_TOKENS": f"ci:{'A' * 64}:submit, ops:{'b' * 64}:read+admin",
            "TERSELY_TRUSTED_PROXIES": "::1,10.0.0.0/8",
        }
    )

    assert [(token.name, token.sha256[0], token.scopes) for token in settings.auth.tokens] == [
        ("ci", "a", ("submit",)),
        ("ops", "b", ("read", "admin")),
    ]
    assert settings.auth.trusted_proxies.addresses == ("::1", "10.0.0.0/8")
    with pytest.raises(ConfigError) as wrong:
        Settings.load({"TERSELY_AUTH_TOKENS": "ci:the-token-itself:submit"})
    assert "TERSELY_AUTH_TOKENS" in str(wrong.value) and "the-token-itself" not in str(wrong.value)


def test_native_tools_are_merged_without_changing_their_sources() -> None:
    provider, agent, alert = (
        NativeTools(google_search=True, url_context=True),
        NativeTools(google_search=False),
        NativeTools(url_context=False),
    )

    assert alert.over(agent.over(provider)) == NativeTools(google_search=False, url_context=False)
    assert provider.enabled() == ("google_search", "url_context")


@pytest.mark.parametrize(
    ("agents", "reason"),
    [
        ("{a: {sub_agents: [b]}, b: {sub_agents: [{name: a}]}}", r"agents.a.sub_agents: .*would ask itself: a → b → a"),
        ("{a: {sub_agents: [a]}}", "agents.a.sub_agents: .*ask itself: a → a"),
        ("{a: {sub_agents: [bee]}, beet: {}}", r"agents.a.sub_agents\[0\]: .*no agent.*beet"),
        ("{a: {sub_agents: [b]}, b: {sub_agents: [c]}, c: {sub_agents: [d]}, d: {sub_agents: [e]}, e: {}}", "levels"),
        ("{a: {budget: {tokens: 0}}}", "agents.a.budget.tokens"),
        ("{a: {budget: {seconds: 0}}}", "agents.a.budget.seconds"),
    ],
)
def test_sub_agents_and_budgets_that_cannot_work_are_reported_with_their_line(
    tmp_path: Path, agents: str, reason: str
) -> None:
    chains = "chains: {x: {alert_types: [x], stages: [{name: s, agent: a}]}}"
    with pytest.raises(ConfigError, match=f"tersely.yaml:1: .*{reason}|{reason}"):
        Settings.load({}, written(tmp_path, f"agents: {agents}\n{chains}\n"))


@pytest.mark.parametrize(
    ("stage", "reason"),
    [
        ("{name: s, agents: [one, tow], synthesis: {agent: two}}", r"agents\[1\]: .*no agent.*two"),
        ("{name: s, agents: [{name: oen, llm_backend: langchain}]}", r"agents\[0\].name: .*no agent.*one"),
        ("{name: s, agent: one, agents: [two]}", "either `agent` or `agents`"),
        ("{name: s, agents: [one, two], replicas: 2}", "repeats one agent"),
        ("{name: s, agent: one, replicas: 0}", "replicas"),
        ("{name: s, agent: one, success_policy: most}", "success_policy"),
    ],
)
def test_a_stage_whose_agents_cannot_work_is_reported(tmp_path: Path, stage: str, reason: str) -> None:
    text = f"agents: {{one: {{}}, two: {{}}}}\nchains: {{x: {{alert_types: [x], stages: [{stage}]}}}}\n"
    with pytest.raises(ConfigError, match=f"tersely.yaml:2: chains.x.stages.*{reason}"):
        Settings.load({}, written(tmp_path, text))
