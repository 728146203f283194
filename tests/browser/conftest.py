"""A browser for the tests of the dashboard, and pages that notice what must not happen."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, Request, expect

from tests.browser.chromium import chromium, find_chromium

PATIENCE = 120_000
"""Milliseconds: a deadline, not a wish. A service that has just started loads its model client first."""

expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[Browser]:
    path = find_chromium()
    if path is None:
        pytest.skip("there is no Chromium on this machine (`make browser` looks for one to install)")
    async with chromium(path) as browser:
        yield browser


@dataclass
class Watched:
    """What a page did that a test may ask for afterwards."""

    page: Page
    requests: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    forbidden: list[str] = field(default_factory=list)
    """What the Content-Security-Policy had to stop."""

    def left(self) -> list[str]:
        """Requests to other hosts than the service."""
        home = urlsplit(self.page.url).netloc
        return [
            url
            for url in self.requests
            if urlsplit(url).scheme in ("http", "https", "ws", "wss") and urlsplit(url).netloc != home
        ]


def watch(page: Page) -> Watched:
    watched = Watched(page)

    def asked(request: Request) -> None:
        watched.requests.append(request.url)

    def said(message: ConsoleMessage) -> None:
        if "Content Security Policy" in message.text or "Content-Security-Policy" in message.text:
            watched.forbidden.append(message.text)

    async def spoke(dialog: object) -> None:
        watched.dialogs.append(str(getattr(dialog, "message", dialog)))
        await dialog.dismiss()  # type: ignore[attr-defined]

    page.on("request", asked)
    page.on("dialog", spoke)
    page.on("pageerror", lambda problem: watched.errors.append(str(problem)))
    page.on("console", said)
    return watched


async def keep_texts(page: Page, place: str) -> None:
    """In pages that are opened from now on, `window.texts` has every text that stood at this place, also one that
    leaves by itself before a busy test looks at it.
    """
    await page.add_init_script(
        f"""(place => {{
          window.texts = [];
          new MutationObserver(() => {{
            for (const one of document.querySelectorAll(place)) window.texts.push(one.textContent);
          }}).observe(document, {{ subtree: true, childList: true, characterData: true }});
        }})({json.dumps(place)})"""
    )


async def settled(page: Page) -> None:
    """Nothing moves from one frame to the next, twice."""
    await page.wait_for_function(
        """() => new Promise((done) => requestAnimationFrame(() => {
          const at = [scrollY, document.documentElement.scrollHeight].join();
          requestAnimationFrame(() => requestAnimationFrame(() => done(at === [scrollY, document.documentElement.scrollHeight].join())));
        }))"""
    )


@pytest.fixture
async def context(browser: Browser) -> AsyncIterator[BrowserContext]:
    context = await browser.new_context(viewport={"width": 1280, "height": 860})
    context.set_default_timeout(PATIENCE)
    yield context
    await context.close()


@pytest.fixture
async def watched(context: BrowserContext) -> AsyncIterator[Watched]:
    """A page; at its end nothing of ours has failed in it, and it sent nothing to other hosts."""
    watched = watch(await context.new_page())
    yield watched
    assert not watched.errors, watched.errors
    assert not watched.left(), watched.left()
    assert not watched.dialogs and not watched.forbidden


@pytest.fixture
async def page(watched: Watched) -> Page:
    return watched.page
