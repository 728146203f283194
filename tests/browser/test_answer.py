"""The answer first, and true: one investigation of the demonstration without a model, on all pages that show it."""

import re
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from playwright.async_api import Browser, Page, expect

from tests.browser.conftest import PATIENCE, keep_texts, watch
from tests.browser.service import Up, demo_configuration, demo_incident, service

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
async def up(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Up]:
    configuration = demo_configuration(demo_incident())
    configuration["mcp_servers"]["billing"] = {"transport": {"command": "/bin/false", "args": ["--token=abc"]}}
    async with service(tmp_path_factory.mktemp("up"), configuration) as up:
        yield up


@pytest.fixture(scope="module")
async def session(up: Up) -> Any:
    found = await up.submit(demo_incident().alert)
    return await up.until(found, "completed")


async def call_of(up: Up, session: Any, tool: str) -> Any:
    timeline = (await up.ask("GET", f"/sessions/{session['id']}/timeline", params={"limit": 500}))["items"]
    return next(
        one for one in timeline if one["event_type"] == "llm_tool_call" and one["metadata"]["tool_name"] == tool
    )


async def test_the_cause_is_the_largest_text_and_its_evidence_opens_at_the_line(
    up: Up, session: Any, page: Page
) -> None:
    await page.goto(f"{up.address}/sessions/{session['id']}")
    verdict = page.get_by_role("region", name="Verdict")
    await expect(verdict.locator(".cause")).to_have_text(session["verdict"]["cause"])
    # Found and measured in one step: an element that the page replaces in between has no style.
    sizes = """place => Math.max(...[...document.querySelectorAll(place)]
      .map(one => parseFloat(getComputedStyle(one).fontSize)))"""
    assert await page.evaluate(sizes, "main *") == 22 == await page.evaluate(sizes, ".verdict .cause")
    await expect(page.locator(".glance")).to_contain_text("tool output")
    await expect(page.locator("main")).not_to_contain_text(re.compile(r"\d% (saved|spared)"))
    # Rate, take, close; each stays after a reload.
    right = page.get_by_role("button", name="Right", exact=True)
    await right.click()
    await expect(right).to_have_attribute("aria-pressed", "true")
    await page.get_by_role("button", name="Take it").click()
    await expect(page.locator(".triage")).to_contain_text("Owner: local")
    await page.reload()
    await expect(right).to_have_attribute("aria-pressed", "true")
    # A word of the survey about the line; the chip leads to it.
    chip = verdict.locator("a.evidence").first
    line = session["verdict"]["evidence"][0]["first_line"]
    await chip.click()
    await expect(page.locator(".line.here .no").first).to_have_text(str(line))


async def test_calls_are_grouped_filtered_searched_and_times_switch(up: Up, session: Any, page: Page) -> None:
    await page.goto(f"{up.address}/sessions/{session['id']}")
    calls = page.locator(".call-row")
    total = session["usage"]["tool_calls"]
    await expect(page.locator(".calls-head b")).to_have_text([f"{total} calls"])
    await expect(page.locator(".event .at .after").first).to_have_text(re.compile(r"^\+[\d.]+ s$"))
    await page.keyboard.press("/")
    await page.keyboard.type("get_logs")
    await expect(page.locator(".found")).to_contain_text("match")
    await page.get_by_role("searchbox").fill("")
    await page.get_by_role("group", name="Filter").get_by_role("button", name="Answers").click()
    await expect(calls).to_have_count(0)
    await page.get_by_role("group", name="Filter").get_by_role("button", name="Tools").click()
    await expect(calls.first).to_be_visible()
    # What is unfolded by key is brought into view.
    await calls.last.locator("summary").focus()
    await page.keyboard.press("Enter")
    await expect(calls.last.locator(".call-body")).to_be_in_viewport(ratio=0.5)
    # UTC first, as the texts of tools and alerts; then the reader's own zone, and it stays.
    fired = page.locator(".moments time").first
    before = await fired.inner_text()
    await expect(page.locator("#zone")).to_have_text("UTC")
    await page.locator("#zone").click()
    await page.reload()
    await expect(page.locator("#zone")).not_to_have_text("")
    assert await fired.get_attribute("title") and before
    await page.evaluate("localStorage.removeItem('tersely-zone')")


