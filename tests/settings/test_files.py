"""Reading servers from the files that operators write."""

from pathlib import Path

import pytest

from tersely.errors import ConfigError
from tersely.mcp.servers import Server
from tersely.settings.files import read_servers

YAML = """\
defaults: {}
mcp_servers:
  kubernetes-server:
    transport:
      type: stdio
      command: npx
      args: ["-y", "kubernetes-mcp-server@0.0.54", "${CLUSTER:-minikube}"]
      env:
        KUBECONFIG: ${KUBECONFIG}
      inherit_env: [LANG]
    instructions: Read before you write.
    data_masking:
      groups: [structures]
      custom_patterns:
        ticket: 'TICKET-(?P<secret>\\d+)'
    summarization:
      size_threshold_tokens: 3000
    timeout: 90
    read_only: true
    tools:
      deny: ["delete_*"]
  search:
    transport: {type: http, url: "https://search.test/mcp", bearer_token: "${TOKEN}"}
    summarization: {enabled: false}
"""

JSON = """\
{
  // what the client wrote
  "mcpServers": {
    "search": {
      "url": "${MCP_WEB_SEARCH_URL}",
      "timeout": 30,
    },
    "files": {"command": "uvx", "args": ["files", "/tmp"], "env": {"A": "1"}, "alwaysAllow": ["read"]},
    "old": {"type": "sse", "url": "http://localhost:1/sse", "headers": {"X-Team": "a"}, "disabled": true}
  }
}
"""


