"""What is written to deceive is shown as text, on every page: no script runs, no request leaves, nothing has to be
stopped by the policy.

Every payload goes through the real API into every field that somebody else can fill; for fields that come from
configuration or from servers, the API's answer is filled in its place.
"""

import hashlib
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import BrowserContext, Page, Route, expect

from tersely.events.recorder import SessionRecorder
from tersely.masking.masked import assume_masked
from tersely.results.kept import KeptResults
from tersely.sessions.worker import SessionOutcome
from tersely.settings.model import TokenSettings
from tersely.store.interactions import Interaction
from tersely.store.results import Origin
from tersely.store.sessions import Session
from tersely.web.app import build_web_app
from tersely.web.pages import DASHBOARD
from tests.browser.conftest import Watched
from tests.conftest import shared_folder
from tests.web.running import Running, running, serving

OWN = (
    "<script>alert('own')</script>",
    "<img src=x onerror=alert('own')>",
    "![pixel](https://evil.test/p.png)",
    "[click](javascript:alert('own'))",
    "<iframe src='https://evil.test'></iframe>",
    "**bold <svg onload=alert('own')>**",
    "| a | b |\n|---|---|\n| <script>alert('own')</script> | ![x](//evil.test/x) |",
    "> quote ![x](https://evil.test/y)",
    "<https://evil.test/auto>",
    "[a]: https://evil.test/ref\n[a]",
    "```html\n<script>alert('own')</script>\n```",
    "# heading <img src=https://evil.test/h>",
)
DEAD = (
    "img, script, iframe, object, embed, link, meta, base, style, form:not(.filters, .submit, .ask-form), video, audio, "
    "picture, math, template"
)


def payloads(folder: Path | None) -> list[str]:
    """Our own, and those of the shared cases where they lie beside this checkout."""
    found = list(OWN)
    if folder is None:
        return found
    for line in (folder / "safety" / "injection_dev.jsonl").read_text("utf-8").strip().split("\n"):
        case = json.loads(line)
        if case["surface"] == "dashboard":
            found.append(case["payload"])
    return found


@pytest.fixture(scope="module")
def evil() -> list[str]:
    return payloads(shared_folder())


