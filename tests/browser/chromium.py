"""The machine's own Chromium, driven by Playwright. Playwright's download is not needed; where there is no browser,
tests say so.
"""

import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path

from playwright.async_api import Browser, async_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    "--no-sandbox --disable-gpu --disable-background-networking --disable-component-update --disable-sync "
    "--no-first-run "
    "--disable-dev-shm-usage --force-color-profile=srgb --hide-scrollbars"
).split()


DOWNLOADED = (
    "chromium-*/chrome-linux*/chrome",
    "chromium_headless_shell-*/*/*headless*shell",
    "chromium-*/chrome-mac*/*.app/Contents/MacOS/*",
)


def find_chromium() -> str | None:
    """The browser to drive; `TERSELY_CHROMIUM` names another."""
    if named := os.environ.get("TERSELY_CHROMIUM"):
        return named
    for name in NAMES:
        if (found := shutil.which(name)) and _runs(found):
            return found
    folders = [
        os.environ.get("PLAYWRIGHT_BROWSERS_PATH"),
        Path.home() / ".cache" / "ms-playwright",
        Path.home() / "Library/Caches/ms-playwright",
    ]
    found_there = (
        path for folder in folders if folder for pattern in DOWNLOADED for path in sorted(Path(folder).glob(pattern))
    )
    return next((str(path) for path in found_there if os.access(path, os.X_OK)), None)


@cache
def _runs(path: str) -> bool:
    """On some systems the name is there and only says how to install a browser."""
    try:
        return subprocess.run([path, "--version"], capture_output=True, timeout=300, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


@asynccontextmanager
async def chromium(path: str) -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=FLAGS)
        try:
            yield browser
        finally:
            await browser.close()
