"""Files of clients that do not write JSON as Claude Desktop does: TOML, YAML, one list for command and arguments."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tersely.errors import ConfigError
from tersely.settings.client_files import Route, plan_routing, plan_undoing
from tersely.settings.client_programs import CLIENTS
from tersely.settings.files import parse_json

ROUTE = Route(["/opt/tersely"], ["EXTRA"])

CODEX = '''# my settings
model = "gpt-5.5"
notify = ["sh", "-c", "echo [not a table] # not a comment"]

[mcp_servers.git] # versions
command = "npx"   # node
args = [
  "-y", # yes
  'server-git',
]
env_vars = ["KUBECONFIG", { name = "OTHER", source = "local" }]
startup_timeout_sec = 20

[mcp_servers.git.env]
"TOKEN" = "hunter2hunter2"

[mcp_servers."bare one"]
command = 'C:\\tools\\server.exe'

[mcp_servers.docs]
url = "https://docs.test/mcp"
http_headers = { "X-Key" = "hunter2hunter2" }

[mcp_servers.open]
url = "https://open.test/mcp" # no headers
enabled = true

[mcp_servers]
inline = { command = "x", args = ["y"] }

[mcp_servers.signed]
url = "https://signed.test/mcp"
bearer_token_env_var = "TOKEN"

[[profiles]]
command = "not a server"

[projects."/home/me"]
trust_level = """
[mcp_servers.fake]
command = "no"
"""
'''

GOOSE = """# goose
GOOSE_MODEL: gpt
extensions:
  developer:
    bundled: true
    enabled: true
    type: builtin
    name: developer
  git:   # versions
    enabled: true
    type: stdio
    name: git
    cmd: npx
    args:
      - -y        # yes
      - '@org/server-git'
    envs:
      TOKEN: hunter2hunter2
    env_keys:
    - GITHUB_TOKEN
    timeout: 300
  flow: {type: stdio, name: flow, cmd: uvx, args: [server], enabled: true}
  bare:
    type: stdio
    cmd: /bin/server # no arguments
    enabled: true
  docs:
    type: streamable_http
    name: docs
    uri: https://docs.test/mcp
    headers:
      X-Key: hunter2hunter2
    timeout: 300
