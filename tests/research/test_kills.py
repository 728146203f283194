"""A research whose process is killed, between and inside of topics, goes on with the same command: nothing twice that
was stored.
"""

import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from subprocess import CompletedProcess

import anyio
import pytest

from tests.fakes.researching import WEB, Servers, listening
from tests.research.test_configuration import SEED_003

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.process, pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mcp_config.json").write_text(SEED_003)
    (tmp_path / "topics.yaml").write_text("people: Who is who in {subject}?\ndates: Timeline of {subject}\n")
    record = {"type": "object", "properties": {"name": {"type": "string"}, "date": {"type": "string"}}}
    (tmp_path / "schema.json").write_text(json.dumps({"properties": {"events": {"type": "array", "items": record}}}))
    return tmp_path


async def run(folder: Path, addresses: Mapping[str, str], fault: str = "") -> CompletedProcess[bytes]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("FAULT_", "TERSELY_"))}
    environment |= {"MCP_WEB_SEARCH_URL": addresses["search"], "MCP_SUMMARIZER_URL": addresses["summarizer"]}
    environment |= {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    environment |= {"TERSELY_DATA_DIR": str(folder / "data"), **({"FAULT_AT": fault} if fault else {})}
    command = [
        sys.executable,
        "-m",
        "tests.survival.replica",
        "research",
        WEB.subject,
        "--topics",
        "topics.yaml",
        "--schema",
        "schema.json",
    ]
    command += ["-o", "out.json", "--mcp-config", "mcp_config.json", "--pages", "4", "--quiet"]
    with anyio.fail_after(300):
        return await anyio.run_process(command, cwd=folder, env=environment, check=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "in_flight"),
    [
        # Inside of a topic: of its two pages, read side by side, one is stored.
        ("after crawl/call is stored:1", 1),
        # Inside of a topic: both of its summaries are.
        pytest.param("after page/summarizer/call is stored:2", 0, marks=pytest.mark.long),
        # Between topics.
        pytest.param("after checkpoint is stored:1", 0, marks=pytest.mark.long),
    ],
)
async def test_a_killed_research_goes_on_and_repeats_nothing_that_was_stored(
    folder: Path, fault: str, in_flight: int
) -> None:
    servers = Servers(WEB)
    async with listening(servers) as addresses:
        killed = await run(folder, addresses, fault)
        assert killed.returncode == -signal.SIGKILL, (killed.returncode, killed.stderr)
        assert not (folder / "out.json").exists()
        again = await run(folder, addresses)
    assert again.returncode == 0, again.stderr
    result = json.loads((folder / "out.json").read_text())
    assert (result["gaps"], len(result["pages"])) == ([], 4)
    crawled = Counter(servers.crawled)
    assert len(crawled) == 4 and sum(crawled.values()) - 4 <= in_flight
    summarized = Counter(one["content"] for one in servers.summarized)
    assert len(summarized) == 4 == sum(summarized.values()), "no summary is paid twice"


@pytest.mark.slow
async def test_what_is_through_is_shown_again_and_not_made_again(folder: Path) -> None:
    servers = Servers(WEB)
    async with listening(servers) as addresses:
        assert (await run(folder, addresses)).returncode == 0
        before = (folder / "out.json").read_text()
        (folder / "out.json").unlink()
        assert (await run(folder, addresses)).returncode == 0
    assert (folder / "out.json").read_text() == before and len(servers.crawled) == 4
