"""Every entry point cleans, demotes and masks the same way, because every one of them calls the pipeline.

One table names the entry points. The same hostile texts go through all of them: tag
characters, bidi controls, terminal escapes, a secret, a forged mask, a forged note.
"""

import copy
import functools
import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

import tersely
from tersely.cli import main as command_line
from tersely.masking.clean import clean
from tersely.masking.imitations import demote
from tersely.masking.mask import mask
from tersely.results.read_back_tool import READ_RESULT
from tests.fakes.asking import model_at
from tests.fakes.llm_server import FakeLLMServer
from tests.golden.entry_points import (
    FORGED_HANDLE,
    FORGED_MASK,
    HOSTILE,
    INPUTS,
    RECORD,
    Record,
    collect,
    differences,
    normal,
)
from tests.servers.test_summarizer import service

pytestmark = [pytest.mark.slow, pytest.mark.process]

STORED: Record = json.loads(RECORD.read_text())
SECRET = "hunter2hunter2"


def _first_text(document: Any) -> str:
    return str(document["content"][0]["text"])


TEXT_OF: dict[str, Callable[[Any], str]] = {
    "condense()": lambda document: document["text"],
    "summarize()": lambda document: document["text"],
    "summarize_for_extraction()": lambda document: document["text"],
    "mask()": lambda document: document["text"],
    "tersely condense": lambda document: document["stdout"].removesuffix("\n"),
    "tersely condense --json": lambda document: document["stdout"]["text"],
    "tersely condense --explain": lambda document: document["stdout"].removesuffix("\n"),
    "tersely run": lambda document: document["stdout"],
    "tersely hook claude-code": lambda document: document["stdout"],
    "serve summarize": _first_text,
    "serve summarize_for_extraction": _first_text,
    "gateway tools/call get": _first_text,
    "gateway tools/call get_structured": lambda document: document["structuredContent"]["text"],
    "gateway tools/call fail": _first_text,
    "executor get": lambda document: document["observation"]["text"],
    "executor get_structured": lambda document: json.loads(document["observation"]["text"])["text"],
    "executor fail": lambda document: document["observation"]["text"],
    "agent: what the model gets of a tool result": lambda document: document["text"],
    "agent: timeline": lambda document: json.dumps(document, ensure_ascii=False),
    "alert: what is stored": lambda document: document["alert"],
    "research: crawl": lambda document: document["text"],
    "research: condensed_page": lambda document: document["text"],
}
"""What each entry point returns, taken out of its own protocol."""

OWN_BYTES = {"summarize()", "summarize_for_extraction()", "serve summarize", "serve summarize_for_extraction"}
"""The one exception: what the service returns as passthrough or fallback is the caller's own text (MS-6)."""

MASKS_ONLY = {"mask()"}
"""Does what its name says."""

WRITTEN_OUT = {"executor get_structured"}
"""Text that is JSON: escapes are written out in it (`\\u001b`), so that a reader sees them as they are."""

READS_KEPT = {
    *(f"gateway {tool}" for tool in ("read_result", "search_result", "summarize_result")),
    *(f"agent {tool}" for tool in ("read_result", "search_result", "summarize_result")),
    "tersely read",
}
"""Return what was cleaned and masked when it was kept."""

LISTINGS = {"serve tools/list", "gateway tools/list"}

ADDED_SINCE = {"tersely run", "tersely hook claude-code"}
"""Entry points that are not in the record of the first release."""

COMMANDS = {
    "condense": "tersely condense",
    "mask": "mask()",
    "run": "tersely run",
    "hook": "tersely hook claude-code",
    "serve": "serve summarize",
    "gateway": "gateway tools/call get",
    "up": "agent: what the model gets of a tool result",
    "work": "agent: what the model gets of a tool result",
    "suspects": "agent: what the model gets of a tool result",
    "investigate": "alert: what is stored",
    "ask": "alert: what is stored",
    "chat": "alert: what is stored",
    "research": "research: crawl",
    "read": "tersely read",
}
"""Which entry point of the table a command is."""

NO_CONTENT = {"watch", "rerun", "compare", "search", "rate", "triage", "export", "audit", "stats"} | {
    *("config", "migrate", "backup", "restore", "doctor", "demo")
}
"""Commands that take no content in: they show what is stored, or set something up."""

LIBRARY = {"condense": "condense()", "mask": "mask()", "summarize": "summarize()"}
LIBRARY["summarize_for_extraction"] = "summarize_for_extraction()"
PURE = {"Account", "Chunk", "Condensed", "Lost", "chunk", "count_tokens", "mcp_call"}
"""Types, functions that only measure or split, and one plain MCP call."""


@functools.cache
def present() -> Record:
    logging.getLogger("tersely").disabled = True
    try:
        return anyio.run(collect)
    finally:
        logging.getLogger("tersely").disabled = False


