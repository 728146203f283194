"""Every page of a service with sessions of all kinds: axe without findings, sizes of targets, and what the review of
the dashboard found. One service and one browser for all of it.
"""

import re
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from playwright.async_api import Browser, Page, Route, expect

from tersely.settings.model import TokenSettings
from tests.browser.conftest import PATIENCE
from tests.browser.showcase import STUCK, THOUGHT, Showcase, showcase
from tests.web.running import running, settings_for

pytestmark = pytest.mark.process

HERE = Path(__file__).parent
AXE = HERE / "node_modules" / "axe-core" / "axe.min.js"
WIDTHS = (1440, 1024, 390)
SMALLEST_TARGET = 24

RUN_AXE = """async (rules) => (await axe.run(document, rules)).violations.map((one) =>
  [one.id, one.impact, one.help, one.nodes.slice(0, 3).map((node) => node.html.slice(0, 160))])"""

SMALL_TARGETS = """(smallest) => [...document.querySelectorAll('a[href], button, summary, input, select, textarea')]
  .filter((one) => one.checkVisibility({ visibilityProperty: true, opacityProperty: true }) && !one.closest('.unseen, .skip, .room'))
  // Links within a sentence have the height of its line.
  .filter((one) => !(getComputedStyle(one).display === 'inline' && one.closest('p, li, td, dd, pre, cite')))
  .map((one) => {
    // A label belongs to its field; a row of the list is a link as a whole.
    const box = (one.closest('label, li.row') ?? one).getBoundingClientRect();
    return [Math.round(box.width * 10) / 10, Math.round(box.height * 10) / 10, one.outerHTML.slice(0, 140)];
  })
  .filter(([width, height]) => width && Math.min(width, height) < smallest)"""


@pytest.fixture(scope="module")
def axe() -> str:
    if not AXE.is_file():
        if shutil.which("npm") is None:
            pytest.skip("there is no npm on this machine to get axe-core from")
        done = subprocess.run(
            ["npm", "ci", "--no-audit", "--no-fund", "--silent"], cwd=HERE, capture_output=True, timeout=90, check=False
        )
        if done.returncode or not AXE.is_file():
            pytest.skip(f"npm could not get axe-core: {done.stderr.decode('utf-8', 'replace')[-300:]}")
    return AXE.read_text("utf-8")


@pytest.fixture(scope="module")
async def shown(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Showcase]:
    async with showcase(tmp_path_factory.mktemp("up")) as shown:
        yield shown


async def unfold(page: Page) -> None:
    # What is out of view has an estimated height until it is drawn: targets would move while they are measured.
    await page.locator(".group").evaluate_all("all => all.forEach(one => one.style.contentVisibility = 'visible')")
    await page.locator("main details:not(.menu)").evaluate_all("all => all.forEach(one => one.open = true)")
    for box in await page.get_by_label("Choose the servers").all():
        await box.check()


PAGES: dict[str, tuple[str, str]] = {
    "list": ("/", "li.row"),
    "no match": ("/?q=nothing-like-this", ".empty"),
    "session": ("/sessions/{done}", "li.event"),
    "stages": ("/sessions/{staged}", ".stage-link"),
    "running": ("/sessions/{running}", ".streaming"),
    "failed": ("/sessions/{failed}", ".problem"),
    "call, log": ("/sessions/{done}/calls/{get_logs}", ".legend-marks span"),
    "call, summarized": ("/sessions/{done}/calls/{get_events}", ".legend-marks span"),
    "call, JSON": ("/sessions/{done}/calls/{list_pods}", ".legend-marks span"),
    "waterfall": ("/sessions/{done}/trace", "li.trace"),
    "compare": ("/sessions/{done}/compare/{again}", ".compare td"),
    "submit": ("/submit", "#override"),
    "servers": ("/servers", ".server .problem"),
    "costs": ("/savings?days=7", ".plot"),
    "settings": ("/settings", ".configuration td"),
    "not found": ("/nowhere", "h1"),
    "no such session": ("/sessions/00000000-0000-0000-0000-000000000000", ".empty h1"),
}


