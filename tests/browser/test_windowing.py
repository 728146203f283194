"""A session too long to be in the page as a whole: what is far from the reader is put aside, and comes back when
somebody wants it.

The service streams in turns that the tests open: first as much as makes the page put cards aside, then more.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest
from playwright.async_api import Browser, Page, expect

from tersely.events.recorder import SessionRecorder
from tersely.masking.masked import assume_masked
from tersely.results.kept import KeptResults
from tersely.sessions.worker import SessionOutcome
from tersely.store.sessions import Session
from tests.browser.conftest import settled
from tests.web.running import Running, running

FIRST, MORE = 900, 120
"""Cards of the first turn and of the second; the page puts cards aside from 300 on."""


@dataclass
class Stage:
    service: Running
    session: str
    further: anyio.Event
    events: list[dict[str, Any]] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"{self.service.address}/sessions/{self.session}"

    def numbered(self, number: int) -> str:
        """The id of the event that says this number."""
        return str(self.events[number]["event_id"])


@pytest.fixture(scope="module")
async def stage(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    further = anyio.Event()

    async def work(session: Session, recorder: SessionRecorder, kept: KeptResults) -> SessionOutcome:
        (stage,) = await recorder.plan(["look"])
        await recorder.stage_status(stage, "in_progress")
        inner = recorder.within(stage, "e")
        for number in range(FIRST + MORE):
            if number == FIRST:
                await further.wait()
            # Every seventh is long, so that cards differ in height and long ones are folded.
            words = (
                f"Remark {number:04d}: nothing yet."
                + " The pool of connections is as large as it was." * (number % 7 == 0) * 20
            )
            await inner.record(f"{number}", "llm_response", assume_masked(f"{words}\n\nsign-{number:04d}"))
        await recorder.stage_status(stage, "completed")
        return SessionOutcome(status="completed", analysis=assume_masked("All is well."))

    async with running(f"sqlite:///{tmp_path_factory.mktemp('store') / 'tersely.db'}", work=work) as service:
        stage = Stage(service, await service.submit(), further)
        with anyio.fail_after(300):
            while len(stage.events) < FIRST:
                after = stage.events[-1]["sequence"] if stage.events else 0
                found = (await service.get(f"/sessions/{stage.session}/timeline", after=after, limit=500))["items"]
                stage.events += found
                await anyio.sleep(0 if found else 0.1)
        yield stage
        further.set()


async def at_the_top(page: Page, stage: Stage) -> None:
    """Who opens a session that runs is at its end; this one goes up from there."""
    await page.goto(stage.address)
    await all_drawn(page, FIRST)
    await page.wait_for_function("() => scrollY > innerHeight")
    await page.evaluate("scrollTo(0, 0)")
    await expect(page.locator(f"#event-{stage.numbered(0)}")).to_be_in_viewport()


async def all_drawn(page: Page, count: int) -> None:
    await page.wait_for_function(
        "(count) => Number(document.querySelector('.timeline')?.dataset.cards ?? 0) >= count", arg=count
    )


async def test_only_what_is_near_the_reader_is_in_the_page_and_scrolling_brings_the_rest_in_order(
    stage: Stage, page: Page
) -> None:
    await at_the_top(page, stage)
    await page.wait_for_function("() => document.querySelectorAll('li.event').length < 250")
    seen: list[str] = []
    height = 0
    while True:
        # What is in sight now, in order; then a screen further down.
        await expect(page.locator("li.event").first).to_be_attached()
        await page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        visible = await page.evaluate(
            """() => [...document.querySelectorAll('li.event')]
              .filter((row) => { const at = row.getBoundingClientRect(); return at.bottom > 50 && at.top < innerHeight; })
              .map((row) => row.id.slice('event-'.length))"""
        )
        seen += [one for one in visible if one not in seen[-60:]]
        before = await page.evaluate("scrollY")
        await page.evaluate("scrollBy(0, innerHeight * 0.6)")
        if await page.evaluate("scrollY") == before:
            break
        height += 1
        assert height < 400, "the page ends"
        assert await page.locator("li.event").count() < 400, "only what is near exists"
    assert seen == [one["event_id"] for one in stage.events]


async def test_a_link_to_an_old_event_leads_to_it_and_it_stays_in_sight(stage: Stage, page: Page) -> None:
    for number in (7, 451, 777):
        await page.goto("about:blank")
        await page.goto(f"{stage.address}#event-{stage.numbered(number)}")
        marked = page.locator(".marked")
        await expect(marked).to_have_attribute("id", f"event-{stage.numbered(number)}")
        await expect(marked).to_contain_text(f"sign-{number:04d}")
        await expect(marked).to_be_in_viewport()
        # What is drawn around it afterwards does not push it away.
        await page.wait_for_function("() => document.querySelectorAll('.group:not(.aside) li.event').length >= 40")
        await expect(marked).to_be_in_viewport()


async def test_a_link_within_the_page_leads_to_what_was_put_aside(stage: Stage, page: Page) -> None:
    await at_the_top(page, stage)
    wanted = stage.numbered(640)
    await expect(page.locator(f"#event-{wanted}")).to_have_count(0)
    await page.evaluate("(id) => { location.hash = `event-${id}`; }", wanted)
    await expect(page.locator(f"#event-{wanted}")).to_be_in_viewport()
    await expect(page.locator(f"#event-{wanted}")).to_contain_text("sign-0640")


async def test_the_browsers_own_search_finds_words_that_are_not_drawn(stage: Stage, page: Page) -> None:
    """A fragment of text in the address is looked for by the same code that Ctrl+F uses."""
    await at_the_top(page, stage)
    wanted = page.locator(f"#event-{stage.numbered(700)}")
    await expect(wanted).to_have_count(0)
    await page.goto(f"{stage.address}#:~:text=sign%2D0700")
    await expect(wanted).to_be_in_viewport()
    await expect(wanted).to_contain_text("sign-0700")


async def test_what_was_unfolded_is_unfolded_when_it_comes_back(stage: Stage, page: Page) -> None:
    await at_the_top(page, stage)
    card = page.locator(f"#event-{stage.numbered(14)}")
    await card.locator("summary").click()
    await expect(card.locator("details")).to_have_attribute("open", "")
    await page.evaluate("() => { document.activeElement.blur(); scrollTo(0, document.documentElement.scrollHeight); }")
    await expect(card).to_have_count(0)
    await page.evaluate("scrollTo(0, 0)")
    await expect(card.locator("details")).to_have_attribute("open", "")
    await expect(card).to_contain_text("sign-0014")


async def test_the_view_follows_new_events_at_the_end_and_stays_put_elsewhere(stage: Stage, page: Page) -> None:
    reader = await page.context.new_page()
    for one in (page, reader):
        await one.goto(stage.address)
        await all_drawn(one, FIRST)
        await expect(one.locator("#link-state")).to_have_text("live")
    await page.wait_for_function("() => innerHeight + scrollY >= document.documentElement.scrollHeight - 40")
    await reader.goto(f"{stage.address}#event-{stage.numbered(450)}")
    read = reader.locator(f"#event-{stage.numbered(450)}")
    await expect(read).to_be_in_viewport()
    await settled(reader)
    before = await read.evaluate("row => row.getBoundingClientRect().top")

    stage.further.set()
    await all_drawn(reader, FIRST + MORE)
    await expect(reader.locator(".session-head .pill")).to_have_text("done")
    await expect(reader.locator(".result")).to_contain_text("All is well.")
    await settled(reader)
    assert abs(await read.evaluate("row => row.getBoundingClientRect().top") - before) < 2
    assert await reader.locator("li.event").count() < 300, "what came far below was not drawn"

    await all_drawn(page, FIRST + MORE)
    last = (
        await stage.service.get(f"/sessions/{stage.session}/timeline", after=stage.events[-1]["sequence"], limit=500)
    )["items"][-1]
    await expect(page.locator(f"#event-{last['event_id']}")).to_be_in_viewport()
    await reader.close()
