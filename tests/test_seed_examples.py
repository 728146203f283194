"""The YAML and JSON examples of the seed documents are accepted as they are written.

The documents are not part of the repository: where they lie beside it, every example is taken out of them; copies of
the shapes are checked everywhere.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tersely.settings.model import documented
from tersely.web.schemas import AlertIn
from tests.test_cli_config import tersely

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[1]
SEEDS = ROOT.parent / "shared" / "seeds"

COPIES = {
    "000 servers": """
mcp_servers:
  kubectl:
    # ... existing server config ...
    summarization:
      enabled: true                    # true by default
      size_threshold_tokens: 2000      # 2K by default
      summary_max_token_limit: 1000    # 1K by default

  filesystem:
    # ... existing server config ...
    summarization:
      enabled: false                   # Disable for file operations
""",
    "001 servers": """
mcp_servers:
  kubernetes-server:
    transport:
      type: stdio
      command: npx
      args: ["-y", "kubernetes-mcp-server@0.0.54"]
    summarization:
      enabled: true
      size_threshold_tokens: 5000    # Trigger summarization above this
      summary_max_token_limit: 1000  # Max tokens for the summary itself
""",
    "001 alert": """
{
  "alert_type": "kubernetes",
  "data": "Pod CrashLoopBackOff in namespace production...",
  "mcp": {
    "servers": [
      { "name": "kubernetes-server" },
      { "name": "argocd-server", "tools": ["get_application_status"] },
      { "name": "prometheus-server", "tools": [] }
    ],
    "native_tools": { "google_search": false, "code_execution": true }
  }
}
""",
    "003 client file": """
{
  "mcpServers": {
    "search": { "url": "${MCP_WEB_SEARCH_URL}", "timeout": 30 },
    "summarizer": { "url": "${MCP_SUMMARIZER_URL}", "timeout": 120 }
  }
}
""",
    "003 compose": """
mcp-summarizer:
  ports:
    - "${MCP_SUMMARIZER_PORT:-8007}:8007"
  environment:
    MCP_SUMMARIZER_PORT: "8007"
    LLM_MODEL: ${SUMMARIZER_LLM_MODEL:-openai/gpt-4o-mini}
    OPENROUTER_API_KEY: ${OPENROUTER_API_KEY:-}
  healthcheck:
    test: ["CMD", "python", "-c", "import urllib.request; urllib.request.urlopen('http://localhost:8007/health')"]
    interval: 15s
    timeout: 5s
    retries: 3
    start_period: 10s
""",
}


def extracted() -> dict[str, str]:
    """Every fenced example in YAML or JSON, by document and line."""
    found: dict[str, str] = {}
    for path in sorted(SEEDS.glob("*.txt")) if SEEDS.is_dir() else ():
        text = path.read_text(encoding="utf-8")
        for block in re.finditer(r"^( *)```(?:ya?ml|json)\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL):
            found[f"{path.name[:3]} line {text.count(chr(10), 0, block.start()) + 1}"] = block[2]
    return found


def accept(example: str, folder: Path) -> str:
    """Give an example to the entry point it is for; returns which one."""
    value: Any = yaml.safe_load(example)
    if "mcp_servers" in value:
        # The comment stands for the transport, which the example leaves out.
        filled = re.sub(r"# \.\.\. existing server config \.\.\.", "transport: {command: server}", example)
        (folder / "tersely.yaml").write_text(filled, encoding="utf-8")
        checked = tersely(folder, "config", "check")
        assert checked.returncode == 0, checked.stderr
        return "configuration"
    if "mcpServers" in value:
        (folder / "mcp.json").write_text(example, encoding="utf-8")
        addresses = {
            "MCP_WEB_SEARCH_URL": "http://search:1/mcp",
            "MCP_SUMMARIZER_URL": "http://mcp-summarizer:8007/mcp",
        }
        assert tersely(folder, "config", "init", "--from", "mcp.json").returncode == 0
        checked = tersely(folder, "config", "check", **addresses)
        assert checked.returncode == 0 and "summarizer" in checked.stdout, checked.stderr
        shown = json.loads(tersely(folder, "config", "show", "--json", **addresses).stdout)
        assert shown["mcp_servers.summarizer.timeout"]["value"] == 120
        return "client file"
    if "data" in value:
        AlertIn.model_validate_json(example)
        return "alert"
    ours = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]["mcp-summarizer"]
    service = value.get("mcp-summarizer", value)
    assert service["healthcheck"] == ours["healthcheck"]
    known = {name for name, _, _ in documented()}
    assert set(service.get("environment", {})) <= known
    variables = set(re.findall(r"\$\{(\w+)", json.dumps(service)))
    assert variables <= known | set(re.findall(r"\$\{(\w+)", json.dumps(ours)))
    return "compose"


@pytest.mark.parametrize("name", COPIES)
def test_a_copy_of_each_example_is_accepted(name: str, tmp_path: Path) -> None:
    expected = {"servers": "configuration", "client file": "client file", "alert": "alert", "compose": "compose"}
    assert accept(COPIES[name], tmp_path) == expected[name[4:]]


def test_every_example_of_the_documents_is_accepted_as_it_is_written(tmp_path: Path) -> None:
    examples = extracted()
    if not examples:
        pytest.skip("The seed documents are not beside the repository: only the copies above are checked.")
    kinds = []
    for number, (name, example) in enumerate(examples.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        try:
            kinds.append(accept(example, folder))
        except AssertionError as refused:
            raise AssertionError(f"{name}: {refused}") from refused
    assert {"configuration", "client file", "alert", "compose"} <= set(kinds)