def test_every_recorded_entry_point_still_answers() -> None:
    """Only which documents there are: what they say may change on purpose."""
    assert {entry: list(documents) for entry, documents in present().items() if entry not in ADDED_SINCE} == {
        entry: [name for name in documents if entry != "gateway tools/list" or name not in READ_RESULT.earlier_names]
        for entry, documents in STORED.items()
    }
    assert set(STORED["condense()"]) == set(INPUTS)


def test_the_table_names_every_entry_point() -> None:
    assert set(present()) == TEXT_OF.keys() | READS_KEPT | LISTINGS
    assert set(command_line.commands) == COMMANDS.keys() | NO_CONTENT
    assert set(COMMANDS.values()) <= set(present())
    assert set(tersely.__all__) == LIBRARY.keys() | PURE


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("entry", TEXT_OF)
def test_hostile_text_comes_out_the_same_everywhere(entry: str, name: str) -> None:
    check(entry, HOSTILE[name], present()[entry][name])


def check(entry: str, text: str, document: Any, *, is_own: bool = True) -> None:
    """What came out is the text as `clean`, `demote` and `mask` leave it."""
    found = TEXT_OF[entry](document)
    if entry in OWN_BYTES and is_own:
        assert found == normal(text)
        return
    if entry in WRITTEN_OUT:
        found = clean(found).text
    expected = normal(mask(text) if entry in MASKS_ONLY else mask(demote(clean(text).text))).rstrip()
    assert (json.dumps(expected, ensure_ascii=False)[1:-1] if entry == "agent: timeline" else expected) in found


@pytest.mark.parametrize("entry", sorted((TEXT_OF.keys() - OWN_BYTES - MASKS_ONLY) | READS_KEPT))
def test_nothing_hidden_and_no_secret_is_in_anything_that_comes_out(entry: str) -> None:
    for name, document in present()[entry].items():
        whole = json.dumps(document, ensure_ascii=False)
        assert SECRET not in whole, name
        assert clean(whole).removed == 0, name
        assert FORGED_MASK not in whole, name
        assert "[Shortened from 9,999" not in whole, name
        assert FORGED_HANDLE not in whole.replace(f"elsewhere:{FORGED_HANDLE}", ""), name


@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", ["library", "shell", "serve", "gateway", "executor", "sessions"])
def test_the_shared_injections_come_out_the_same_everywhere(part: str, shared: Path) -> None:
    """All cases of one category are one text: the categories differ, the way through an entry point does not."""
    by_category: dict[str, list[str]] = {}
    for line in (shared / "safety" / "injection_dev.jsonl").read_text("utf-8").split("\n"):
        if line and (case := json.loads(line))["surface"] in ("tool_result", "web_page", "tool_params"):
            by_category.setdefault(case["category"], []).append(case["payload"][:500])
    texts = {
        category: "\n\n".join(payloads).replace("\r\n", "\n").strip() for category, payloads in by_category.items()
    }
    assert len(texts) > 10
    with other_inputs(texts):
        record = anyio.run(collect, part)
    assert record
    for entry in record.keys() & TEXT_OF.keys():
        for category, text in texts.items():
            # The service condenses a text that is over its budget before it is cleaned; then it is not passthrough.
            own = entry in OWN_BYTES and TEXT_OF[entry](record[entry][category]) == normal(text)
            if text and not own:
                check(entry, text, record[entry][category], is_own=False)


@contextmanager
def other_inputs(texts: dict[str, str]) -> Iterator[None]:
    before = dict(INPUTS)
    INPUTS.clear()
    INPUTS.update(texts)
    try:
        yield
    finally:
        INPUTS.clear()
        INPUTS.update(before)


async def test_what_the_service_sends_to_a_model_is_cleaned_and_masked() -> None:
    async with FakeLLMServer(lambda body: "The gist.").listening() as llm, model_at(llm.url):
        async with service(llm) as address:
            from fastmcp import Client

            async with Client(f"{address}/mcp") as client:
                content = INPUTS["hostile log"]
                asked = {"content": content, "max_output_tokens": 300, "focus_areas": f"password={SECRET}\u202e"}
                await client.call_tool_mcp("summarize", asked)
    assert llm.requests
    for request in llm.requests:
        sent = json.dumps(request, ensure_ascii=False)
        assert SECRET not in sent and FORGED_MASK not in sent
        assert clean(sent).removed == 0


def test_a_difference_names_the_entry_point_the_text_and_the_field() -> None:
    now = copy.deepcopy(STORED)
    now["condense()"]["small"]["status"] = "fallback"
    del now["mask()"]["page"]
    now["new()"] = {}
    changed, removed, added = differences(STORED, now)
    assert changed.startswith("=== condense(), small")
    assert '- "status": "passthrough"' in changed and '+ "status": "fallback"' in changed
    assert removed.startswith("=== mask(), page") and added == "=== new(): only in the present code"


def test_the_size_before_is_that_of_the_text_that_came_in() -> None:
    text = HOSTILE["tag characters"] + HOSTILE["secret"]
    condensed = tersely.condense(text)
    assert condensed.tokens_before == tersely.count_tokens(text) > condensed.tokens_after
    assert condensed.cleaned and condensed.masked and tersely.condense("plain").masked is False
