"""The code in README and docs runs, and so does the demonstration of `make demo-kill`. (`make demo`: test_cli.py.)"""

import doctest
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

import tersely
from tests.docs.blocks import blocks, pages
from tests.fakes.researching import Servers, listening
from tests.fakes.web.pages import draw_web

ROOT = Path(__file__).resolve().parents[1]
TEXT = "".join(f"pod web-{number} Running 0 restarts\n" for number in range(2_000)) + "pod web-7 CrashLoopBackOff\n"


def examples(page: str) -> list[str]:
    """The Python blocks of a page; those with a title are files of a tutorial, which tests/docs plays."""
    return [block.text for block in blocks(page) if block.language == "python" and not block.title]


async def run(code: str, **names: Any) -> dict[str, Any]:
    """Execute a block, which may await, with these names; the names afterwards."""
    body = textwrap.indent(f"{code}\nreturn dict(locals())", "    ")
    space: dict[str, Any] = {"os": os, **names}
    exec(f"async def example():\n{body}", space)
    return {**names, **(await space["example"]())}


@pytest.mark.parametrize("page", [page for page in pages() if examples(page)])
async def test_the_python_of_a_page_runs(page: str) -> None:
    """One block after the other, as a reader would; `text` is what they have at hand."""
    names: dict[str, Any] = {"text": TEXT}
    for code in examples(page):
        names = await run(code, **names)


@pytest.mark.parametrize("page", [page for page in pages() if any(block.language == "pycon" for block in blocks(page))])
def test_what_python_answers_in_a_page_is_its_answer(page: str) -> None:
    """The last part of a mask depends on a random key."""
    names = {name: getattr(tersely, name) for name in tersely.__all__}
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS)
    for block in blocks(page):
        if block.language == "pycon":
            text = re.sub(r"(\[MASKED:\w+:)[0-9a-f]{12}\]", r"\1...]", block.text)
            test = doctest.DocTestParser().get_doctest(text, names, str(block), page, block.line)
            assert not runner.run(test).failed, block


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
