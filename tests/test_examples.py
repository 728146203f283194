"""The code in README and docs runs, and so does the demonstration of `make demo-kill`. (`make demo`: test_cli.py.)"""

import hashlib
import hmac
import os
import re
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.fakes.researching import Servers, listening
from tests.fakes.web.pages import draw_web

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "docs/how-to/pipelines.md", "docs/how-to/investigations.md")
TEXT = "".join(f"pod web-{number} Running 0 restarts\n" for number in range(2_000)) + "pod web-7 CrashLoopBackOff\n"


def examples(page: str) -> list[str]:
    """The Python blocks of a page: fenced, or indented and beginning with an import of ours."""
    text = (ROOT / page).read_text("utf-8")
    fenced = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    indented = re.findall(r"^(    from tersely import .*\n(?:    .*\n)*)", text, re.MULTILINE)
    return [*fenced, *map(textwrap.dedent, indented)]


async def run(code: str, **names: Any) -> dict[str, Any]:
    """Execute a block, which may await, with these names; the names afterwards."""
    body = textwrap.indent(f"{code}\nreturn dict(locals())", "    ")
    space: dict[str, Any] = {"os": os, **names}
    exec(f"async def example():\n{body}", space)
    return {**names, **(await space["example"]())}


def test_every_page_with_python_is_run_here() -> None:
    """Blocks with a title are files of a tutorial, which tests/test_docs.py plays."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    found = {page.relative_to(ROOT).as_posix() for page in pages if "```python\n" in page.read_text("utf-8")}
    # Beside the tests of what it shows: tests/integrations.
    found.discard("docs/how-to/frameworks.md")
    assert found <= set(PAGES) and all(examples(page) for page in PAGES)


async def test_the_library_example_of_the_readme_runs() -> None:
    (code,) = examples("README.md")
    short = (await run(code, text=TEXT))["short"]
    assert "CrashLoopBackOff" in short.text and short.tokens_after <= 1_000 < short.tokens_before


async def test_the_pipeline_examples_run(monkeypatch: pytest.MonkeyPatch) -> None:
    imports, in_process, by_service = examples("docs/how-to/pipelines.md")
    names = await run(imports)
    page = (await run(in_process, **names, text=TEXT))["page"]
    assert page.tokens_after <= 1_600 and page.status == "structural"

    accumulate = (await run(by_service, **names))["accumulate"]
    async with listening(Servers(draw_web(7))) as addresses:
        monkeypatch.setenv("MCP_SUMMARIZER_URL", addresses["summarizer"])
        checkpoint = SimpleNamespace(step_data={"research_raw_content": []})
        await accumulate(checkpoint, "pods that fail", [SimpleNamespace(text=TEXT, url="https://a.example/1")])
    (stored,) = checkpoint.step_data["research_raw_content"]
    assert stored["url"] == "https://a.example/1" and stored["content"]


async def test_the_webhook_example_accepts_our_signature() -> None:
    (code,) = examples("docs/how-to/investigations.md")
    is_ours = (await run(code))["is_ours"]
    now = int(time.time())
    signature = "sha256=" + hmac.new(b"shh", f"{now}.".encode() + b"{}", hashlib.sha256).hexdigest()
    assert is_ours(b"{}", str(now), signature, b"shh")
    assert not is_ours(b"{ }", str(now), signature, b"shh")
    assert not is_ours(b"{}", str(now - 1), signature, b"shh")
    old = "sha256=" + hmac.new(b"shh", f"{now - 3_600}.".encode() + b"{}", hashlib.sha256).hexdigest()
    assert not is_ours(b"{}", str(now - 3_600), old, b"shh")


@pytest.mark.long
@pytest.mark.process
@pytest.mark.postgres
@pytest.mark.slow
def test_the_demonstration_of_a_kill_finds_the_cause() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.survival.demo_kill", "7"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stdout[-3_000:]}\n{done.stderr[-3_000:]}"
    assert "kill -9" in done.stdout and "goes on" in done.stdout
