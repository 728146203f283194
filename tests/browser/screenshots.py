"""Every page, light and dark, wide and narrow: `make screenshots`. To be looked at; the best of them are in the
documentation.

    python -m tests.browser.screenshots [FOLDER [PAGE …]]

All of them, or those pages only. All go to FOLDER/all, which is not kept; the few that are shown somewhere (BEST) to
FOLDER, small.

The service is a real `tersely up` with the demonstration's systems and its two agents. Investigations without a model
are what it finds by itself; those with a scripted model show what streams, stages, failures and prices.
"""

import base64
import hashlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import anyio
from playwright.async_api import Browser, BrowserContext, Page

from tersely.demo.incidents import Incident
from tests.browser.chromium import chromium, find_chromium
from tests.browser.model import Storyteller
from tests.browser.service import Up, demo_configuration, demo_incident, service
from tests.browser.showcase import showcase

BEST = ("session-light-wide", "call-light-wide", "call-json-dark-wide", "savings-light-wide", "session-dark-phone")
SIZES = {"wide": (1280, 860), "middle": (1024, 860), "phone": (390, 844)}
SHOWN = ("again", "staged", "failed", "running", "cancelled")
"""Sessions of the showcase that have a picture."""
TOKEN = "shown-on-a-picture-only"


async def main(folder: Path, *only: str) -> int:
    path = find_chromium()
    if path is None:
        print("screenshots: there is no Chromium on this machine (`make browser` looks for one to install)")
        return 0
    (folder / "all").mkdir(parents=True, exist_ok=True)
    incident = demo_incident(12)
    with tempfile.TemporaryDirectory() as name:
        async with chromium(path) as browser:
            (Path(name) / "up").mkdir()
            async with service(Path(name) / "up", two_agents(incident)) as up:
                await survey(browser, up, incident, folder, only)
            if not only or {"compare", "settings", "waterfall", *SHOWN} & {*only}:
                (Path(name) / "showcase").mkdir()
                async with showcase(Path(name) / "showcase") as shown:
                    places = {one: f"/sessions/{getattr(shown, one)}" for one in SHOWN}
                    places["compare"] = f"/sessions/{shown.done}/compare/{shown.again}"
                    places["waterfall"] = f"/sessions/{shown.done}/trace"
                    places["settings"] = "/settings"
                    await everywhere(browser, shown.up, places, incident, folder, only)
            if not only or {"login", "streaming"} & {*only}:
                await streaming(browser, Path(name), incident, folder)
    print(f"{len(list((folder / 'all').glob('*.png')))} pictures in {folder}")
    return 0


def two_agents(incident: Incident) -> dict[str, Any]:
    """As `tersely demo` has them: one sees everything, one only the system that the alert is about."""
    stage = {"name": "investigation", "agents": ["all-systems", "cluster-only"]}
    return demo_configuration(
        incident,
        agents={"all-systems": {}, "cluster-only": {"mcp_servers": ["cluster"]}},
        chains={"default": {"alert_types": ["default"], "stages": [stage]}},
    )


async def survey(browser: Browser, up: Up, incident: Incident, folder: Path, only: tuple[str, ...]) -> None:
    await everywhere(browser, up, {"empty": "/"}, incident, folder, only)
    sessions = [await up.submit(incident.alert)]
    for words in ("Certificate of edge expires in 3 days", "p99 of search is above 2 s", "Queue of mails grows"):
        sessions.append(
            await up.submit(f"{words}. Service {incident.victim.name}, namespace {incident.victim.namespace}.")
        )
    for session in sessions:
        await up.until(session, "completed")
    session = sessions[0]
    await up.ask("PUT", f"/sessions/{session}/rating", json={"rating": "right"})
    await up.ask("PUT", f"/sessions/{session}/assignee", json={})
    timeline = (await up.ask("GET", f"/sessions/{session}/timeline", params={"limit": 500}))["items"]
    called = [one for one in timeline if one["event_type"] == "llm_tool_call" and not one["metadata"].get("is_error")]
    called.sort(key=lambda one: one["metadata"].get("original_tokens") or 0)
    calls = {one["metadata"]["tool_name"]: one["event_id"] for one in called}  # of each tool the largest result
    places = {
        "sessions": "/",
        "session": f"/sessions/{session}",
        "call": f"/sessions/{session}/calls/{calls['get_logs']}?q=warn",
        "call-json": f"/sessions/{session}/calls/{calls['list_pods']}",
        "submit": "/submit",
        "servers": "/servers",
        "savings": "/savings?days=7",
        "nothing": "/?q=nothing-like-this",
        "timeline": f"/sessions/{session}#event-{calls['get_logs']}",
        "not-found": "/sessions/00000000-0000-0000-0000-000000000000",
        "offline": f"/sessions/{sessions[1]}",
    }
    await everywhere(browser, up, places, incident, folder, only)