# the end
"""

OPENCODE = """{
  "$schema": "https://opencode.ai/config.json",
  "mcp": {
    // versions
    "git": {"type": "local", "command": ["npx", "-y", "server-git"], "enabled": true,
            "environment": {"TOKEN": "hunter2hunter2"}},
    "docs": {
      "type": "remote",
      "url": "https://docs.test/mcp", // docs
      "headers": {"X-Key": "hunter2hunter2"},
    },
    "signed": {"type": "remote", "url": "https://s.test/mcp", "oauth": false},
  },
}
"""
SECOND = OPENCODE.replace('"mcp": {', '"mcp": {"timeout": 5, "servers": {').replace("  },\n}\n", "  }},\n}\n")

ZED = """{
  // editor
  "theme": "One Dark",
  "context_servers": {
    "git": {"source": "custom", "command": "npx", "args": ["-y", "server-git"], "env": {"TOKEN": "hunter2hunter2"}},
    "docs": {"url": "https://docs.test/mcp", "headers": {"X-Key": "hunter2hunter2"}},
    "ext": {"settings": {"key": 1}},
  },
}
"""

GEMINI = """{
  "mcpServers": {
    "git": {"command": "npx", "args": ["-y", "server-git"], "env": {"TOKEN": "$MY_TOKEN"}, "trust": true},
    "docs": {"httpUrl": "https://docs.test/mcp", "headers": {"X-Key": "hunter2hunter2"}},
    "events": {"url": "http://localhost:1/sse"}
  }
}
"""

CLINE = """{
  "mcpServers": {
    "git": {"command": "npx", "args": ["-y", "server-git"], "env": {"TOKEN": "hunter2hunter2"},
            "disabled": false, "autoApprove": []},
    "docs": {"type": "streamableHttp", "url": "https://docs.test/mcp", "headers": {"X-Key": "hunter2hunter2"}}
  }
}
"""

JUNIE = (
    '{"mcpServers": {"git": {"command": "npx", "args": ["-y", "server-git"], "env": {"TOKEN": "hunter2hunter2"}}}}\n'
)

FILES = [
    ("codex", CODEX),
    ("codex", CODEX.replace("\n", "\r\n")),
    ("goose", GOOSE),
    ("opencode", OPENCODE),
    ("opencode", SECOND),
    ("zed", ZED),
    ("gemini-cli", GEMINI),
    ("cline", CLINE),
    ("jetbrains", JUNIE),
]


def servers(client: str, text: str) -> dict[str, Any]:
    if client == "codex":
        return dict(tomllib.loads(text)["mcp_servers"])
    if client == "goose":
        return dict(yaml.safe_load(text)["extensions"])
    data = parse_json(Path("f"), text).data
    if client == "opencode":
        return dict(data["mcp"].get("servers") or data["mcp"])
    return dict(data["context_servers" if client == "zed" else "mcpServers"])


def words(entry: dict[str, Any]) -> list[str]:
    command: Any = entry.get("command", entry.get("cmd"))
    return command if isinstance(command, list) else [command, *entry.get("args", [])]


@pytest.mark.parametrize(("name", "text"), FILES, ids=[f"{name}-{n}" for n, (name, _) in enumerate(FILES)])
def test_commands_and_addresses_are_routed_and_every_byte_comes_back(name: str, text: str) -> None:
    client, path = CLIENTS[name], Path("file")
    plan = plan_routing(client, path, text, ROUTE)
    before, after = servers(name, text), servers(name, plan.after)

    inherited = {"codex": ["TOKEN", "KUBECONFIG", "OTHER"], "goose": ["TOKEN", "GITHUB_TOKEN"]}.get(name, ["TOKEN"])
    named = [word for variable in (*inherited, "EXTRA") for word in ("--inherit-env", variable)]
    assert words(after["git"])[:4] == ["/opt/tersely", "gateway", "--name", "git"]
    assert words(after["git"])[4:] == [*named, "--", *words(before["git"])]
    assert {key: value for key, value in after["git"].items() if key not in ("command", "cmd", "args")} == {
        key: value for key, value in before["git"].items() if key not in ("command", "cmd", "args")
    }
    if "docs" in after:
        env = after["docs"][client.keys.env]
        assert list(env.values()) == ["hunter2hunter2"] and list(env) == ["TERSELY_HEADER_X_KEY"]
        assert words(after["docs"])[4:] == [
            "--upstream", "https://docs.test/mcp", "--header-from", "X-Key=TERSELY_HEADER_X_KEY",
        ]  # fmt: skip
        assert after["docs"].get("type") in (None, client.keys.stdio)
    # Comments stay, nothing else changes, and no secret is shown.
    for line in text.splitlines():
        if "#" in line or ("//" in line and "http" not in line):
            comment = line[max(line.find("#"), line.find("//")) :]
            assert comment in plan.after
    for other in set(before) - set(plan.changed):
        assert after[other] == before[other]
    assert "hunter2" not in "\n".join(plan.diff())
    assert plan_routing(client, path, plan.after, ROUTE).after == plan.after, "a second time changes nothing"
    more = plan_routing(client, path, plan.after, Route(["/opt/tersely"], ["MORE"])).after
    assert words(servers(name, more)["git"])[-len(words(before["git"])) - 3 :][:3] == ["--inherit-env", "MORE", "--"]

    assert plan_undoing(client, path, plan.after, text).after == text
    by_hand = {
        "codex": ("[mcp_servers.git]", "[mcp_servers.git]\nmine = 1 # by hand"),
        "goose": ("git:   # versions\n", "git:   # versions\n    mine: 1 # by hand\n"),
    }.get(name, ('"git": {', '"git": {"mine": 1, '))
    for backup in (text, None):
        edited = plan_undoing(client, path, plan.after.replace(*by_hand), backup).after
        assert servers(name, edited)["git"] == {**before["git"], "mine": 1}
        assert by_hand[1] in edited, "what was added by hand since stays"
    restored = servers(name, plan_undoing(client, path, plan.after, None).after)
    for one, entry in restored.items():
        if (name, one) != ("gemini-cli", "events"):  # its address has another name without the copy
            assert {**entry, "args": entry.get("args") or []} == {**before[one], "args": before[one].get("args") or []}


def test_what_only_the_client_can_do_is_left_alone() -> None:
    left = {name: dict(plan_routing(CLIENTS[name], Path("f"), text, ROUTE).left) for name, text in FILES}
    assert "bearer_token_env_var" in left["codex"]["signed"]
    assert left["goose"] == {"developer": "has no command and no address"}
    assert "oauth" in left["opencode"]["signed"] and "no command" in left["zed"]["ext"]
    scattered = '[mcp_servers.a]\ncommand = "x"\n[other]\nb = 1\n[mcp_servers.a.env]\nT = "1"\n'
    assert plan_routing(CLIENTS["codex"], Path("f"), scattered, ROUTE).after == scattered.replace(
        'command = "x"',
        'command = "/opt/tersely"\nargs = ["gateway", "--name", "a", "--inherit-env", "T", "--inherit-env", "EXTRA", '
        '"--", "x"]',
    )
    alias = "x: &x [a]\nextensions:\n  it: {type: stdio, cmd: npx, args: *x}\n"
    assert "cannot be edited safely" in plan_routing(CLIENTS["goose"], Path("f"), alias, ROUTE).left[0][1]
    sse = servers("gemini-cli", plan_routing(CLIENTS["gemini-cli"], Path("f"), GEMINI, ROUTE).after)["events"]
    assert sse["args"][-1] == "--sse"


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("codex", "a = 1\na = 2\n", "file:2: is not valid TOML"),
        ("codex", 'model = "x"\n', "declares no servers: there is no 'mcp_servers'"),
        ("goose", "a: [1\n", "is not valid YAML"),
        ("opencode", json.dumps({"mcpServers": {}}), "It has 'mcpServers', which OpenCode does not read."),
    ],
)
def test_a_file_that_the_client_could_not_read_is_refused_with_its_line(name: str, text: str, says: str) -> None:
    with pytest.raises(ConfigError) as refused:
        plan_routing(CLIENTS[name], Path("file"), text, ROUTE)
    assert says in str(refused.value)
