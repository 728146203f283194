"""The pages one by one, in a real browser over a real service: addresses, keys, forms, narrow screens, a long
session.
"""

import base64
import json
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import anyio
import pytest
from playwright.async_api import Browser, Page, WebSocketRoute, expect

from tersely.events.recorder import SessionRecorder
from tersely.masking.masked import assume_masked
from tersely.results.kept import KeptResults
from tersely.sessions.worker import SessionOutcome
from tersely.store.results import Origin
from tersely.store.sessions import Session
from tests.browser.conftest import keep_texts
from tests.browser.long_session import long_work
from tests.web.running import Running, running

EVENTS = 240
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
SVG = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"


async def two_running_calls(session: Session, recorder: SessionRecorder, kept: KeptResults) -> SessionOutcome:
    """Two calls that have not returned."""
    (stage,) = await recorder.plan(["look"])
    await recorder.stage_status(stage, "in_progress")
    inner = recorder.within(stage, "e")
    about = {"server_name": "cluster", "tool_name": "get_logs", "arguments": {}}
    async with inner.opened("1", "llm_tool_call", metadata=about), inner.opened("2", "llm_tool_call", metadata=about):
        await anyio.sleep_forever()
    raise AssertionError


async def with_pictures(session: Session, recorder: SessionRecorder, kept: KeptResults) -> SessionOutcome:
    """A call that returns text, a picture and something that only says that it is one; then the last answer."""
    (stage,) = await recorder.plan(["look"])
    origin = Origin(server="graphs", tool="draw", arguments={"metric": "errors"}, called_at=datetime.now(UTC))
    handle = await kept.keep(assume_masked("errors over time\n"), scope=session.results_scope, origin=origin)
    await kept.keep_bytes(PNG, scope=session.results_scope, origin=origin, mime_type="image/png", kind="image", part=1)
    await kept.keep_bytes(
        SVG, scope=session.results_scope, origin=origin, mime_type="image/svg+xml", kind="image", part=2
    )
    about = {
        "server_name": "graphs",
        "tool_name": "draw",
        "arguments": {"metric": "errors"},
        "handle": handle,
        "original_tokens": 4,
    }
    await recorder.within(stage, "e").record("call", "llm_tool_call", assume_masked("errors over time"), about)
    analysis = assume_masked("The disk is full.\n\n" + "It was full yesterday as well. " * 20)
    await recorder.within(stage, "e").record("answer", "llm_response", analysis, {"final": True})
    await recorder.within(stage, "e").record("analysis", "final_analysis", analysis)
    return SessionOutcome(status="completed", analysis=analysis)


@pytest.fixture(scope="module")
async def gate() -> anyio.Event:
    return anyio.Event()


@pytest.fixture(scope="module")
async def service(
    browser: Browser, gate: anyio.Event, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Running]:
    """Alerts with the word LONG are long sessions that wait for the gate, PICTURES has some, RUNNING never ends; others
    are short.
    """

    async def work(session: Session, recorder: SessionRecorder, kept: KeptResults) -> SessionOutcome:
        if "RUNNING" in session.alert:
            return await two_running_calls(session, recorder, kept)
        if "PICTURES" in session.alert:
            return await with_pictures(session, recorder, kept)
        if "LONG" in session.alert:
            return await long_work(EVENTS, gate)(session, recorder, kept)
        opened = anyio.Event()
        opened.set()
        return await long_work(8, opened)(session, recorder, kept)

    async with running(f"sqlite:///{tmp_path_factory.mktemp('store') / 'tersely.db'}", work=work) as service:
        yield service


@pytest.fixture(scope="module")
async def session(service: Running) -> str:
    session = await service.submit(data="Pods of web restart", alert_type="PodRestarts")
    await service.until(session, "completed")
    return session


