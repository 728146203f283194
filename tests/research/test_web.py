"""The small web as its clients see it: a search tool, a crawl tool, and pages that know what they state."""

import sys
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from fastmcp.exceptions import ToolError
from mcp_types import TextContent

from tersely import count_tokens
from tests.fakes.web.lore import KINDS, PHRASINGS
from tests.fakes.web.pages import PAGES, draw_web
from tests.fakes.web.server import build

SEED = 7


async def asked(client: Client[Any], tool: str, **arguments: object) -> str:
    result = await client.call_tool(tool, dict(arguments))
    assert isinstance(result.content[0], TextContent)
    return result.content[0].text


def test_fifteen_pages_of_about_12_000_tokens_state_every_claim_in_one_line() -> None:
    web = draw_web(SEED)
    assert len(web.pages) == PAGES == 15
    for page in web.pages:
        assert 10_000 <= count_tokens(page.markdown) <= 14_000
        for claim in page.claims:
            assert any(claim.about in line and claim.value in line for line in page.markdown.split("\n")), claim
            assert any(
                claim.about in line and claim.value in line.replace("&#x27;", "'") for line in page.html.split("\n")
            ), claim
        assert all(text in page.markdown for text in page.boilerplate)
    assert {claim for page in web.pages for claim in page.claims} == set(web.country.claims)


def test_facts_have_many_phrasings_some_come_twice_and_some_contradict() -> None:
    web = draw_web(SEED)
    assert all(sum(not said.startswith(("* ", "| ")) for said in PHRASINGS[kind]) >= 8 for kind in KINDS)
    assert sum(len(page.claims) for page in web.pages) >= 1.25 * len(web.country.claims)
    by_matter: dict[tuple[str, str], set[str]] = {}
    for claim in web.country.claims:
        by_matter.setdefault((claim.kind, claim.about), set()).add(claim.value)
    assert sum(len(values) > 1 for values in by_matter.values()) >= 15
    for page in web.pages:
        matters = [(claim.kind, claim.about) for claim in page.claims]
        assert len(matters) == len(set(matters)), "one page does not contradict itself"


def test_a_seed_gives_the_same_web_again_and_another_seed_another_one() -> None:
    draw_web.cache_clear()
    first = draw_web(SEED)
    draw_web.cache_clear()
    assert draw_web(SEED).pages == first.pages
    assert not set(first.country.people) & set(draw_web(SEED + 1).country.people)


async def test_what_search_finds_can_be_crawled_as_markdown_or_html() -> None:
    web = draw_web(SEED)
    async with Client(build(web)) as client:
        found = await asked(client, "search", query=f"relics and treasures of {web.subject}", limit=3)
        page = next(page for page in web.pages if page.title.startswith("Relics"))
        assert page.url in found
        assert await asked(client, "crawl", url=page.url) == page.markdown
        assert (await asked(client, "crawl", url=page.url, format="html")).startswith("<!DOCTYPE html>")
        with pytest.raises(ToolError, match="there is no page"):
            await client.call_tool("crawl", {"url": "https://elsewhere.example/"})


@pytest.mark.process
async def test_it_runs_as_a_process_and_search_and_crawl_can_be_two() -> None:
    command = ["-m", "tests.fakes.web.server", "--seed", str(SEED), "--tools", "crawl"]
    root = str(Path(__file__).parents[2])
    async with Client(StdioTransport(sys.executable, command, cwd=root, keep_alive=False)) as client:
        assert [tool.name for tool in await client.list_tools()] == ["crawl"]
        url = draw_web(SEED).pages[0].url
        assert await asked(client, "crawl", url=url) == draw_web(SEED).pages[0].markdown