@pytest.fixture(scope="module")
async def places(shown: Showcase) -> dict[str, str]:
    names = {name: getattr(shown, name) for name in ("done", "again", "staged", "failed", "running")}
    names |= {tool: await shown.call(tool) for tool in ("get_logs", "get_events", "list_pods")}
    return names


async def inspect(page: Page, axe: str) -> None:
    """All rules of all impacts, target sizes included; between light and dark only colours differ."""
    await page.evaluate(axe)
    found: list[Any] = []
    for width in WIDTHS:
        await page.set_viewport_size({"width": width, "height": 900})
        await page.evaluate("scrollTo(0, 0)")
        for scheme in ("light", "dark"):
            await page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
            rules: dict[str, Any] = {"resultTypes": ["violations"], "rules": {"target-size": {"enabled": True}}}
            if scheme == "dark":
                rules = {"resultTypes": ["violations"], "runOnly": ["color-contrast"]}
            found += [[width, scheme, *one] for one in await page.evaluate(RUN_AXE, rules)]
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), width
    found += [[WIDTHS[-1], "target", *one] for one in await page.evaluate(SMALL_TARGETS, SMALLEST_TARGET)]
    assert not found, "\n".join(map(str, found))


@pytest.mark.parametrize("name", PAGES)
async def test_axe_finds_nothing_at_any_width_in_light_and_dark(
    shown: Showcase, places: dict[str, str], page: Page, axe: str, name: str
) -> None:
    address, there = PAGES[name]
    await page.set_viewport_size({"width": WIDTHS[0], "height": 900})
    await page.goto(shown.up.address + address.format(**places))
    await expect(page.locator(there).first).to_be_attached()
    await expect(page.locator("main .skeleton")).to_have_count(0)
    await unfold(page)
    await inspect(page, axe)


async def test_axe_finds_nothing_on_the_login_page(page: Page, axe: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'tersely.db'}"
    token = TokenSettings.model_validate({"name": "ops", "sha256": "0" * 64, "scopes": ["read"]})
    async with running(url, settings=settings_for(url, tokens=[token])) as service:
        await page.goto(f"{service.address}/login")
        await expect(page.get_by_label("Access token")).to_be_visible()
        await inspect(page, axe)


# What the review of the dashboard found: B4 to B23 are its numbers


async def test_numbers_are_the_same_on_every_page(shown: Showcase, page: Page) -> None:
    """B7, with agents in parallel, cached summaries and cached prompts."""
    session = await shown.up.ask("GET", f"/sessions/{shown.done}")
    usage = session["usage"]
    trace = (await shown.up.ask("GET", f"/sessions/{shown.done}/trace", params={"limit": 500}))["items"]
    cached = sum(one["response"].get("cached_tokens", 0) for one in trace)
    assert cached > 0 and any(one["response"].get("outcome") == "cached" for one in trace)
    await page.goto(f"{shown.up.address}/sessions/{shown.done}")
    for name in ("tool_calls", "model_calls"):
        words = name.replace("_", " ")
        await expect(page.locator(".quiet-facts div", has_text=words).locator("dd")).to_contain_text(str(usage[name]))
    await expect(page.get_by_role("button", name=re.compile("^Tools"))).to_have_text(f"Tools{usage['tool_calls']}")
    failed = page.locator(".call-row[data-status=failed]")
    await expect(failed).to_have_count(2)
    await expect(page.get_by_role("button", name=re.compile("^Errors"))).to_have_text("Errors2")
    price = await page.locator(".quiet-facts div", has_text="price").locator("dd").inner_text()

    # Both agents got the same results, each with the text that its model received.
    for agent in ("all-systems", "cluster-only"):
        calls = page.locator(".event", has=page.locator(".agent", has_text=agent)).locator(".call-row")
        await expect(calls.filter(has_text="get_logs").locator(".saved i")).to_have_count(1)

    await page.get_by_role("link", name="Waterfall").click()
    facts = page.locator(".facts")
    await expect(facts.locator("div", has_text="model calls").locator("dd")).to_have_text(str(usage["model_calls"]))
    await expect(facts.locator("div", has_text="tool calls").locator("dd")).to_have_text(str(usage["tool_calls"]))
    await expect(facts).to_contain_text(f"({cached / 1000:.0f}k cached)")
    await expect(facts).to_contain_text(price)
    await expect(page.get_by_role("button", name=re.compile("^Models"))).to_have_text(f"Models{usage['model_calls']}")
    await expect(page.locator(".trace[data-kind=agent]")).to_have_count(3)

    # The sums of all sessions, on the page of costs and by the API.
    sessions = (await shown.up.ask("GET", "/sessions", params={"limit": 100}))["items"]
    spending = await shown.up.ask("GET", "/system/spending")
    questions = (await shown.up.ask("GET", f"/sessions/{shown.done}/chat"))["items"]
    calls = sum(one["usage"]["model_calls"] for one in [*sessions, *questions])
    assert sum(one["calls"] for one in spending["models"]) == calls
    await page.goto(f"{shown.up.address}/savings?days=7")
    await expect(page.locator(".facts div", has_text=re.compile("^sessions")).locator("dd")).to_have_text(
        str(len(sessions))
    )


