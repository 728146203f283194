"""A configuration of TARSy becomes one that `config check` accepts; what has no counterpart is named."""

import os
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from tersely.cli import main
from tersely.errors import ConfigError
from tersely.settings.model import Settings
from tersely.settings.tarsy import import_tarsy, is_tarsy

TARSY = """
queue: {worker_count: 5, max_concurrent_sessions: 5, poll_interval: 1s, session_timeout: 1h30m}
system:
  dashboard_url: "https://tarsy.example.com"
  runbooks: {repo_url: "https://github.com/org/repo/tree/main/runbooks"}
  slack: {enabled: true, token_env: SLACK_BOT_TOKEN, channel: C12345678}
  cost_estimation: {enabled: true, model_rates: {grok-4: {input_per_million: 2.0, output_per_million: 12.0}}}
  retention: {session_retention_days: 365, event_ttl: 1h}
defaults:
  llm_provider: google-default
  max_iterations: 20
  llm_backend: langchain
  success_policy: any
  alert_type: kubernetes
  alert_masking: {enabled: true, pattern_group: security}
  memory: {enabled: false}
mcp_servers:
  argocd-server:
    transport: {type: stdio, command: npx, args: [argocd, --auth-token, "{{.ARGOCD_TOKEN}}", "literal ${HOME}"]}
    data_masking: {enabled: true, pattern_groups: [kubernetes], patterns: [email],
      custom_patterns: [{pattern: 'CUSTOM_.*', replacement: x, description: y}]}
    summarization: {size_threshold_tokens: 3000, llm_provider: grok, llm_backend: langchain}
  cli-mcp-server:
    transport:
      type: http
      url: https://cli-mcp-server:8443/mcp
      bearer_token: "{{.CLI_TOKEN}}"
      timeout: 90
      verify_ssl: false
      custom_headers: {X-Session-ID: "{{.SESSION_ID}}", X-Team: ops}
      session_cleanup_url: "https://cli-mcp-server:8443/sessions/{{.SESSION_ID}}"
agents:
  security-agent: {mcp_servers: [argocd-server], llm_backend: langchain, custom_instructions: Be careful.}
agent_chains:
  one: {alert_types: [Crash], llm_provider: azure, scoring: {enabled: true}, chat: {enabled: true},
    stages: [{name: look, agents: [{name: KubernetesAgent, llm_backend: google-native, max_iterations: 15}]}]}
  many:
    alert_types: [Many]
    stages:
      - name: look
        agents: [{name: security-agent, llm_provider: vertex}, {name: KubernetesAgent, max_iterations: 3}]
        synthesis: {agent: SynthesisAgent, llm_backend: google-native}
  asks:
    alert_types: [Asks]
    sub_agents: [GeneralWorker]
    stages:
      - name: look
        agents:
          - name: KubernetesAgent
            orchestrator: {max_concurrent_agents: 5, agent_timeout: 7m, max_budget: 900s}
            sub_agents: [KubernetesAgent, {name: GeneralWorker, mcp_servers: [kubernetes-server], max_iterations: 5}]
      - {name: close, agents: [{name: security-agent}]}
  twice: {alert_types: [Twice], stages: [{name: look, agents: [{name: security-agent}], replicas: 2}]}
"""
PROVIDERS = """
llm_providers:
  grok: {type: xai, model: grok-4, api_key_env: XAI_API_KEY}
  vertex: {type: vertexai, model: claude-sonnet-5, project_env: GCP_PROJECT, location_env: GCP_LOCATION}
  azure: {type: openai, model: o4-mini, api_key_env: AZURE_OPENAI_KEY,
    base_url: "https://r.openai.azure.com/openai/deployments/d"}
  unused: {type: anthropic, model: claude-haiku-4-5, api_key_env: ANTHROPIC_API_KEY}
"""
ENVIRONMENT = {
    **dict.fromkeys(("ARGOCD_TOKEN", "CLI_TOKEN", "KUBECONFIG", "SLACK_BOT_TOKEN"), "x"),
    **dict.fromkeys(("XAI_API_KEY", "AZURE_OPENAI_KEY", "GOOGLE_API_KEY"), "k"),
    **{"GCP_PROJECT": "shop", "GCP_LOCATION": "global"},
}