@pytest.fixture(scope="module")
async def service(browser: object, evil: list[str], tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    async def deceive(session: Session, recorder: SessionRecorder, kept: KeptResults) -> SessionOutcome:
        whole = "\n\n".join(evil)
        (stage,) = await recorder.plan([evil[0]])
        await recorder.stage_status(stage, "in_progress")
        for number, payload in enumerate(evil):
            origin = Origin(
                server="cluster", tool=payload[:80], arguments={payload[:60]: payload}, called_at=datetime.now(UTC)
            )
            handle = await kept.keep(assume_masked(f"{payload}\n{whole}"), scope=session.results_scope, origin=origin)
            about = {
                "server_name": payload,
                "tool_name": payload,
                "arguments": {payload: payload},
                "handle": handle,
                "original_tokens": 9000,
            }
            text = assume_masked(payload)
            await recorder.record(f"{number}/t", "llm_thinking", text)
            await recorder.record(f"{number}/r", "llm_response", text)
            await recorder.record(f"{number}/c", "llm_tool_call", text, {**about, "is_error": number % 2 == 0})
            told = {
                **about,
                "summary_tokens": 10,
                "status": "fallback",
                "reason": payload,
                "summarization_model": payload,
            }
            await recorder.record(
                f"{number}/s", "mcp_tool_summary", text, {**told, "lost": [{"what": payload, "lines": [[1, 2]]}]}
            )
            await recorder.record(f"{number}/e", "error", text)
            record = Interaction(
                type="mcp", request={"server": payload, "tool": payload}, response={"content": payload}, error=payload
            )
            await recorder.interaction(f"{number}/i", record)
        await recorder.record("a", "final_analysis", assume_masked(whole))
        await recorder.stage_status(stage, "completed", analysis=whole)
        return SessionOutcome(status="completed", analysis=assume_masked(whole))

    async with running(f"sqlite:///{tmp_path_factory.mktemp('store') / 'tersely.db'}", work=deceive) as service:
        yield service


@pytest.fixture(scope="module")
async def session(service: Running, evil: list[str]) -> str:
    session = await service.submit(data="\n".join(evil), runbook="\n".join(evil))
    await service.until(session, "completed")
    return session


async def harmless(watched: Watched, place: str = "main") -> None:
    page = watched.page
    await page.wait_for_load_state("networkidle")
    assert not await page.locator(place).locator(DEAD).count()
    links = await page.locator(f"{place} a").evaluate_all(
        "all => all.map(a => [a.href, a.rel, a.getAttribute('ping')])"
    )
    for href, rel, ping in links:
        assert ping is None and href.split(":")[0] in ("http", "https"), href
        if not href.startswith(page.url.split("/", 3)[0] + "//" + page.url.split("/", 3)[2]):
            assert {"noopener", "noreferrer", "nofollow"} <= set(rel.split()), href
    assert not watched.dialogs and not watched.left() and not watched.forbidden


async def test_a_session_that_is_full_of_it_is_shown_as_text(
    service: Running, session: str, watched: Watched, evil: list[str]
) -> None:
    page = watched.page
    await page.goto(f"{service.address}/sessions/{session}")
    await expect(page.locator("li.event")).to_have_count(len(evil) * 4 + 1)
    await page.locator("details").evaluate_all("all => all.forEach(one => one.open = true)")
    await expect(page.locator(".call-body")).to_have_count(len(evil))
    await harmless(watched)
    shown = await page.locator(".event[data-type=error]").all_text_contents()
    for payload, text in zip(evil, shown, strict=True):
        assert plain(payload) in plain(text), "the literal text is shown"


async def answer_with(page: Page, evil: list[str]) -> None:
    """Fill in what comes from configuration and from other people's MCP servers."""
    tools = [
        {
            "name": text,
            "called": text,
            "description": text,
            "read_only": True,
            "destructive": True,
            "refused": text,
            "odd": [text],
            "policy": {text: text},
            "redefined": True,
        }
        for text in evil
    ]
    policy = {
        "summarization": {
            "enabled": True,
            "size_threshold_tokens": 5000,
            "summary_max_token_limit": 1000,
            "llm_provider": evil[0],
        },
        "data_masking": {"enabled": True, "groups": evil, "custom_patterns": evil},
        "tools": {"allow": evil, "deny": evil},
        **{"read_only": False, "allow_destructive": False, "timeout": 60, "max_result_bytes": 1000},
    }
    now = "2026-11-15T08:00:00.000Z"
    server = {
        **{"state": "retrying", "healthy": False, "since": now, "latency_ms": 3.0, "restarts": 1, "next_try": now},
        **{"server_info": {"name": evil[0], "version": evil[1]}, "policy": policy, "tools": tools, "unusable": evil},
    }
    servers = [{**server, "name": text, "last_error": text, "protocol": text, "instructions": text} for text in evil]
    today = datetime.now(UTC).date().isoformat()
    use = {"day": today, "door": "session", "calls": 3, "errors": 1, "condensed": 1, "cached": 0, "read_backs": 1}
    use |= {"tokens_before": 900, "tokens_after": 90, "spared": 810, "milliseconds": 4, "latency": {}}
    savings = {
        "items": [{**use, "server": text, "tool": text} for text in evil],
        "tokens_before": 9,
        "tokens_after": 1,
        "spared": 8,
        "encoding": "o",
    }

    def answer(body: Any) -> Any:
        async def fulfil(route: Route) -> None:
            await route.fulfill(json=body)

        return fulfil

    await page.route("**/api/v1/system/mcp-servers", answer({"items": servers}))
    await page.route("**/api/v1/system/savings*", answer(savings))
    await page.route(
        "**/api/v1/alert-types",
        answer(
            {
                "items": [{"alert_type": t, "chain": t, "description": t, "default": False} for t in evil],
                "default": evil[0],
            }
        ),
    )


async def opened(page: Page, has: str) -> None:
    """Everything that can be unfolded, until what has to be there is: pages are drawn over several frames."""
    await page.wait_for_function(
        """(has) => {
          for (const one of document.querySelectorAll('details')) one.open = true;
          return document.querySelector(has)?.checkVisibility();
        }""",
        arg=has,
    )


async def choosing(page: Page, has: str) -> None:
    await page.locator("#override summary").first.click()
    await page.get_by_label("Choose the servers").check()


async def as_it_is(page: Page, has: str) -> None:
    """The page shows what it has without being asked."""


@dataclass(frozen=True)
class Shown:
    """A page that shows foreign text: its address, what has to be on it, and what a reader opens there."""

    address: str
    has: str
    open: Callable[[Page, str], Awaitable[None]] = as_it_is


PAGES = (
    Shown("/?q=%3Cscript%3Ealert('own')%3C/script%3E", "li.row"),
    Shown("/sessions/{session}", ".call-body", opened),
    Shown("/sessions/{session}/calls/{call}", "virtual-rows .line .words", opened),
    Shown("/sessions/{session}/results/{handle}", "virtual-rows .line .words", opened),
    Shown("/sessions/{session}/trace", ".trace-body .plain", opened),
    Shown("/sessions/{session}/compare/{session}", ".compare td"),
    Shown("/servers", "section.server", opened),
    Shown("/savings", ".bars li", opened),
    Shown("/settings", ".configuration td"),
    Shown("/submit", ".choice", choosing),
    Shown("/docs", "h2"),
)


@pytest.mark.parametrize("shown", PAGES, ids=lambda shown: shown.address.split("?")[0])
async def test_every_page_shows_foreign_text_as_text(
    service: Running, session: str, watched: Watched, evil: list[str], shown: Shown
) -> None:
    page = watched.page
    events = (await service.get(f"/sessions/{session}/timeline", limit=500))["items"]
    call = next(event for event in events if event["event_type"] == "llm_tool_call")
    await answer_with(page, evil)
    address = shown.address.format(session=session, call=call["event_id"], handle=call["metadata"]["handle"])
    await page.goto(service.address + address)
    await expect(page.locator("h1, h2").first).to_be_attached()
    await page.wait_for_load_state("networkidle")
    await shown.open(page, shown.has)
    await expect(page.locator(shown.has).first).to_be_visible()
    await harmless(watched, "body" if address == "/docs" else "main")


async def test_the_login_shows_where_it_leads_as_text(service: Running, watched: Watched) -> None:
    """Only a service with tokens has this page; `next` is whatever the address says."""
    evil = "/%22%3E%3Cscript%3Ealert('own')%3C/script%3E%3Cimg%20src=x%20onerror=alert(1)%3E"
    token = TokenSettings(name="ci", sha256=hashlib.sha256(b"ci").hexdigest(), scopes=("read",))
    settings = service.parts.settings
    locked = settings.model_copy(update={"auth": settings.auth.model_copy(update={"tokens": (token,)})})
    async with serving(build_web_app(replace(service.parts, settings=locked))) as (address, _):
        await watched.page.goto(f"{address}/login?next={evil}")
        await expect(watched.page.locator("#token")).to_be_visible()
        assert "<script>" in await watched.page.locator("input[name=next]").input_value()
        assert not await watched.page.locator("main").locator("img, script, iframe").count()
        assert not watched.dialogs and not watched.left() and not watched.forbidden


def test_the_table_has_every_page_of_the_dashboard() -> None:
    routes = re.findall(r"^  \[/(.+)/, \"", (DASHBOARD / "app.js").read_text("utf-8"), re.MULTILINE)
    assert len(routes) >= 8
    addresses = [shown.address.split("?")[0] for shown in PAGES]
    for route in routes:
        assert any(re.fullmatch(route.replace("\\/", "/").strip("^$"), address) for address in addresses), route


@pytest.mark.parametrize(
    "address",
    [
        "/sessions/%3Cscript%3Ealert(1)%3C%2Fscript%3E",
        "/%22%3E%3Cimg%20src=x%20onerror=alert(1)%3E",
        "/sessions/x/calls/javascript:alert(1)",
        "/login?next=javascript:alert(1)",
    ],
)
async def test_an_address_is_not_trusted_either(service: Running, watched: Watched, address: str) -> None:
    await watched.page.goto(service.address + address)
    await expect(watched.page.locator("main h1, main h2").first).to_be_visible()
    await harmless(watched)


async def test_the_browser_itself_refuses_to_make_html_out_of_a_string(
    service: Running, context: BrowserContext
) -> None:
    """Even our own code cannot: the policy requires trusted types and allows none to be created."""
    page = await context.new_page()
    for place in ("/", "/submit", "/docs"):
        await page.goto(service.address + place)
        said = await page.evaluate(
            "() => { try { document.body.innerHTML = '<b>x</b>'; return 'made'; } catch (e) { return e.name; } }"
        )
        assert said == "TypeError", place


async def test_markdown_keeps_what_it_allows_and_nothing_else(service: Running, page: Page) -> None:
    await page.goto(service.address)
    shown = await page.evaluate(
        """async ([address, text]) => {
          const { markdown } = await import(address + '/markdown.js');
          const node = markdown(text, { refer: (handle, first, last) => `/x/${handle}#L${first}-${last}` });
          return [node.innerHTML, node.textContent];
        }""",
        [service.address, MARKDOWN],
    )
    html, text = shown
    for wanted in (
        "<h3>Title</h3>",
        "<strong>bold</strong>",
        "<em>soft</em>",
        "<code>code</code>",
        "<ol>",
        "<blockquote>",
        "<table>",
        "<pre",
    ):
        assert wanted in html, wanted
    assert '<a class="ref" href="/x/r_0123456789abcdef#L3-9">lines 3-9 of r_0123456789abcdef</a>' in html
    assert "(shop.example)" in text and "snake_case_name" in text and "![not](https://evil.test/x.png)" in text
    assert html.count("<li>") == 4 and "<img" not in html and "<b>" not in html and "<b>raw</b>" in text


async def test_markdown_that_is_made_to_be_slow_is_drawn_all_the_same(service: Running, page: Page) -> None:
    """Signs that never close, by the ten thousand: where each looked through the whole rest, this would not end in
    time.
    """
    await page.goto(service.address)
    drawn = await page.evaluate(
        """async (address) => {
          const { markdown } = await import(address + '/markdown.js');
          const texts = ['*a '.repeat(60000), '['.repeat(100000), '`'.repeat(99999), '> '.repeat(50000), '**a'.repeat(60000),
            '- '.repeat(50000), '| a '.repeat(40000) + '\\n|---|', ('  '.repeat(30) + '- x\\n').repeat(3000), '_a'.repeat(80000),
            '[a]('.repeat(50000), '![a]('.repeat(50000)];
          return texts.map((text) => markdown(text).childElementCount);
        }""",
        service.address,
    )
    assert len(drawn) == 11 and all(drawn)


MARKDOWN = """# Title
Some **bold**, *soft* and `code` with snake_case_name, <b>raw</b>.

1. one
2. two
   - nested
   - more

> said

| a | b |
|---|---|
| 1 | 2 |

```
fenced
```
[shop](https://shop.example/x) ![not](https://evil.test/x.png) [cluster.get, lines 3-9 of r_0123456789abcdef, twice]
"""


def plain(text: str) -> str:
    return "".join(sign for sign in text if sign.isprintable() and not sign.isspace() and sign != "\ufffd")