async def everywhere(
    browser: Browser, up: Up, places: dict[str, str], incident: Incident, folder: Path, only: tuple[str, ...]
) -> None:
    """Each page light and dark, wide and narrow."""
    for scheme in ("light", "dark"):
        for kind, (width, height) in SIZES.items():
            context = await opened(browser, scheme, width, height)
            page = await context.new_page()
            for name, place in places.items():
                if only and name not in only:
                    continue
                await page.goto(up.address + place)
                await settled(page)
                if name == "submit":
                    await page.get_by_label("Alert", exact=True).fill(
                        json.dumps(incident.alert["alerts"][0]["annotations"], indent=2)
                    )
                    await page.get_by_text("Override servers and tools").click()
                    await page.get_by_label("Choose the servers").check()
                if name == "offline":
                    await up.kill()
                    await page.locator("#link-state[data-state=offline]").wait_for()
                await picture(page, folder, f"{name}-{scheme}-{kind}")
                if name == "offline":
                    await up.start()
            await context.close()


async def streaming(browser: Browser, folder: Path, incident: Incident, target: Path) -> None:
    """A model in the middle of a sentence; and the login, which this service asks for."""
    model = Storyteller(incident)
    gate = model.gate("WATCHED")
    (folder / "with-model").mkdir()
    auth = {
        "tokens": [
            {"name": "ops", "sha256": hashlib.sha256(TOKEN.encode()).hexdigest(), "scopes": ["submit", "read", "admin"]}
        ]
    }
    async with model.server().listening() as llm:
        async with service(folder / "with-model", demo_configuration(incident, model_url=llm.url, auth=auth)) as up:
            up.token = TOKEN
            session = await up.submit("WATCHED: requests to the shop fail")
            for scheme in ("light", "dark"):
                for kind, (width, height) in SIZES.items():
                    context = await opened(browser, scheme, width, height)
                    page = await context.new_page()
                    await page.goto(f"{up.address}/sessions/{session}")
                    await settled(page)
                    await picture(page, target, f"login-{scheme}-{kind}")
                    await page.get_by_label("Access token").fill(TOKEN)
                    await page.keyboard.press("Enter")
                    await page.locator(".event[data-type=llm_response] .streaming", has_text="streamed").wait_for()
                    await picture(page, target, f"streaming-{scheme}-{kind}")
                    await context.close()
            gate.set()
            await up.until(session, "completed")


async def opened(browser: Browser, scheme: str, width: int, height: int) -> BrowserContext:
    context = await browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if scheme == "dark" else "light",
        reduced_motion="reduce",
    )
    context.set_default_timeout(60_000)
    return context


async def picture(page: Page, folder: Path, name: str) -> None:
    await page.screenshot(path=folder / "all" / f"{name}.png")
    if name in BEST:
        wire = await page.context.new_cdp_session(page)
        taken = await wire.send("Page.captureScreenshot", {"format": "webp", "quality": 60})
        (folder / f"{name}.webp").write_bytes(base64.b64decode(taken["data"]))
        await wire.detach()


async def settled(page: Page) -> None:
    await page.wait_for_load_state("networkidle")
    await page.wait_for_function("() => !document.querySelector('.late')")
    await page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


if __name__ == "__main__":
    raise SystemExit(anyio.run(main, Path(sys.argv[1] if len(sys.argv) > 1 else "docs/screenshots"), *sys.argv[2:]))