def test_a_configuration_of_tarsy_is_translated_and_accepted(tmp_path: Path) -> None:
    (tmp_path / "tarsy.yaml.example").write_text(TARSY)
    (tmp_path / "llm-providers.yaml.example").write_text(PROVIDERS)
    made = tmp_path / "made" / "tersely.yaml"
    made.parent.mkdir()
    done = CliRunner().invoke(main, ["config", "init", str(made), "--from", str(tmp_path / "tarsy.yaml.example")])
    assert done.exit_code == 0, done.output
    settings = Settings.load(ENVIRONMENT, made)

    one, many, twice = (settings.chains[name].stages[0] for name in ("one", "many", "twice"))
    assert (one.agent, one.max_iterations, one.llm_provider) == ("KubernetesAgent", 15, "azure")
    assert [agent.name for agent in many.agents] == ["security-agent", "KubernetesAgent"]
    assert (many.agents[0].llm_provider, many.synthesis.agent) == ("vertex", "SynthesisAgent")
    assert (twice.agent, twice.replicas) == ("security-agent", 2)
    look, close = settings.chains["asks"].stages
    boss, plain = settings.agents[look.agent or ""], settings.agents[close.agent or ""]
    assert (look.agent, boss.mcp_servers, boss.budget.seconds) == (
        "KubernetesAgent-orchestrator", ("kubernetes-server",), 900,
    )  # fmt: skip
    assert boss.sub_agents == ("KubernetesAgent-sub-agent", "GeneralWorker-sub-agent")
    worker = settings.agents["GeneralWorker-sub-agent"]
    assert (worker.mcp_servers, worker.max_iterations, worker.budget.seconds) == (("kubernetes-server",), 5, 420)
    assert plain.sub_agents == ("GeneralWorker",) and plain.instructions == "Be careful.", "those of the chain"
    assert not settings.agents["security-agent"].sub_agents
    assert settings.chains["kubernetes"].alert_types == ("kubernetes",), "built in, and the default type is its"
    assert settings.agents["security-agent"].instructions == "Be careful."
    assert settings.agents["KubernetesAgent"].mcp_servers == ("kubernetes-server",)
    providers = settings.llm_providers
    assert sorted(providers) == ["azure", "google-default", "grok", "vertex"]
    assert providers["azure"].type == "azure" and providers["vertex"].project == "shop"
    assert (providers["grok"].input_price, providers["grok"].output_price) == (Decimal(2), Decimal(12))
    argocd, shell = settings.mcp_servers["argocd-server"], settings.mcp_servers["cli-mcp-server"]
    assert argocd.transport.args[2:] == ("x", "literal ${HOME}") and argocd.summarization.llm_provider == "grok"
    assert set(argocd.data_masking.custom_patterns) == {"email", "custom_1"}
    assert shell.timeout == 90 and not shell.transport.verify_tls and list(shell.transport.headers) == ["X-Team"]
    assert (settings.slack.channel, settings.up.public_url) == ("C12345678", "https://tarsy.example.com")
    assert (settings.queue.session_timeout, settings.retention.sessions_days) == (5_400, 365)

    for missing in (
        "custom_headers.X-Session-ID: differs for each execution",
        "transport.session_cleanup_url: has no counterpart",
        "chains.one.scoring: has no counterpart",
        "orchestrator.max_concurrent_agents: tasks that one answer hands out run at once",
        "defaults.memory: has no counterpart",
        "system.runbooks",
        "nothing uses them: unused",
        "certificates are not checked",
    ):
        assert missing in done.output and missing in made.read_text(), missing
    assert "GCP_PROJECT" in done.output and "ARGOCD_TOKEN" in done.output


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("agent_chains: {c: {alert_types: [x], stages: [{name: s, agents: [{name: KubernetsAgent}]}]}}",
         "agents.KubernetsAgent: is not declared; did you mean 'KubernetesAgent'?"),
        ("agent_chains: {}\ndefaults: {llm_provider: google-defalt}",
         "llm_providers.google-defalt: is not declared; did you mean 'google-default'?"),
        ("agent_chains: {}\nmcp_servers: {a: {transport: {type: http}}}", "mcp_servers.a.transport: left out: needs"),
        ("defaults: {llm_backend: langchain}", "chains.kubernetes: a built-in chain of TARSy was added"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_it_is_named(text: str, note: str) -> None:
    data: Any = yaml.safe_load(text)
    assert is_tarsy(data)
    assert any(note in one for one in import_tarsy(data).notes), import_tarsy(data).notes


def test_other_files_are_not_taken_for_it_and_other_shapes_are_refused() -> None:
    for text in ("mcpServers: {}", "agents: {a: {instructions: x}}\nchains: {}", "[]", "mcp_servers: {}"):
        assert not is_tarsy(yaml.safe_load(text))
    with pytest.raises(ConfigError, match=r"agents\.a is not a mapping"):
        import_tarsy({"agents": {"a": "x"}, "agent_chains": {}})


KEYS = ("GOOGLE_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "XAI_API_KEY")


def _their_files() -> Path | None:
    """TARSy's own files, in a clone that `TERSELY_TEST_TARSY` names; they are not copied here."""
    named = os.environ.get("TERSELY_TEST_TARSY")
    return Path(named) if named else None


@pytest.mark.skipif(_their_files() is None, reason="TERSELY_TEST_TARSY names no clone of codeready-toolchain/tarsy")
def test_the_public_example_files_are_translated_and_accepted(tmp_path: Path) -> None:
    """Its four example files, and the configurations of its own tests, which use every key."""
    clone = _their_files()
    assert clone is not None
    found = [*clone.glob("deploy/config/tarsy.yaml.*"), *clone.glob("test/e2e/testdata/configs/*/tarsy.yaml")]
    assert len(found) > 20
    refused = []
    for number, file in enumerate(sorted(found)):
        made = tmp_path / f"{number}.yaml"
        done = CliRunner().invoke(main, ["config", "init", str(made), "--from", str(file)])
        assert done.exit_code == 0, (file, done.output)
        data: Any = yaml.safe_load(file.read_text())
        providers = file.with_name(file.name.replace("tarsy.yaml", "llm-providers.yaml"))
        imported = import_tarsy(data, yaml.safe_load(providers.read_text()) if providers.exists() else None)
        environment = dict.fromkeys((*imported.variables, *KEYS), "http://x.invalid")
        settings = Settings.load(environment, made)
        assert settings.chains.keys() >= (data.get("agent_chains") or {}).keys(), file
        asking = [agent for agent in settings.agents.values() if agent.sub_agents]
        assert bool(asking) == ("sub_agents:" in re.sub(r"(?m)^\s*#.*", "", file.read_text())), file
        refused += [f"{file.parent.name}: {note}" for note in imported.notes if ": left out: " in note]
    assert refused == [], "nothing of it is invalid here"