async def test_a_filter_that_is_chosen_right_after_typing_is_applied_once(up: Up, session: Any, page: Page) -> None:
    """Drawn again after the pause of the search, the timeline would take the focus from what was unfolded meanwhile."""
    await page.goto(f"{up.address}/sessions/{session['id']}")
    await expect(page.locator(".call-row").first).to_be_visible()
    stayed = await page.evaluate(
        """async () => {
          const field = document.querySelector('.timeline-bar input');
          field.value = 'get';
          field.dispatchEvent(new Event('input'));
          document.querySelector('[data-filter=tools]').click();
          const frame = () => new Promise(requestAnimationFrame);
          let row = null;
          while (!(row = document.querySelector('.call-row summary'))) await frame();
          row.focus();
          // Of two timers with the same pause, the one that is set later ends later.
          await new Promise((done) => setTimeout(done, 200));
          return row.isConnected && row === document.activeElement;
        }"""
    )
    assert stayed
    await expect(page.locator(".found")).to_contain_text("match")


async def test_a_session_is_shared_printed_asked_about_and_run_again(up: Up, session: Any, page: Page) -> None:
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await keep_texts(page, ".said")
    await page.goto(f"{up.address}/sessions/{session['id']}")
    await page.get_by_text("Share", exact=True).click()
    await page.get_by_role("button", name="Copy as Markdown").click()
    await page.wait_for_function("() => window.texts.includes('Markdown copied')")
    text = await page.evaluate("navigator.clipboard.readText()")
    assert f"**{session['verdict']['cause']}**" in text and "### Do now" in text and "## Tool calls" in text
    # On paper there are no controls, times are exact, and the skip link is not there.
    await page.emulate_media(media="print")
    for hidden in (".skip", ".bar", ".page-head button", ".timeline-bar", ".menu"):
        await expect(page.locator(hidden).first).to_be_hidden()
    await page.emulate_media(media="screen")
    await page.get_by_role("button", name="Ask", exact=True).first.click()
    await page.keyboard.type("Which release brought this?")
    await page.keyboard.press("Enter")
    answer = page.locator(".question")
    await expect(answer.locator(".asked-foot")).to_be_visible()
    await expect(answer).to_contain_text("Which release brought this?")
    await page.get_by_role("button", name="Run again").click()
    await expect(page.locator(".crumbs")).to_be_visible()
    await page.wait_for_url(lambda url: session["id"] not in url)
    again = page.url.rpartition("/")[2]
    await up.until(again, "completed")
    await page.locator(".seen").first.get_by_role("link", name="compare").click()
    await expect(page.get_by_role("row", name=re.compile("^Cause"))).to_contain_text(session["verdict"]["cause"])


@pytest.mark.parametrize("tool", ["get_logs", "get_metrics"])
async def test_marks_say_what_became_of_every_line_or_value(up: Up, session: Any, page: Page, tool: str) -> None:
    call = await call_of(up, session, tool)
    await page.goto(f"{up.address}/sessions/{session['id']}/calls/{call['event_id']}")
    legend = page.locator(".legend-marks span")
    await expect(legend.first).to_be_visible()
    counts = {
        words.split(" ", 2)[2]: int(words.split()[0].replace(",", "")) for words in await legend.all_inner_texts()
    }
    lost = counts["left out"]
    rows = page.locator("virtual-rows .line")
    if tool == "get_logs":
        whole = await up.ask("GET", f"/sessions/{session['id']}/results/{call['metadata']['handle']}?lines=1-1")
        assert sum(counts.values()) == whole["lines"]
        await expect(page.locator(".left-out .kinds li").first).to_contain_text(re.compile(r"^[\d,]+ ×"))
        await expect(page.locator(".histogram svg")).to_be_visible()
        await expect(page.locator(".words[data-level=error], .words[data-level=warn]").first).to_be_visible()
        await page.get_by_role("button", name="Wrap").click()
        await expect(page.locator("virtual-rows.wrapped")).to_be_visible()
    else:
        assert sum(counts.values()) > lost > 0
        await expect(page.locator(".lost-of").first).to_be_attached()
        await page.locator(".left-out .path").first.click()
        await expect(page.locator(".line.here.is-lost")).to_be_visible()
    await expect(page.locator(".left-out")).to_contain_text(f"{lost:,} of {sum(counts.values()):,}")
    await page.get_by_role("button", name="Left out", exact=True).click()
    await expect(rows.first).to_be_visible()
    if tool == "get_logs":
        await expect(page.locator(".line:not(.is-lost)")).to_have_count(0)
        await page.get_by_role("button", name="Kept", exact=True).click()
        await expect(page.locator(".line.is-lost")).to_have_count(0)


