"""`tersely config`, as a person meets it: real processes, real files."""

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
import yaml

from tersely.settings.model import Settings

pytestmark = pytest.mark.process

DOCS = Path(__file__).parents[1] / "docs" / "reference"
OURS = ("OPENROUTER_", "OPENAI_", "ANTHROPIC_", "GOOGLE_", "LLM_", "TERSELY_", "DEFAULT_", "MCP_")


def tersely(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command in a folder of its own, with none of our settings but those given."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    clean |= {"XDG_CONFIG_HOME": str(folder / "config"), "TERSELY_DATA_DIR": str(folder / "data")}
    command = [sys.executable, "-m", "tersely", *arguments]
    return subprocess.run(
        command, cwd=folder, env={**clean, **environment}, capture_output=True, text=True, check=False, timeout=300
    )


def without_comment_signs(starter: str) -> str:
    """The starter with everything in it taken into use: `#key` is a key, `# text` is a text."""
    return re.sub(r"^#(?! \S|$)", "", starter, flags=re.MULTILINE)


def test_a_first_file_is_fine_as_it_is_and_with_everything_taken_into_use(tmp_path: Path) -> None:
    done = tersely(tmp_path, "config", "init")
    assert done.returncode == 0 and "tersely.yaml" in done.stdout
    path = tmp_path / "tersely.yaml"
    checked = tersely(tmp_path, "config", "check")
    assert checked.returncode == 0 and "✓ tersely.yaml is valid." in checked.stdout and "no model" in checked.stdout

    path.write_text(without_comment_signs(path.read_text(encoding="utf-8")), encoding="utf-8")
    used = {
        "OPENROUTER_API_KEY": "sk-canary",
        "ALERTMANAGER_TOKEN_SHA256": "0" * 64,
        "TERSELY_DATABASE_URL": "sqlite:///canary.db",
    }
    checked = tersely(tmp_path, "config", "check", **used)
    assert checked.returncode == 0, checked.stderr
    assert {
        "llm_providers",
        "mcp_servers",
        "agents",
        "chains",
        "defaults",
        "up",
        "auth",
        "queue",
        "store",
        "retention",
    } <= set(yaml.safe_load(path.read_text(encoding="utf-8")))
    for said in (
        "openrouter openai/gpt-4o-mini, 128,000 tokens (default)",
        "npx -y kubernetes-mcp-server",
        "investigation (first-look)",
    ):
        assert said in checked.stdout
    assert "canary" not in checked.stdout


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "tersely.yaml"
    path.write_text("queue: {lease: 9}\n", encoding="utf-8")

    done = tersely(tmp_path, "config", "init")

    assert done.returncode == 2 and "already exists" in done.stderr
    assert path.read_text(encoding="utf-8") == "queue: {lease: 9}\n"


def test_the_servers_of_a_clients_file_are_taken_over_with_their_variables_unfilled(tmp_path: Path) -> None:
    (tmp_path / "mcp.json").write_text(
        '{"mcpServers": {"git": {"command": "mcp-server-git", "args": ["${REPO}"], "env": {"KEY": "${GIT_KEY}"}, '
        '"alwaysAllow": ["x"]},'
        ' "search": {"type": "streamable-http", "url": "http://localhost:9000/mcp", "disabled": true}}}',
        encoding="utf-8",
    )

    done = tersely(tmp_path, "config", "init", "--from", "mcp.json", REPO="/secret/repo", GIT_KEY="canary")

    assert done.returncode == 0 and "2 servers of mcp.json" in done.stdout
    path = tmp_path / "tersely.yaml"
    text = path.read_text(encoding="utf-8")
    assert "${REPO}" in text and "canary" not in text and path.stat().st_mode & 0o077 == 0
    settings = Settings.load({"REPO": "/r", "GIT_KEY": "k"}, path)
    assert settings.mcp_servers["git"].transport.args == ("/r",) and settings.mcp_servers["search"].disabled
    assert settings.agents["default"].mcp_servers == ("git",), "a disabled server is nobody's"


VSCODE = """{
  // asked for once, and stored by the editor
  "inputs": [
    {"type": "promptString", "id": "github-token", "description": "GitHub token", "password": true},
    {"type": "pickString", "id": "region", "options": ["eu", "us"], "default": "eu"},
  ],
  "servers": {
    "github": {"url": "https://a.test/mcp", "headers": {"Authorization": "Bearer ${input:github-token}"}},
    "files": {"command": "npx", "args": ["-y", "server", "${workspaceFolder}/src", "--region=${input:region}"],
              "env": {"KEY": "${env:FILES_KEY}", "PASSWORD": "hunter2hunter2"}, "envFile": "${workspaceFolder}/.env",
              "dev": {"watch": "src/**"}, "sandboxEnabled": true, "gallery": true},
    "odd": {"command": "x", "args": ["${command:extension.pick}"]},
    "broken": {"type": "http", "command": "x"}, /* a mistake */
  },
}"""


def test_a_file_of_vs_code_becomes_one_that_check_accepts(tmp_path: Path) -> None:
    (tmp_path / ".vscode").mkdir()
    (tmp_path / ".vscode" / "mcp.json").write_text(VSCODE, encoding="utf-8")
    (tmp_path / ".env").write_text("# keys\nexport DB_URL=postgres://x\n", encoding="utf-8")

    done = tersely(tmp_path, "config", "init", "--from", ".vscode/mcp.json")

    assert done.returncode == 0 and "3 servers of" in done.stdout, done.stderr
    for words in (
        "files: env.PASSWORD contains a secret",
        "files: not taken over: sandboxEnabled",
        "odd: disabled: only the client can resolve ${command:extension.pick}",
        "broken: left out: transport: type http needs a url, not a command",
        "GITHUB_TOKEN  GitHub token",
        "  FILES_KEY",
        f"DB_URL  in {tmp_path}/.env, which is not read here",
    ):
        assert words in done.stdout, done.stdout
    assert "hunter2" not in done.stdout
    checked = tersely(tmp_path, "config", "check")
    assert checked.returncode == 0, checked.stderr
    servers = Settings.load({"GITHUB_TOKEN": "ghp_x", "FILES_KEY": "k"}, tmp_path / "tersely.yaml").mcp_servers
    files, github = servers["files"].transport, servers["github"].transport
    assert files.args == ("-y", "server", f"{tmp_path}/src", "--region=eu") and files.inherit_env == ("DB_URL",)
    assert github.headers["Authorization"].get_secret_value() == "Bearer ghp_x" and servers["odd"].disabled


def test_check_lists_every_mistake_and_fails(tmp_path: Path) -> None:
    (tmp_path / "tersely.yaml").write_text(
        "agents:\n  a: {mcp_server: []}\nqueue: {lease: '${SECRET}'}\nchain: {}\n"
        "llm_provider: {main: {model: '${UNSET}'}}\nmcp_servers: {box: {transport: {comand: '${UNSET}'}}}\n",
        encoding="utf-8",
    )

    done = tersely(tmp_path, "config", "check", SECRET="canary")

    assert done.returncode == 2 and done.stdout == ""
    *lines, total = done.stderr.strip().splitlines()
    assert [line.split(": ")[0] for line in lines] == [f"tersely.yaml:{number}" for number in (2, 3, 4, 5, 5, 6, 6)]
    assert "did you mean 'mcp_servers'?" in lines[0] and total == "7 mistakes."
    assert "did you mean 'llm_providers'?" in lines[4], "also if its value needs a variable"
    assert any("did you mean 'command'?" in line for line in lines[5:])
    assert "canary" not in done.stderr and "Traceback" not in done.stderr


def test_a_file_of_variables_is_read_and_its_values_say_so(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("export OPENROUTER_API_KEY='sk-canary' # mine\nLLM_MODEL: x\nTERSELY_PORT=8111\n")
    checked = tersely(tmp_path, "config", "check", TERSELY_PORT="8112")
    assert "openrouter" in checked.stdout and "127.0.0.1:8112" in checked.stdout, checked.stderr
    assert f"1 variable of {tmp_path / '.env'}; not read as NAME=value: line 2" in checked.stdout
    shown = tersely(tmp_path, "config", "show")
    assert "# .env TERSELY_PORT" in shown.stdout and "canary" not in shown.stdout + checked.stdout
    other = tersely(tmp_path, "config", "show", TERSELY_ENV_FILE=os.devnull)
    assert "TERSELY_PORT" not in other.stdout
    missing = tersely(tmp_path, "config", "check", TERSELY_ENV_FILE="gone.env")
    assert missing.returncode == 2 and "gone.env: cannot be read" in missing.stderr


def test_show_says_where_every_value_comes_from_and_shows_no_secret(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(
        """\
llm_providers:
  main: {model: x, api_key: "${KEY}"}
mcp_servers:
  git:
    transport: {command: git-mcp, args: [--token, "${KEY}", --password=hunter2canary], env: {A: canary}}
store: {database_url: "postgresql://u:canary@host/db"}
queue:
  lease: 12
""",
        encoding="utf-8",
    )
    environment = {"KEY": "sk-canary", "TERSELY_PORT": "8010", "TERSELY_WEBHOOK_SECRET": "canary"}

    shown = tersely(tmp_path, "config", "show", "--config", "mine.yaml", **environment)
    told = tersely(tmp_path, "config", "show", "--all", "--json", TERSELY_CONFIG="mine.yaml", **environment)

    assert shown.returncode == 0 and told.returncode == 0
    assert "canary" not in shown.stdout + told.stdout
    by_key: dict[str, Any] = json.loads(told.stdout)
    assert by_key["queue.lease"] == {"value": 12, "source": "mine.yaml:8"}
    assert by_key["queue.poll"] == {"value": 0.1, "source": "built in"}
    assert by_key["up.port"] == {"value": 8010, "source": "environment TERSELY_PORT"}
    assert by_key["llm_providers.main.api_key"] == {"value": "***", "source": "mine.yaml:2"}
    assert by_key["defaults.llm_provider"] == {"value": "main", "source": "the only provider"}
    assert by_key["agents.default.mcp_servers"] == {"value": ["git"], "source": "all servers"}
    assert by_key["mcp_servers.git.timeout"]["source"] == "built in"
    assert re.search(r"^  lease: 12 +# mine\.yaml:8$", shown.stdout, re.MULTILINE)
    assert "timeout: 60" not in shown.stdout, "what is built in for every server is for --all"


def test_a_token_is_printed_once_and_its_entry_grants_access(tmp_path: Path) -> None:
    done = tersely(tmp_path, "config", "token", "ci", "--scope", "submit")

    token = done.stdout.strip()
    digest = hashlib.sha256(token.encode()).hexdigest()
    assert len(token) > 40 and token not in done.stderr
    entry = done.stderr.split("In tersely.yaml:\n")[1].split("\n\n")[0]
    variable = done.stderr.split("TERSELY_AUTH_TOKENS=")[1].strip()
    path = tmp_path / "tersely.yaml"
    path.write_text(entry, encoding="utf-8")
    for settings in (Settings.load({}, path), Settings.load({"TERSELY_AUTH_TOKENS": variable})):
        assert [(one.name, one.sha256, one.scopes) for one in settings.auth.tokens] == [("ci", digest, ("submit",))]
    assert tersely(tmp_path, "config", "token", "ci").stdout.strip() != token
    assert tersely(tmp_path, "config", "token", "a:b").returncode == 2


def test_other_commands_read_their_part_of_the_same_file(tmp_path: Path) -> None:
    (tmp_path / "tersely.yaml").write_text(
        f"store: {{database_url: 'sqlite:///{tmp_path}/mine.db'}}\nagents: {{a: {{wrong: 1}}}}\n", encoding="utf-8"
    )

    done = tersely(tmp_path, "migrate")

    assert done.returncode == 0, done.stderr
    assert (tmp_path / "mine.db").exists()
    wrong = tersely(tmp_path, "serve", "--config", "nowhere.yaml")
    assert wrong.returncode == 2 and "nowhere.yaml: cannot be read: No such file" in wrong.stderr


def test_the_published_schema_is_that_of_the_code(tmp_path: Path) -> None:
    made = tersely(tmp_path, "config", "schema").stdout
    published = (DOCS / "tersely.schema.json").read_text(encoding="utf-8")
    assert json.loads(made) == json.loads(published), "run: tersely config schema > docs/reference/tersely.schema.json"


@pytest.fixture(scope="module")
def schema() -> Any:
    return json.loads((DOCS / "tersely.schema.json").read_text(encoding="utf-8"))


def test_an_editor_accepts_the_examples_and_what_our_reader_accepts(schema: Any) -> None:
    example = (DOCS / "configuration.md").read_text(encoding="utf-8").split("```yaml\n")[1].split("```")[0]
    servers = (DOCS / "servers.md").read_text(encoding="utf-8").split("```yaml\n")[1].split("```")[0]
    starter = without_comment_signs(
        (Path(__file__).parents[1] / "src/tersely/cli/starter.yaml").read_text(encoding="utf-8")
    )
    ours = """\
up: {port: "${PORT}"}
x-anchors: {a: 1}
defaults: {alert_masking: {pattern_groups: [tokens]}}
mcp_servers: {a: {transport: {command: x, args: [1]}, tools: [b]}}
"""
    for text in (example, servers, starter, ours):
        jsonschema.validate(yaml.safe_load(text), schema)


@pytest.mark.parametrize(
    "text", ["agnts: {}", "queue: {lease: often}", "agents: {a: {controller: reakt}}", "chains: {a: {stages: []}}"]
)
def test_an_editor_marks_what_our_reader_refuses(schema: Any, text: str) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(yaml.safe_load(text), schema)


def test_a_first_file_shows_the_summaries_of_a_server(tmp_path: Path) -> None:
    assert tersely(tmp_path, "config", "init").returncode == 0
    text = without_comment_signs((tmp_path / "tersely.yaml").read_text(encoding="utf-8"))
    servers = yaml.safe_load(text.replace("# Results", "## Results"))["mcp_servers"]
    keys = {"enabled", "size_threshold_tokens", "summary_max_token_limit"}
    assert set(servers["kubernetes"]["summarization"]) == keys and servers["files"]["summarization"] == {
        "enabled": False
    }


def test_native_tools_that_cannot_be_combined_are_reported_by_the_check(tmp_path: Path) -> None:
    native = {"native_tools": {"google_search": True}}
    provider = {"type": "google", "model": "gemini-2.5-flash", "api_key": "k", **native}
    agents = {
        "both": {"mcp_servers": ["ops"]},
        "alone": {"mcp_servers": []},
        "reasoning": {"mcp_servers": ["ops"], "controller": "react"},
    }
    servers = {"ops": {"transport": {"command": "ops"}}}
    settings = {"llm_providers": {"g": provider}, "defaults": {"llm_provider": "g"}, "mcp_servers": servers}
    chains = {"c": {"alert_types": ["a"], "stages": [{"name": "s", "agent": "both"}]}}
    (tmp_path / "tersely.yaml").write_text(json.dumps({**settings, "agents": agents, "chains": chains}))
    checked = tersely(tmp_path, "config", "check")
    assert checked.returncode == 0, checked.stderr
    section = checked.stdout.partition("Native tools that are not sent")[2].partition("\n\n")[0]
    assert "both" in section and "google_search" in section and "controller: react" in section
    assert "alone" not in section and "reasoning" not in section