async def test_what_is_looked_for_stands_in_the_address(service: Running, session: str, page: Page) -> None:
    await service.until(await service.submit(data="Disk of db-1 is full"), "completed")
    await page.goto(service.address)
    await page.get_by_role("searchbox").fill("restart")
    await expect(page).to_have_url(re.compile(r"/\?q=restart$"))
    await expect(page.locator("li.row")).to_have_count(1)
    await page.get_by_role("button", name="done").click()
    await expect(page).to_have_url(re.compile("status=completed"))
    await page.reload()
    await expect(page.get_by_role("searchbox")).to_have_value("restart")
    await expect(page.get_by_role("button", name="done")).to_have_attribute("aria-pressed", "true")
    await expect(page.locator("li.row")).to_have_count(1)
    await page.go_back()
    await expect(page.get_by_role("button", name="all")).to_have_attribute("aria-pressed", "true")
    await page.get_by_role("searchbox").fill("nothing like this")
    await expect(page.get_by_role("heading", name="No matching sessions")).to_be_visible()


async def test_a_filter_that_is_chosen_right_after_typing_keeps_what_was_typed(
    service: Running, session: str, page: Page
) -> None:
    await page.goto(service.address)
    await expect(page.locator("li.row").first).to_be_visible()
    await page.evaluate(
        """() => {
          const field = document.querySelector('input[type=search]');
          field.value = 'restart';
          field.dispatchEvent(new Event('input'));
          [...document.querySelectorAll('button.chip')].find((one) => one.textContent === 'Done').click();
        }"""
    )
    await expect(page).to_have_url(re.compile(r"q=restart.*status=completed|status=completed.*q=restart"))
    await expect(page.get_by_role("searchbox")).to_have_value("restart")
    await expect(page.locator("li.row")).to_have_count(1)


async def test_a_session_that_comes_in_appears_by_itself(service: Running, session: str, page: Page) -> None:
    await page.goto(service.address)
    await expect(page.locator("#link-state")).to_have_text("live")
    await service.submit(data="Something new")
    await expect(page.locator("li.row").first).to_contain_text("Something new")
    await expect(page.locator("li.row").first.locator(".pill")).to_have_text("done")


async def test_the_keyboard_is_enough(service: Running, session: str, page: Page) -> None:
    await page.goto(f"{service.address}/?q=restart")
    await expect(page.locator("li.row")).to_have_count(1)
    await page.keyboard.press("j")
    await page.keyboard.press("Enter")
    await expect(page.locator("li.event").first).to_be_visible()
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog")).to_contain_text("search")
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog")).to_have_count(0)
    call = page.locator(".call-row").first
    while not await call.locator("summary").evaluate("one => one === document.activeElement"):
        await page.keyboard.press("j")
    await page.keyboard.press("Enter")
    await expect(call.locator("a[href*='/calls/']").first).to_be_visible()
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(re.compile("/calls/"))
    await expect(page.locator("virtual-rows .words").first).to_be_visible()
    await page.keyboard.press("u")
    await expect(page).to_have_url(re.compile(f"/sessions/{session}$"))
    await page.keyboard.press("u")
    await expect(page.get_by_role("heading", name="Sessions")).to_be_visible()
    await page.keyboard.press("g")
    await page.keyboard.press("m")
    await expect(page.get_by_role("heading", name="MCP servers")).to_be_visible()


async def test_every_event_has_an_address(service: Running, session: str, page: Page) -> None:
    events = (await service.get(f"/sessions/{session}/timeline"))["items"]
    for event in (events[0], next(one for one in events if one["event_type"] == "mcp_tool_summary")):
        await page.goto("about:blank")
        await page.goto(f"{service.address}/sessions/{session}#event-{event['event_id']}")
        marked = page.locator(".marked")
        await expect(marked).to_have_count(1)
        await expect(
            marked.locator(f"xpath=self::*[@id='event-{event['event_id']}'] | .//*[@id='event-{event['event_id']}']")
        ).to_have_count(1)
        await expect(marked.locator("details")).to_have_attribute("open", "")


