"""Every page, light and dark, wide and narrow: `make screenshots`. To be looked at; the best of them are in the documentation.

    python -m tests.browser.screenshots [FOLDER]

The service is a real `tersely up` with the demonstration's systems. Investigations without a model are what it
finds by itself; one with a scripted model shows what streams.
"""

import hashlib
import json
import sys
import tempfile
from pathlib import Path

import anyio
from playwright.async_api import Browser, BrowserContext, Page

from tersely.demo.incidents import Incident
from tests.browser.chromium import chromium, find_chromium
from tests.browser.model import Storyteller
from tests.browser.service import Up, demo_configuration, demo_incident, service

WIDE, NARROW = (1280, 860), (390, 844)
TOKEN = "shown-on-a-picture-only"


async def main(folder: Path) -> int:
    path = find_chromium()
    if path is None:
        print("screenshots: there is no Chromium on this machine (`make browser` looks for one to install)")
        return 0
    folder.mkdir(parents=True, exist_ok=True)
    incident = demo_incident(12)
    with tempfile.TemporaryDirectory() as name:
        async with chromium(path) as browser:
            (Path(name) / "up").mkdir()
            async with service(Path(name) / "up", demo_configuration(incident)) as up:
                await survey(browser, up, incident, folder)
            await streaming(browser, Path(name), incident, folder)
    print(f"{len(list(folder.glob('*.png')))} pictures in {folder}")
    return 0


async def survey(browser: Browser, up: Up, incident: Incident, folder: Path) -> None:
    sessions = [await up.submit(incident.alert)]
    for words in ("Certificate of edge expires in 3 days", "p99 of search is above 2 s", "Queue of mails grows"):
        sessions.append(await up.submit(f"{words}. Service {incident.victim.name}, namespace {incident.victim.namespace}."))
    for session in sessions:
        await up.until(session, "completed")
    session = sessions[0]
    timeline = (await up.ask("GET", f"/sessions/{session}/timeline"))["items"]
    calls = {one["metadata"]["tool_name"]: one["event_id"] for one in timeline if one["event_type"] == "llm_tool_call"}
    places = {
        "sessions": "/",
        "session": f"/sessions/{session}",
        "call": f"/sessions/{session}/calls/{calls['get_logs']}?q=warn",
        "call-json": f"/sessions/{session}/calls/{calls['list_pods']}",
        "trace": f"/sessions/{session}/trace",
        "submit": "/submit",
        "servers": "/servers",
        "savings": "/savings?days=7",
        "nothing": "/?q=nothing-like-this",
    }
    for scheme in ("light", "dark"):
        for kind, (width, height) in {"wide": WIDE, "phone": NARROW}.items():
            context = await opened(browser, scheme, width, height)
            page = await context.new_page()
            for name, place in places.items():
                await page.goto(up.address + place)
                await settled(page)
                if name == "submit":
                    await page.get_by_label("Alert", exact=True).fill(json.dumps(incident.alert["alerts"][0]["annotations"], indent=2))
                    await page.get_by_text("Servers and tools for this alert alone").click()
                    await page.get_by_label("Choose the servers").check()
                await page.screenshot(path=folder / f"{name}-{scheme}-{kind}.png")
            await context.close()


async def streaming(browser: Browser, folder: Path, incident: Incident, target: Path) -> None:
    """A model in the middle of a sentence; and the login, which this service asks for."""
    model = Storyteller(incident)
    gate = model.gate("WATCHED")
    (folder / "with-model").mkdir()
    auth = {"tokens": [{"name": "ops", "sha256": hashlib.sha256(TOKEN.encode()).hexdigest(), "scopes": ["submit", "read", "admin"]}]}
    async with model.server().listening() as llm:
        async with service(folder / "with-model", demo_configuration(incident, model_url=llm.url, auth=auth)) as up:
            up.token = TOKEN
            session = await up.submit("WATCHED: requests to the shop fail")
            for scheme in ("light", "dark"):
                for kind, (width, height) in {"wide": WIDE, "phone": NARROW}.items():
                    context = await opened(browser, scheme, width, height)
                    page = await context.new_page()
                    await page.goto(f"{up.address}/sessions/{session}")
                    await settled(page)
                    await page.screenshot(path=target / f"login-{scheme}-{kind}.png")
                    await page.get_by_label("Access token").fill(TOKEN)
                    await page.keyboard.press("Enter")
                    await page.locator(".event[data-type=llm_response] .flow", has_text="streamed").wait_for()
                    await page.screenshot(path=target / f"streaming-{scheme}-{kind}.png")
                    await context.close()
            gate.set()
            await up.until(session, "completed")


async def opened(browser: Browser, scheme: str, width: int, height: int) -> BrowserContext:
    context = await browser.new_context(
        viewport={"width": width, "height": height}, color_scheme="dark" if scheme == "dark" else "light", reduced_motion="reduce"
    )
    context.set_default_timeout(60_000)
    return context


async def settled(page: Page) -> None:
    await page.wait_for_load_state("networkidle")
    await page.wait_for_function("() => !document.querySelector('.late')")
    await page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


if __name__ == "__main__":
    raise SystemExit(anyio.run(main, Path(sys.argv[1] if len(sys.argv) > 1 else "docs/screenshots/all")))