async def test_prose_in_the_timeline_looks_as_it_is_written(shown: Showcase, page: Page) -> None:
    """B9, B11, B13: lists with their signs, headings near their text, a thought said once."""
    await page.goto(f"{shown.up.address}/sessions/{shown.done}")
    await expect(page.locator(".event[data-type=final_analysis]")).to_have_count(3)
    await expect(page.locator(".question .prose")).to_be_visible()
    await unfold(page)
    prose = page.locator(".event .prose", has=page.locator("ol")).first
    sign = "one => getComputedStyle(one).listStyleType"
    assert await prose.locator("ol > li").first.evaluate(sign) == "decimal"
    assert await page.locator(".question .prose ul > li").first.evaluate(sign) == "disc"
    gaps = await prose.locator(":scope > :is(h3, h4, h5, h6)").evaluate_all(
        "all => all.map(one => one.nextElementSibling.getBoundingClientRect().top - one.getBoundingClientRect().bottom)"
    )
    assert len(gaps) > 1 and max(gaps) < 10, gaps
    thought = page.locator(".event[data-type=llm_thinking]").first
    assert (await thought.inner_text()).count(THOUGHT) == 1
    await thought.locator("summary").click()
    assert (await thought.inner_text()).count(THOUGHT) == 1


async def test_a_failed_session_gives_its_reason_once(shown: Showcase, page: Page) -> None:
    """B15, with two agents that fail for the same reason; B22: nothing was saved, and nothing claims it was."""
    await page.goto(f"{shown.up.address}/sessions/{shown.failed}")
    await expect(page.locator(".event[data-type=error]")).to_contain_text(["reason is at the top"] * 2)
    text = await page.locator("main").inner_text()
    assert text.count("does not accept the key") == 1 and ".." not in text
    assert "0%" not in text and "tool calls" not in text


async def test_a_server_is_away_since_the_outage_began(shown: Showcase, page: Page) -> None:
    """B10: trying again does not begin a new outage."""

    async def billing() -> Any:
        servers = (await shown.up.ask("GET", "/system/mcp-servers"))["items"]
        return next(one for one in servers if one["name"] == "billing")

    before = await billing()
    await page.goto(f"{shown.up.address}/servers")
    card = page.get_by_role("region", name="billing")
    await card.get_by_role("button", name="Retry now").click()
    with anyio.fail_after(60):
        while (after := await billing())["restarts"] <= before["restarts"]:
            await anyio.sleep(0.05)
    assert after["since"] == before["since"]
    await expect(card.locator("time.lasting")).to_have_attribute("datetime", before["since"])


async def test_the_list_uses_its_room(shown: Showcase, page: Page) -> None:
    """B16 and B17: at 390 the facts of a row are one line at its left; at 1024 the alert has most of the width."""
    await page.set_viewport_size({"width": 1024, "height": 900})
    await page.goto(shown.up.address)
    row = page.locator(f"li.row[data-id='{shown.cancelled}']")
    await expect(row).to_contain_text("Cancelled by the local user.")
    # Found and measured in one step: rows are replaced when their sessions change.
    share = """(id) => {
      const row = document.querySelector(`li.row[data-id='${id}']`);
      return row.querySelector('.what').offsetWidth / row.offsetWidth;
    }"""
    assert await page.evaluate(share, shown.cancelled) > 0.5
    await page.set_viewport_size({"width": 390, "height": 900})
    left, pill, took = await page.evaluate(
        """(id) => ['.what', '.pill', '[data-label=took]'].map((one) => {
          const { left, top, height } = document.querySelector(`li.row[data-id='${id}'] ${one}`).getBoundingClientRect();
          return [left, top + height / 2];
        })""",
        shown.cancelled,
    )
    assert pill[0] == left[0] and abs(pill[1] - took[1]) < 4 and took[0] < 200