async def test_lines_that_were_left_out_are_a_click_away(service: Running, session: str, page: Page) -> None:
    events = (await service.get(f"/sessions/{session}/timeline"))["items"]
    handle = next(one["metadata"]["handle"] for one in events if one["event_type"] == "mcp_tool_summary")
    await page.goto(f"{service.address}/sessions/{session}/results/{handle}#L117")
    await expect(page.locator(".line.here .no")).to_have_text("117")
    await expect(page.locator(".line.here")).to_contain_text("items/116 ")
    left_out = page.locator(".left-out .kinds li")
    await expect(left_out).to_contain_text(["118 ×"])
    await left_out.locator("a").first.click()
    await expect(page.locator(".line.here").first).to_contain_text("items/0 ")
    assert await page.locator(".line").count() < 100, "only what is in sight exists"


async def test_pictures_that_a_tool_returned_are_shown_and_what_only_says_it_is_one_is_a_file(
    service: Running, page: Page
) -> None:
    session = await service.submit(data="PICTURES")
    await service.until(session, "completed")
    events = (await service.get(f"/sessions/{session}/timeline"))["items"]
    await page.goto(f"{service.address}/sessions/{session}/calls/{events[0]['event_id']}")
    await expect(page.locator(".pictures figure")).to_have_count(2)
    picture = page.locator(".pictures img")
    await expect(picture).to_have_count(1)
    await page.wait_for_function("() => document.querySelector('.pictures img').naturalWidth === 1")
    await expect(page.locator(".pictures figcaption").nth(1)).to_contain_text("image/svg+xml")

    # By its own handle, which an analysis may name.
    files = (await service.get(f"/sessions/{session}/results"))["items"]
    handle = next(one["handle"] for one in files if one["mime_type"] == "image/png")
    await page.goto(f"{service.address}/sessions/{session}/results/{handle}")
    await expect(page.get_by_role("heading", name="graphs.draw")).to_be_visible()
    await page.wait_for_function("() => document.querySelector('.pictures img')?.naturalWidth === 1")


async def test_the_answer_that_is_the_analysis_is_read_once(service: Running, page: Page) -> None:
    session = await service.submit(data="PICTURES")
    await service.until(session, "completed")
    await page.goto(f"{service.address}/sessions/{session}")
    await expect(page.get_by_role("region", name="Analysis")).to_contain_text("The disk is full.")
    answer = page.locator(".event[data-type=llm_response]")
    await expect(answer.locator("details:not([open])")).to_have_count(1)
    await expect(page.get_by_text("The disk is full.").locator("visible=true")).to_have_count(1)
    await answer.locator("summary").click()
    await expect(answer).to_contain_text("The disk is full.")


async def test_running_calls_are_counted_and_no_savings_are_claimed_before_there_are_any(
    service: Running, page: Page
) -> None:
    session = await service.submit(data="RUNNING")
    await page.goto(f"{service.address}/sessions/{session}")
    await expect(page.locator(".call-row[data-status=running]")).to_have_count(2)
    await expect(page.locator(".quiet-facts div", has_text="tool calls").locator("dd")).to_have_text("2")
    await expect(page.locator(".calls-head")).to_contain_text("2 running")
    text = await page.locator("main").inner_text()
    assert "0%" not in text and "tool output" not in text and "→" not in text


async def test_an_unreachable_database_is_reported_and_tried_again(service: Running, session: str, page: Page) -> None:
    asked: list[str] = []

    def between(viewer: WebSocketRoute) -> None:
        upstream = viewer.connect_to_server()

        def heard(message: str | bytes) -> None:
            if "subscribe" in str(message):
                asked.append(str(message))
                if len(asked) == 1:
                    refused = {
                        "type": "subscription.error",
                        "code": "store_unavailable",
                        "message": "The database does not answer.",
                    }
                    viewer.send(json.dumps(refused))
                    return
            upstream.send(message)

        viewer.on_message(heard)

    await page.route_web_socket(re.compile("/api/v1/ws"), between)
    await keep_texts(page, "#link-state")
    await page.goto(f"{service.address}/sessions/{session}")
    await page.wait_for_function("() => window.texts.some((text) => text.includes('database unavailable'))")
    await expect(page.locator("#link-state")).to_have_text("live")
    assert len(asked) == 2 and asked[0] == asked[1]