async def test_the_waterfall_has_the_numbers_of_the_session(up: Up, session: Any, page: Page) -> None:
    await page.goto(f"{up.address}/sessions/{session['id']}/trace")
    await expect(page.locator(".trace[data-kind=stage]")).to_have_count(1)
    await expect(page.locator(".facts")).to_contain_text(str(session["usage"]["tool_calls"]))
    tools = page.locator(".trace:is([data-kind=tool], [data-kind=error])")
    await expect(tools).to_have_count(session["usage"]["tool_calls"])
    starts = await tools.locator(".wf-track b").evaluate_all("bars => bars.map(bar => parseFloat(bar.style.left))")
    assert starts == sorted(starts) and max(starts) > 0
    await page.locator(".trace[data-kind=stage] summary").click()
    await expect(tools).to_have_count(0)


async def test_what_is_away_is_said_on_every_page_and_can_be_tried_again(up: Up, session: Any, page: Page) -> None:
    await page.goto(f"{up.address}/servers")
    await expect(page.locator("#banner")).to_contain_text("billing is unreachable")
    server = page.get_by_role("region", name="billing")
    await expect(server).to_contain_text("/bin/false")
    await expect(server).to_contain_text("unreachable")
    await server.get_by_role("button", name="Retry now").click()
    await page.goto(f"{up.address}/settings")
    await expect(page.locator("#banner")).to_contain_text("billing")
    row = page.get_by_role("row", name=re.compile("billing.transport.args"))
    await expect(row).to_contain_text("***")
    assert "abc" not in await page.locator("main").inner_text()
    await page.goto(f"{up.address}/savings")
    await expect(page.get_by_role("heading", name="Tokens by day")).to_be_visible()


async def test_the_list_shows_the_verdict_and_why_a_search_matched(up: Up, session: Any, page: Page) -> None:
    await page.goto(up.address)
    row = page.locator(f"li.row[data-id='{session['id']}']")
    await expect(row.locator(".cause-line")).to_contain_text(session["verdict"]["cause"])
    await expect(row.locator(".severity")).to_have_text("critical")
    await expect(row.locator(".service")).to_have_text(session["verdict"]["service"])
    word = session["verdict"]["service"]
    await page.get_by_role("searchbox").fill(word)
    await expect(page.locator(".matched mark").first).to_be_visible()
    await expect(page).to_have_url(re.compile(f"q={re.escape(word)}"))
    await page.get_by_role("button", name="Not rated").click()
    await expect(page).to_have_url(re.compile("rating=none"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 1024, 390])
async def test_no_page_overflows_and_nothing_fails(
    up: Up, session: Any, browser: Browser, width: int, scheme: str
) -> None:
    context = await browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme="dark" if scheme == "dark" else "light"
    )
    context.set_default_timeout(PATIENCE)
    page = await context.new_page()
    watched = watch(page)
    for path in ("", f"sessions/{session['id']}", f"sessions/{session['id']}/trace", "servers", "savings", "settings"):
        await page.goto(f"{up.address}/{path}")
        await expect(page.locator("main h1")).to_be_visible()
        await expect(page.locator("main .skeleton")).to_have_count(0)
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (path, width)
    assert not watched.errors and not watched.forbidden and not watched.left()
    await context.close()


async def test_the_first_view_is_small_and_everything_is_compressed(up: Up, session: Any, browser: Browser) -> None:
    context = await browser.new_context()
    context.set_default_timeout(PATIENCE)
    page = await context.new_page()
    wire = await context.new_cdp_session(page)
    await wire.send("Network.enable")
    sizes: list[int] = []
    wire.on("Network.loadingFinished", lambda event: sizes.append(int(event["encodedDataLength"])))
    await page.goto(f"{up.address}/sessions/{session['id']}")
    await expect(page.locator(".cause")).to_be_visible()
    await page.wait_for_load_state("networkidle")
    assert len(sizes) > 10 and sum(sizes) <= 120_000, sum(sizes)
    await context.close()
    async with httpx2.AsyncClient(base_url=up.address, trust_env=False) as http:
        for path in ("/style.css", f"/api/v1/sessions/{session['id']}/timeline"):
            for coding in ("br", "gzip"):
                answer = await http.get(path, headers={"Accept-Encoding": coding})
                assert answer.headers["content-encoding"] == coding and "Accept-Encoding" in answer.headers["vary"]
            plain = await http.get(path, headers={"Accept-Encoding": "identity"})
            assert "content-encoding" not in plain.headers and plain.content == answer.content