async def test_costs_fit_a_phone(shown: Showcase, page: Page) -> None:
    """B19: a wide table shows that it can be scrolled, and no label is cut or too small to read."""
    await page.set_viewport_size({"width": 1024, "height": 900})
    await page.goto(f"{shown.up.address}/savings?days=7")
    await expect(page.locator(".time-plot")).to_have_count(2)
    await page.set_viewport_size({"width": 390, "height": 900})
    # Both plots are drawn for the new width, with all that stands below them.
    await page.wait_for_function(
        "() => [...document.querySelectorAll('.time-plot')].filter((one) => one.viewBox.baseVal.width < 400).length === 2"
    )
    table = page.locator(".plot .table")
    await expect(table).to_be_attached()
    assert await table.evaluate(
        "one => one.scrollWidth > one.clientWidth && getComputedStyle(one).backgroundImage.includes('gradient')"
    )
    labels = """() => [...document.querySelectorAll('.time-plot .axis')]
      .map((one) => [one.getBoundingClientRect(), one.closest('svg').getBoundingClientRect()])
      .filter(([label, plot]) => label.left < plot.left - 1 || label.right > plot.right + 1 || label.height < 9).length"""
    assert await page.evaluate(labels) == 0


async def test_a_slow_service_shows_the_shape_of_the_page(shown: Showcase, page: Page) -> None:
    """B23: lines in place of the content, before the modules and before the data; no module is found late."""
    ready, gates = anyio.Event(), {"/app.js": anyio.Event(), f"/api/v1/sessions/{shown.done}": anyio.Event()}
    asked: list[str] = []

    async def hold(route: Route) -> None:
        path = route.request.url.removeprefix(shown.up.address)
        asked.append(path)
        if path in gates:
            await gates[path].wait()
        await route.continue_()

    await page.route("**/*", hold)
    async with anyio.create_task_group() as tasks:

        async def go() -> None:
            await page.goto(f"{shown.up.address}/sessions/{shown.done}")
            ready.set()

        tasks.start_soon(go)
        await expect(page.locator("main .skeleton")).to_be_visible()
        gates["/app.js"].set()
        await expect(page.locator("session-page .skeleton")).to_be_visible()
        gates[f"/api/v1/sessions/{shown.done}"].set()
        await expect(page.locator(".cause")).to_be_visible()
        await ready.wait()
    preloaded = set(
        await page.locator("link[rel=modulepreload]").evaluate_all("all => all.map(one => one.getAttribute('href'))")
    )
    assert {path for path in asked if path.endswith(".js") and path != "/theme.js"} == preloaded
    await page.unroute_all(behavior="wait")


async def test_a_menu_stays_open_while_the_head_of_the_page_is_drawn_again(shown: Showcase, page: Page) -> None:
    """The models to run a session again with are known late, and make a menu of a button."""
    gate = anyio.Event()

    async def hold(route: Route) -> None:
        await gate.wait()
        await route.continue_()

    await page.route("**/api/v1/system/info", hold)
    await page.goto(f"{shown.up.address}/sessions/{shown.done}")
    await page.get_by_text("Share", exact=True).click()
    await page.keyboard.press("Tab")
    await expect(page.get_by_role("button", name="Copy link")).to_be_focused()
    gate.set()
    await expect(page.locator("details.menu summary", has_text="Run again")).to_be_visible()
    await expect(page.get_by_role("button", name="Copy link")).to_be_focused()
    await page.get_by_text("Run again", exact=True).click()
    await expect(page.get_by_role("button", name="Copy link")).to_be_hidden()
    await page.unroute_all(behavior="wait")