async def test_only_what_was_changed_is_sent_and_what_is_wrong_is_said_at_its_field(
    service: Running, page: Page
) -> None:
    sent: list[Any] = []
    page.on(
        "request",
        lambda request: sent.append(json.loads(request.post_data or "null")) if request.method == "POST" else None,
    )
    await page.goto(f"{service.address}/submit")
    await page.get_by_role("button", name="Investigate").click()
    await expect(page.locator("#data-wrong")).to_contain_text("empty")
    await expect(page.get_by_label("Alert", exact=True)).to_be_focused()
    assert not sent

    await page.get_by_label("Alert", exact=True).fill("Pods restart")
    await page.get_by_text("Runbook", exact=True).click()
    await page.get_by_label("Runbook for this alert").fill("x" * 66_000)
    await page.get_by_role("button", name="Investigate").click()
    await expect(page.locator("#runbook-wrong")).to_contain_text("66,000 bytes")
    await expect(page.get_by_label("Runbook for this alert")).to_have_attribute("aria-invalid", "true")

    await page.get_by_label("Runbook for this alert").fill("")
    await page.get_by_text("Override servers and tools").click()
    await page.get_by_label("Code execution").select_option("off")
    await page.get_by_role("button", name="Investigate").click()
    await expect(page).to_have_url(re.compile("/sessions/"))
    assert sent[-1] == {"data": "Pods restart", "mcp": {"native_tools": {"code_execution": False}}}


async def test_the_colours_that_were_chosen_stay(service: Running, page: Page) -> None:
    await page.goto(service.address)
    await page.get_by_role("button", name=re.compile("^Theme")).click()
    await page.get_by_role("button", name="Theme: light").click()
    await page.reload()
    await expect(page.get_by_role("button", name="Theme: dark")).to_be_visible()
    assert await page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "dark"


async def test_no_page_is_wider_than_a_phone_however_long_its_words(service: Running, page: Page) -> None:
    await page.set_viewport_size({"width": 360, "height": 740})
    session = await service.submit(data="Disk of " + "x" * 400 + " is full")
    await service.until(session, "completed")
    events = (await service.get(f"/sessions/{session}/timeline"))["items"]
    call = next(one["event_id"] for one in events if one["event_type"] == "llm_tool_call")
    places = (
        "/",
        f"/sessions/{session}",
        f"/sessions/{session}/calls/{call}",
        f"/sessions/{session}/trace",
        "/submit",
        "/servers",
        "/savings",
    )
    for place in places:
        await page.goto(service.address + place)
        await page.wait_for_load_state("networkidle")
        assert await page.evaluate("document.documentElement.scrollWidth") <= 360, place


async def test_a_long_session_is_drawn_whole_and_in_order_while_it_streams(
    service: Running, gate: anyio.Event, page: Page
) -> None:
    """The small form of bench/dashboard.py, which measures."""
    session = await service.submit(data="LONG")
    await page.goto(f"{service.address}/sessions/{session}")
    await expect(page.locator("#link-state")).to_have_text("live")
    gate.set()
    await expect(page.locator(".session-head .pill")).to_have_text("done")
    shown = EVENTS // 4 * 3 + 1
    await expect(page.locator("li.event")).to_have_count(shown)
    events: list[str] = []
    after = 0
    while items := (await service.get(f"/sessions/{session}/timeline", after=after, limit=500))["items"]:
        events += [one["event_id"] for one in items if one["event_type"] != "mcp_tool_summary"]
        after = items[-1]["sequence"]
    assert (
        await page.locator("li.event").evaluate_all("rows => rows.map(row => row.id.replace(/^event-(calls-)?/, ''))")
        == events
    )
    await expect(page.locator(".call-row[data-status=running], .event[data-status=streaming]")).to_have_count(0)
