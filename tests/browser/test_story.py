"""A person on call uses the dashboard: a real browser, a real `tersely up`, the demonstration's systems; the model
alone is scripted.
"""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass

import anyio
import pytest
from playwright.async_api import Page, expect

from tests.browser.conftest import settled
from tests.browser.model import FIRST_WORDS, THOUGHT, Storyteller
from tests.browser.service import Up, demo_configuration, demo_incident, service

pytestmark = pytest.mark.process

ANSWER = ".event[data-type=llm_response] .streaming"


@dataclass
class Stage:
    up: Up
    model: Storyteller

    def gated(self, word: str) -> anyio.Event:
        return self.model.gate(word)


@pytest.fixture(scope="module")
async def stage(browser: object, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    incident = demo_incident()
    model = Storyteller(incident)
    async with model.server().listening() as llm:
        async with service(tmp_path_factory.mktemp("up"), demo_configuration(incident, model_url=llm.url)) as up:
            yield Stage(up, model)
            for gate in model.gates.values():
                gate.set()


async def test_an_alert_is_submitted_watched_and_understood_and_another_one_cancelled(stage: Stage, page: Page) -> None:
    """The way through the whole dashboard, as the issue tells it."""
    gate = stage.gated("STORY")
    await page.goto(stage.up.address)
    await page.get_by_role("link", name="Submit an alert").first.click()
    await page.get_by_label("Alert", exact=True).fill("STORY: requests to the shop fail")
    await page.get_by_role("button", name="Investigate").click()

    # It streams: half of the answer is there, and stands still until the model goes on.
    await expect(page.get_by_role("heading", name=re.compile("STORY"))).to_be_visible()
    flow = page.locator(ANSWER)
    await expect(flow).to_contain_text(FIRST_WORDS[:60])
    assert len(await flow.inner_text()) < len(FIRST_WORDS)
    await expect(page.locator(".event[data-type=llm_thinking]")).to_contain_text(THOUGHT[:40])
    gate.set()

    # The tool call, opened: before and after side by side.
    card = page.locator(".call-row")
    await expect(card).to_contain_text("cluster.get_logs")
    # Condensed: until then the row is drawn anew, and a click may meet one that is replaced.
    await expect(card.locator(".saved i")).to_be_visible()
    await card.locator("summary").click()
    await card.get_by_role("link", name="Before and after").click()
    await expect(page.get_by_role("heading", name="Before")).to_be_visible()
    await expect(page.locator(".pane.after")).to_contain_text("OOMKilled")
    await expect(page.locator(".pane.after")).to_contain_text("text the model received")
    await expect(page.locator(".facts")).to_contain_text("summarized by a model")

    # A line of the raw text, found.
    await page.keyboard.press("/")
    await page.keyboard.type("WARN")
    await expect(page.locator(".found")).to_contain_text(re.compile(r"1 of [\d,]+ lines"))
    here = page.locator("virtual-rows .line.here")
    await expect(here.locator("mark").first).to_have_text(re.compile("warn", re.I))
    first = await here.locator(".no").inner_text()
    await page.get_by_role("button", name="Next match").click()
    await expect(page.locator(".found")).to_contain_text("2 of")
    await expect(here.locator(".no")).not_to_have_text(first)

    # The analysis, read.
    await page.keyboard.press("Escape")
    await page.get_by_role("link", name="Show in timeline").click()
    analysis = page.get_by_role("region", name="Analysis")
    await expect(analysis).to_contain_text("killed by the kernel")
    await expect(analysis.get_by_role("cell", name="40 min")).to_be_visible()
    link = analysis.get_by_role("link", name=re.compile("the runbook"))
    assert "noopener" in (await link.get_attribute("rel") or "") and "runbooks.example" in await link.inner_text()
    await expect(page.locator(".pill").first).to_have_text("done")

    # Another one, cancelled.
    stage.gated("OTHER")
    other = await stage.up.submit("OTHER: something else fails")
    await page.goto(f"{stage.up.address}/sessions/{other}")
    await expect(page.locator(ANSWER)).to_contain_text(FIRST_WORDS[:30])
    await page.get_by_role("button", name="Cancel").click()
    await page.get_by_role("button", name="Keep it running").click()
    await page.get_by_role("button", name="Cancel").click()
    await page.get_by_role("dialog").get_by_role("button", name="Cancel the session").click()
    await expect(page.locator(".session-head .pill")).to_have_text("cancelled")
    await expect(page.locator(".spinner")).to_have_count(0)


async def test_a_reload_in_the_middle_loses_nothing(stage: Stage, page: Page) -> None:
    gate = stage.gated("RELOAD")
    session = await stage.up.submit("RELOAD: requests fail")
    await page.goto(f"{stage.up.address}/sessions/{session}")
    flow = page.locator(ANSWER)
    await expect(flow).to_contain_text(FIRST_WORDS[:60])
    await page.reload()
    await expect(page.locator(".event[data-type=llm_thinking]")).to_contain_text(THOUGHT[:40])
    gate.set()
    await expect(page.get_by_role("region", name="Analysis")).to_contain_text("killed by the kernel")
    answer = page.locator(".event[data-type=llm_response]").first
    await expect(answer.locator(".body")).to_have_text(" ".join(FIRST_WORDS.split()), use_inner_text=True)
    events = (await stage.up.ask("GET", f"/sessions/{session}/timeline"))["items"]
    shown = [event["event_id"] for event in events if event["event_type"] != "mcp_tool_summary"]
    rows = page.locator("li.event")
    await expect(rows).to_have_count(len(shown))
    drawn = await rows.evaluate_all("rows => rows.map(row => row.id.replace(/^event-(calls-)?/, ''))")
    assert drawn == shown, "every event once and in order"


async def test_a_page_goes_on_after_the_server_was_killed_and_started_again(stage: Stage, page: Page) -> None:
    gate = stage.gated("KILLED")
    session = await stage.up.submit("KILLED: requests fail")
    await page.goto(f"{stage.up.address}/sessions/{session}")
    await expect(page.locator(ANSWER)).to_contain_text(FIRST_WORDS[:30])
    state = page.locator("#link-state")
    await expect(state).to_have_text("live")
    await page.evaluate("document.title = 'not reloaded'; window.same = true")

    await stage.up.kill()
    await expect(state).to_have_text(re.compile("offline"))
    await stage.up.start()
    await expect(state).to_have_text("live")
    gate.set()
    await expect(page.get_by_role("region", name="Analysis")).to_contain_text("killed by the kernel")
    assert await page.evaluate("window.same"), "nobody reloaded the page"
    await expect(page.locator(".event[data-status=streaming], .call-row[data-status=running]")).to_have_count(0)
    drawn = await page.locator("li.event").evaluate_all("rows => rows.map(row => row.id)")
    assert len(drawn) == len(set(drawn))


async def test_streaming_does_not_scroll_a_page_that_is_not_at_the_end(stage: Stage, page: Page) -> None:
    """Above the end nothing moves under the reader's eyes; who reads the end is kept there."""
    gate = stage.gated("STILL")
    session = await stage.up.submit("STILL: " + "requests fail\n" * 60)
    await page.set_viewport_size({"width": 1000, "height": 420})
    await page.goto(f"{stage.up.address}/sessions/{session}")
    await page.locator("details.fold summary").first.click()
    await expect(page.locator(ANSWER)).to_contain_text(FIRST_WORDS[:30])
    await page.evaluate("scrollTo(0, 260)")
    await page.wait_for_function("() => scrollY === 260")
    thought = page.locator(".event[data-type=llm_thinking]")
    await settled(page)
    before = await thought.evaluate("row => row.getBoundingClientRect().top")
    gate.set()
    await expect(page.get_by_role("region", name="Analysis")).to_be_attached()
    await expect(page.locator(".session-head .pill")).to_have_text("done")
    await settled(page)
    after = await thought.evaluate("row => row.getBoundingClientRect().top")
    assert abs(after - before) < 2, "the analysis was put above without moving what was being read"
