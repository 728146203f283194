"""axe-core finds nothing serious on any page, light or dark. It comes from npm and is only for these tests."""

import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest
from playwright.async_api import Browser, expect

from tests.browser.long_session import long_work
from tests.web.running import Running, running

HERE = Path(__file__).parent
AXE = HERE / "node_modules" / "axe-core" / "axe.min.js"


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
async def service(browser: Browser, axe: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    begin = anyio.Event()
    begin.set()
    async with running(
        f"sqlite:///{tmp_path_factory.mktemp('store') / 'tersely.db'}", work=long_work(12, begin)
    ) as service:
        yield service


@pytest.fixture(scope="module")
async def session(service: Running) -> str:
    session = await service.submit()
    await service.until(session, "completed")
    return session


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    ("address", "there"),
    [
        ("/", "li.row"),
        ("/sessions/{session}", "li.event"),
        ("/sessions/{session}/calls/{call}", "virtual-rows .words"),
        ("/sessions/{session}/trace", "li.trace, .empty"),
        ("/submit", "#override"),
        ("/servers", ".servers > *"),
        ("/savings", "savings-page section, .empty"),
        ("/settings", ".configuration td"),
        ("/nowhere", "h1"),
    ],
)
async def test_axe_finds_nothing_serious(
    service: Running, session: str, browser: Browser, axe: str, address: str, there: str, scheme: str
) -> None:
    events = (await service.get(f"/sessions/{session}/timeline"))["items"]
    call = next(event["event_id"] for event in events if event["event_type"] == "llm_tool_call")
    context = await browser.new_context(
        color_scheme="dark" if scheme == "dark" else "light", viewport={"width": 1280, "height": 860}
    )
    page = await context.new_page()
    await page.goto(service.address + address.format(session=session, call=call))
    await expect(page.locator(there).first).to_be_attached()
    if "{session}" in address:
        await page.locator("details").evaluate_all("all => all.forEach(one => one.open = true)")
    await page.evaluate(axe)
    # Between light and dark only colours differ.
    rules = {"resultTypes": ["violations"], **({"runOnly": ["color-contrast"]} if scheme == "dark" else {})}
    found = await page.evaluate("async (rules) => (await axe.run(document, rules)).violations", rules)
    serious = [
        (one["id"], one["help"], [node["html"][:160] for node in one["nodes"][:3]])
        for one in found
        if one["impact"] in ("serious", "critical")
    ]
    assert not serious, serious
    await context.close()
