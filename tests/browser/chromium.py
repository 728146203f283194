"""The machine's own Chromium, driven by Playwright. Playwright's download is not needed; where there is no browser, tests say so."""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from playwright.async_api import Browser, async_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    "--no-sandbox --disable-gpu --disable-background-networking --disable-component-update --disable-sync --no-first-run "
    "--disable-dev-shm-usage --force-color-profile=srgb --hide-scrollbars"
).split()


def find_chromium() -> str | None:
    """The browser to drive; `TERSELY_CHROMIUM` names another."""
    if named := os.environ.get("TERSELY_CHROMIUM"):
        return named
    for name in NAMES:
        if found := shutil.which(name):
            return found
    downloads = Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or Path.home() / ".cache" / "ms-playwright")
    return next(
        (str(path) for path in sorted(downloads.glob("chromium*/chrome-linux*/*")) if path.name in ("chrome", "headless_shell")), None
    )


@asynccontextmanager
async def chromium(path: str) -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=FLAGS)
        try:
            yield browser
        finally:
            await browser.close()