async def test_paper_has_the_alert_the_runbook_and_the_analysis(shown: Showcase, page: Page) -> None:
    """B8: what is folded on the screen is open while it is printed, and folded again after it."""
    await page.goto(f"{shown.up.address}/sessions/{shown.done}")
    folds = page.locator(":is(.about, .result) details")
    await expect(folds).to_have_count(3)
    await page.evaluate("""() => addEventListener('beforeprint', () => queueMicrotask(() =>
      (window.onPaper = [...document.querySelectorAll(':is(.about, .result) details')].map((one) => one.open))))""")
    await page.pdf()
    assert await page.evaluate("window.onPaper") == [True, True, True]
    await expect(page.locator(":is(.about, .result) details[open]")).to_have_count(0)


async def test_times_in_prose_follow_the_switch(shown: Showcase, page: Page, browser: Browser) -> None:
    context = await browser.new_context(timezone_id="Asia/Tokyo")
    context.set_default_timeout(PATIENCE)
    page = await context.new_page()
    await page.goto(f"{shown.up.address}/sessions/{shown.done}")
    await page.get_by_text("Full analysis").click()
    began = shown.incident.began
    said = page.locator(".whole-analysis p", has_text="none is ready since")
    await expect(said).to_contain_text(f"since {began:%H:%M} UTC:")
    await page.keyboard.press("z")
    hour = (began.hour + 9) % 24
    await expect(said).to_contain_text(f"since {hour:02d}:{began:%M} GMT+9:")
    await expect(page.locator(".question .prose")).to_contain_text(f"{hour:02d}:{began:%M} GMT+9")
    await expect(page.locator(".result")).not_to_contain_text(re.compile(r"\d\d UTC"))
    await context.close()


NOTICES = """() => {
  window.notices = [];
  window.Notification = class extends Notification {
    constructor(...given) {
      super(...given);
      this.addEventListener('show', () => window.notices.push([given[0], given[1].body]));
    }
  };
}"""


async def test_a_followed_session_that_ends_is_told_on_any_page(shown: Showcase, page: Page) -> None:
    """The last test: it lets the running session end. B4: a thought is whole while the answer streams. B18: the
    analysis of the only stage is called the same live and after a reload.
    """
    session = await shown.up.submit(f"{STUCK}: the session of a page that stays")
    await page.context.grant_permissions(["notifications"])
    await page.add_init_script(f"({NOTICES})()")
    await page.goto(f"{shown.up.address}/sessions/{shown.running}")
    await expect(page.locator(".streaming")).to_have_count(2)
    await expect(page.locator(".event[data-type=llm_thinking]")).to_have_count(2)
    for thought in await page.locator(".event[data-type=llm_thinking]").all():
        await expect(thought).to_contain_text(THOUGHT)
        await expect(thought.locator(".caret")).to_be_hidden()
    await page.get_by_role("button", name="Notify me").click()
    await expect(page.get_by_role("button", name="Will notify")).to_have_attribute("aria-pressed", "true")
    other = await page.context.new_page()
    await other.goto(f"{shown.up.address}/sessions/{session}")
    await expect(other.locator(".streaming")).to_have_count(2)
    await page.get_by_role("link", name="Sessions", exact=True).first.click()
    await expect(page.locator("li.row").first).to_be_visible()
    await expect(page).to_have_title("Sessions · tersely")

    shown.model.gate.set()
    await expect(page).to_have_title("✓ Sessions · tersely")
    await page.wait_for_function("() => window.notices.length")
    name = (await shown.up.ask("GET", f"/sessions/{shown.running}"))["title"]
    assert await page.evaluate("window.notices") == [["Analysis ready", name]]
    await page.evaluate("dispatchEvent(new Event('focus'))")
    await expect(page).to_have_title("Sessions · tersely")

    await expect(other.locator(".session-head .pill")).to_have_text("done")
    analyses = other.locator(".event[data-type=final_analysis] summary")
    await expect(analyses).to_have_count(3)
    await expect(analyses.last).to_contain_text("at the top of the page")
    live = await analyses.all_inner_texts()
    assert live[-1].strip() == "Analysis (at the top of the page)"
    assert "false" not in await other.locator(".stage-head").first.inner_text()
    await other.reload()
    await expect(analyses).to_have_text(live, use_inner_text=True)