def written(folder: Path, text: str, name: str = "servers.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def mistakes(folder: Path, text: str, name: str = "servers.yaml", **environment: str) -> list[str]:
    """What is wrong with a file, without the path of the file."""
    path = written(folder, text, name)
    with pytest.raises(ConfigError) as wrong:
        read_servers(path, environment)
    return str(wrong.value).replace(str(path), name).split("\n")


def by_name(servers: tuple[Server, ...]) -> dict[str, Server]:
    return {server.name: server for server in servers}


def test_servers_are_read_from_yaml_with_defaults_where_nothing_is_said(tmp_path: Path) -> None:
    servers = by_name(read_servers(written(tmp_path, YAML), {"KUBECONFIG": "/k", "TOKEN": "t0ken"}))

    kubernetes, search = servers["kubernetes-server"].options, servers["search"].options
    assert kubernetes.transport.kind == "stdio"
    assert kubernetes.transport.args == ("-y", "kubernetes-mcp-server@0.0.54", "minikube")
    assert kubernetes.transport.env["KUBECONFIG"].get_secret_value() == "/k"
    assert kubernetes.transport.inherit_env == ("LANG",)
    assert (kubernetes.timeout, kubernetes.read_only, kubernetes.tools.deny) == (90, True, ("delete_*",))
    assert (kubernetes.summarization.size_threshold_tokens, kubernetes.summarization.summary_max_token_limit) == (
        3000,
        1000,
    )
    assert kubernetes.data_masking.masker().mask("see TICKET-4711").startswith("see TICKET-[MASKED:ticket:")
    assert (search.timeout, search.summarization.enabled, search.max_result_bytes) == (60, False, 32 * 2**20)
    assert search.transport.bearer_token and search.transport.bearer_token.get_secret_value() == "t0ken"


def test_the_file_that_mcp_clients_share_is_read_with_its_comments_and_foreign_keys(tmp_path: Path) -> None:
    servers = by_name(
        read_servers(written(tmp_path, JSON, "mcp.json"), {"MCP_WEB_SEARCH_URL": "http://search:8006/mcp"})
    )

    assert servers["search"].options.transport.url == "http://search:8006/mcp"
    assert servers["search"].options.transport.kind == "http"
    assert servers["search"].options.timeout == 30
    assert servers["files"].options.transport.args == ("files", "/tmp")
    assert servers["old"].options.transport.kind == "sse"
    assert servers["old"].options.disabled


def test_an_empty_variable_counts_as_unset_and_defaults_may_be_nested(tmp_path: Path) -> None:
    text = 'mcp_servers: {a: {transport: {command: "${ONE:-${TWO:-x${THREE}}}", args: ["$${ONE}", "${env:THREE}"]}}}'

    (server,) = read_servers(written(tmp_path, text), {"ONE": "", "TWO": "", "THREE": "3"})

    assert server.options.transport.command == "x3"
    assert server.options.transport.args == ("${ONE}", "3")


def test_a_missing_variable_is_named_with_its_key_file_and_line(tmp_path: Path) -> None:
    assert mistakes(tmp_path, JSON, "mcp.json", MCP_WEB_SEARCH_URLS="x") == [
        "mcp.json:5: mcpServers.search.url: variable MCP_WEB_SEARCH_URL is not set or empty (MCP_WEB_SEARCH_URLS is "
        "set; did you mean "
        "that?); set it, or give a default: ${MCP_WEB_SEARCH_URL:-…}"
    ]


def test_all_mistakes_are_reported_at_once_each_with_its_line(tmp_path: Path) -> None:
    text = """\
mcp_servers:
  a:
    transport:
      comand: npx
      command: npx
    timout: 5
    summarization:
      size_threshold_tokens: 99
      summary_max_token_limit: 49
  b:
    transport: {url: "ftp://x"}
    summarization: {size_threshold_tokens: 500, summary_max_token_limit: 500}
  c:
    timeout: ${NOBODY}
    transport: {url: "http://${NOBODY}/mcp"}
    allow_destructive: {x: 1}
  d: {transport: {type: htp, url: "http://x/mcp"}}
  e: {transport: {command: x}, data_masking: {custom_patterns: {bad: "(?=x)"}}}
"""
    found = mistakes(tmp_path, text)

    assert [line.split(": ")[:2] for line in found] == [
        ["servers.yaml:4", "mcp_servers.a.transport.comand"],
        ["servers.yaml:6", "mcp_servers.a.timout"],
        ["servers.yaml:8", "mcp_servers.a.summarization.size_threshold_tokens"],
        ["servers.yaml:9", "mcp_servers.a.summarization.summary_max_token_limit"],
        ["servers.yaml:11", "mcp_servers.b.transport.url"],
        ["servers.yaml:12", "mcp_servers.b.summarization"],
        ["servers.yaml:14", "mcp_servers.c.timeout"],
        ["servers.yaml:15", "mcp_servers.c.transport.url"],
        ["servers.yaml:16", "mcp_servers.c.allow_destructive"],
        ["servers.yaml:17", "mcp_servers.d.transport.type"],
        ["servers.yaml:18", "mcp_servers.e.data_masking"],
    ]
    assert "did you mean 'command'?" in found[0]
    assert "did you mean 'timeout'?" in found[1]
    assert "greater than or equal to 100 (is 99)" in found[2]
    assert "summary_max_token_limit (500) must be smaller than size_threshold_tokens (500)" in found[5]
    assert "NOBODY" in found[6] and "NOBODY" in found[7]
    assert found[9].endswith("should be 'stdio', 'http', 'sse' or 'history'; did you mean 'http'?")
    assert "'bad'" in found[10]


def test_what_other_clients_call_otherwise_means_the_same(tmp_path: Path) -> None:
    """Windsurf's addresses; and tools that were turned off in another client stay off."""
    path = tmp_path / "mcp.json"
    path.write_text(
        '{"mcpServers": {"a": {"serverUrl": "http://y/mcp", "disabledTools": ["drop"]}, "b": {"command": "x", '
        '"enabledTools": ["get"]}}}'
    )
    a, b = read_servers(path)
    assert (a.options.transport.url, a.options.tools.deny, b.options.tools.allow) == (
        "http://y/mcp",
        ("drop",),
        ("get",),
    )
    path.write_text('{"mcpServers": {"a": {"command": "x",\n "envFile": ".env"}}}')
    with pytest.raises(ConfigError, match=r"mcpServers\.a\.envFile: is not read here: name the variables under `env`"):
        read_servers(path)


def test_a_client_file_has_its_mistakes_where_its_keys_are(tmp_path: Path) -> None:
    text = (
        '{"mcpServers": {\n "a": {"comand": "x"},\n "b": {"command": "x",\n "args": "one"},\n "c": {"command": '
        '"x", "url": "http://y/mcp"}}}'
    )
    found = mistakes(tmp_path, text, "mcp.json")

    assert any(
        line.startswith("mcp.json:2: mcpServers.a.comand: is not a setting; did you mean 'command'?") for line in found
    )
    assert any(line.startswith("mcp.json:4: mcpServers.b.args: ") for line in found)
    assert any(line.startswith("mcp.json:5: mcpServers.c: has both a command and a url") for line in found)


def test_what_a_secret_holds_is_in_no_message(tmp_path: Path) -> None:
    text = """\
mcp_servers:
  a:
    transport:
      url: "${SECRET}"
      bearer_token: ["${SECRET}"]
      headers: {"X-Key": {"${SECRET}": 1}}
    timeout: "${SECRET}"
    tools: "${SECRET}"
    protocol: "${SECRET}"
"""
    found = mistakes(tmp_path, text, SECRET="hunter2-of-the-house")

    assert len(found) >= 5
    assert "hunter2" not in "\n".join(found)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "a.yaml",
            "mcp_servers:\n  a: {transport: {command: x}}\n  a: {transport: {command: y}}\n",
            "a.yaml:3: mcp_servers.a: is a duplicate",
        ),
        (
            "a.json",
            '{"mcpServers": {\n"a": {"command": "x",\n"command": "y"}}}',
            "a.json:3: mcpServers.a.command: is a duplicate; first declared in line 2",
        ),
        ("a.yaml", "mcp_servers:\n  - x: [\n", "a.yaml:3: is not valid YAML"),
        ("a.json", '{"mcpServers": {\n"a": nope}}', "a.json:2: is not valid JSON: 'nope' is not a value"),
        ("a.json", '{"mcpServers": {"a": {"command": "x"}', "a.json:1: is not valid JSON"),
        ("a.yaml", "mcp_server: {}\n", "did you mean 'mcp_servers' by 'mcp_server'?"),
        ("a.yaml", "", "must be a mapping with `mcp_servers`"),
        ("a.yaml", "mcp_servers: {a: 5}", "a.yaml:1: mcp_servers.a: must be a mapping, with a command or a url in it"),
        (
            "a.yaml",
            "mcp_servers: {a: {instructions: x}}",
            "a.yaml:1: mcp_servers.a.transport: is missing: the server needs a `command` or a `url`",
        ),
        (
            "a.yaml",
            "mcp_servers: {pоds: {transport: {command: x}}}",
            "a server's name is up to 128 printable ASCII characters",
        ),
        ("a.yaml", 'mcp_servers: {a: {transport: {command: "${A"}}}', "has a `${` that is not closed"),
        ("a.json", "[" * 1000, "nested more than"),
        ("a.yaml", "mcp_servers:\n  a: {transport: {command: ${A}}}\n", "Inside { } and [ ], put ${…} in quotes."),
    ],
)
def test_a_broken_file_is_explained(tmp_path: Path, name: str, text: str, message: str) -> None:
    assert message in "\n".join(mistakes(tmp_path, text, name))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nothing\.yaml: cannot be read: No such file"):
        read_servers(tmp_path / "nothing.yaml", {})
