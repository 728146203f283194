"""Research from beginning to end: by search alone, and by a model that follows a script."""

import json
from pathlib import Path

import pytest

from tersely import count_tokens
from tersely.sessions.overrides import Override
from tersely.store.database import Database
from tests.fakes.llm_server import FakeLLMServer
from tests.fakes.researching import FIELDS, TOPICS, WEB, Researcher, Servers, listening, model, research

pytestmark = pytest.mark.slow

TWO = {name: TOPICS[name] for name in ("people", "dates")}


async def test_without_a_model_fifteen_pages_become_25_000_tokens_that_state_what_the_pages_state(
    tmp_path: Path,
) -> None:
    servers = Servers(WEB)
    async with listening(servers, summarizer=False) as addresses:
        ended = await research(tmp_path, addresses, subject=WEB.subject)
    result = ended.result
    assert ended.session.status == "completed" and result["status"] == "complete", result.get("gaps")
    assert len(result["pages"]) == len(set(servers.crawled)) == len(servers.crawled) == 15
    assert result["tokens"]["pages"] > 150_000 and result["tokens"]["accumulated"] <= 25_000
    lines = "\n".join(ended.contents).split("\n")
    kept = [claim for claim in WEB.country.claims if any(claim.about in line and claim.value in line for line in lines)]
    assert len(kept) >= 0.95 * len(WEB.country.claims)
    true = {(*FIELDS[claim.kind], claim.about, claim.value) for claim in WEB.country.claims}
    found = [(path, name, fact["value"]["name"], value) for path, facts in result["facts"].items() for fact in facts
             for name, value in fact["value"].items() if name != "name"]  # fmt: skip
    assert len(found) >= 40
    assert sum(one in true for one in found) >= 0.9 * len(found), [one for one in found if one not in true]
    for facts in result["facts"].values():
        for fact in facts:
            for source in fact["sources"]:
                page = next(page for page in WEB.pages if page.url == source["url"])
                low, high = source["lines"]
                said = "\n".join(page.markdown.split("\n")[low - 1 : high])
                assert all(str(value) in said for value in fact["value"].values())
    assert result["passages"] and all(passage["source"]["lines"] for passage in result["passages"])


async def test_with_a_model_pages_travel_by_handle_and_every_fact_has_a_source(tmp_path: Path) -> None:
    servers = Servers(WEB)
    async with FakeLLMServer(Researcher(WEB, invents=True)).listening() as llm, listening(servers) as addresses:
        ended = await research(tmp_path, addresses, subject=WEB.subject, environment=model(llm.url))
    assert ended.session.status == "completed", ended.session.reason
    result = ended.result
    assert result["gaps"] == [] and {page["how"] for page in result["pages"]} == {"agent"}
    # The model wrote handles, the summarizer got whole pages.
    calls = [
        json.loads(call["function"]["arguments"])
        for body in llm.requests
        for message in body["messages"]
        for call in message.get("tool_calls") or ()
        if call["function"]["name"].endswith("summarize_for_extraction")
    ]
    assert calls and all(call["content"].startswith("result:r_") and len(call["content"]) < 50 for call in calls)
    wholes = {page.markdown for page in WEB.pages}
    assert len(servers.summarized) == 15 and all(one["content"] in wholes for one in servers.summarized)
    # No prompt is longer than the window, and the extraction has the pages' share of it.
    sizes = [sum(count_tokens(str(message["content"])) for message in body["messages"]) for body in llm.requests]
    assert max(sizes) < 64_000 - 4_096
    extraction = next(
        size for size, body in zip(sizes, llm.requests, strict=True) if "You extract facts" in str(body["messages"][0])
    )
    assert 18_000 <= extraction <= 27_000
    # The section that tells when to summarize has the tool's real name.
    assert "`summarizer__summarize_for_extraction`" in str(llm.requests[0]["messages"][0]["content"])
    assert "summarizer__summarize_for_extraction" in {tool["function"]["name"] for tool in llm.requests[0]["tools"]}
    # A claim that no page makes is refused.
    assert sum(len(facts) for facts in result["facts"].values()) >= 0.9 * len(WEB.country.claims)
    assert [one["why"] for one in result["refused"]] == ["no page says so", "it names no source"]
    # Contradictions are listed side by side, each with its sources.
    contradicted = {(claim.kind, claim.about) for claim in WEB.country.claims if claim.is_contradicted}
    assert len(result["contradictions"]) >= 0.9 * len(contradicted)
    for values in (one["values"] for one in result["contradictions"]):
        assert len({value["value"] for value in values}) == len(values) >= 2
        assert all(source["url"] and source["lines"] for value in values for source in value["sources"])


async def test_each_topic_leaves_a_checkpoint_in_which_the_summaries_have_replaced_the_pages(
    tmp_path: Path, url: str
) -> None:
    if not url.startswith("sqlite"):
        await Database.migrate(url)
    async with FakeLLMServer(Researcher(WEB)).listening() as llm, listening(Servers(WEB)) as addresses:
        environment = model(llm.url, TERSELY_DATABASE_URL=url)
        ended = await research(tmp_path, addresses, subject=WEB.subject, topics=TWO, environment=environment, pages=6)
    first, second = ended.checkpoints
    assert (first["completed_topics"], second["completed_topics"]) == (["people"], ["people", "dates"])
    content = second["step_data"]["research_raw_content"]
    assert len(content) == 6 and content[:3] == first["step_data"]["research_raw_content"]
    assert [one["content"] for one in content] == ended.contents
    assert sum(count_tokens(one["content"]) for one in content) <= 25_000
    by_url = {page.url: page.markdown for page in WEB.pages}
    assert [by_url[one["url"]] for one in content] == ended.raw, "the raw page is still readable"
    assert [stage.status for stage in ended.stages] == ["completed"] * 3


async def test_a_summarizer_that_fails_half_of_its_calls_costs_quality_and_the_gaps_are_named(tmp_path: Path) -> None:
    servers = Servers(WEB, fails=2)
    script = Researcher(WEB, summarizes=False)
    async with FakeLLMServer(script).listening() as llm, listening(servers) as addresses:
        ended = await research(
            tmp_path, addresses, subject=WEB.subject, topics=TWO, environment=model(llm.url), pages=6
        )
    result = ended.result
    assert ended.session.status == "completed" and result["status"] == "partial"
    how = [page["how"] for page in result["pages"]]
    assert sorted(set(how)) == ["structural", "summarizer"]
    assert len(result["gaps"]) == how.count("structural") == 3
    assert all("the summarizer failed" in gap and gap.startswith("https://") for gap in result["gaps"])
    assert sum(len(facts) for facts in result["facts"].values()) > 20


async def test_a_summarizer_that_gives_pages_back_unchanged_is_found_out(tmp_path: Path) -> None:
    """What the first implementation did: the service returns the caller's own content when its model is down."""
    async with listening(Servers(WEB, unchanged=True)) as addresses:
        ended = await research(tmp_path, addresses, subject=WEB.subject, topics=TWO, pages=2, tokens=3_000)
    assert [page["how"] for page in ended.result["pages"]] == ["structural"] * 2
    assert all("returned the page unchanged" in gap for gap in ended.result["gaps"])
    assert ended.result["tokens"]["accumulated"] <= 3_000


async def test_a_token_budget_stops_the_research_and_the_result_says_so(tmp_path: Path) -> None:
    async with FakeLLMServer(Researcher(WEB, pages=1)).listening() as llm, listening(Servers(WEB)) as addresses:
        ended = await research(
            tmp_path,
            addresses,
            subject=WEB.subject,
            environment=model(llm.url),
            pages=5,
            tokens=2_000,
            max_tokens=30_000,
        )
    result = ended.result
    assert ended.session.status == "completed" and result["status"] == "stopped"
    assert result["reason"].startswith("The budget is used up: ") and "of 30,000 tokens are spent" in result["reason"]
    assert any("stopped" in topic for topic in result["topics"]) and result["pages"]
    assert result["usage"]["input_tokens"] + result["usage"]["output_tokens"] <= 30_000


async def test_a_price_that_nobody_knows_is_no_limit_to_promise(tmp_path: Path) -> None:
    async with listening(Servers(WEB), summarizer=False) as addresses:
        ended = await research(
            tmp_path, addresses, subject=WEB.subject, environment=model("http://127.0.0.1:9/v1"), max_price=0.5
        )
    assert ended.session.status == "failed" and "The price of scripted is unknown" in ended.session.reason


async def test_a_model_that_is_away_leaves_the_work_to_search_and_rules(tmp_path: Path) -> None:
    async with (
        FakeLLMServer(lambda body: 401).listening() as llm,
        listening(Servers(WEB), summarizer=False) as addresses,
    ):
        ended = await research(
            tmp_path, addresses, subject=WEB.subject, topics=TWO, environment=model(llm.url), pages=2
        )
    result = ended.result
    assert ended.session.status == "completed" and result["status"] == "partial"
    assert any("the researcher did not finish" in gap for gap in result["gaps"])
    assert any("The model did not extract" in gap for gap in result["gaps"])
    assert len(result["pages"]) == 2 and result["passages"]


async def test_an_alert_may_choose_the_researchers_servers_and_tools(tmp_path: Path) -> None:
    servers = Servers(WEB)
    only_search = Override.model_validate({"servers": [{"name": "search"}]})
    async with listening(servers) as addresses:
        ended = await research(
            tmp_path, addresses, subject=WEB.subject, topics=TWO, pages=2, tokens=3_000, override=only_search
        )
        assert ended.session.status == "completed" and not servers.summarized, "the summarizer was not among them"
        assert [page["how"] for page in ended.result["pages"]] == ["structural"] * 2
        one_tool = Override.model_validate({"servers": [{"name": "search", "tools": ["search"]}]})
        ended = await research(tmp_path, addresses, subject=WEB.subject, topics=TWO, pages=2, override=one_tool)
    assert ended.session.status == "failed" and "No tool reads a page" in ended.session.reason
    assert "There are: search.search." in ended.session.reason


async def test_nothing_that_searches_is_a_clear_mistake(tmp_path: Path) -> None:
    servers = Servers(WEB)
    async with listening(servers) as addresses:
        ended = await research(tmp_path, {"summarizer": addresses["summarizer"]}, subject=WEB.subject)
    assert ended.session.status == "failed"
    assert ended.session.reason.startswith("No tool searches. There are: summarizer.summarize_for_extraction.")


@pytest.mark.parametrize("model_is_there", [False, True])
async def test_a_page_that_is_found_for_two_topics_counts_once(tmp_path: Path, model_is_there: bool) -> None:
    """The scripted model reads whatever search gives, so both of its topics read the same pages."""
    same = {"one": "Relics of {subject}", "two": "Relics of {subject}"}
    servers = Servers(WEB)
    script = Researcher(WEB, pages=2)
    async with FakeLLMServer(script).listening() as llm, listening(servers) as addresses:
        ended = await research(
            tmp_path,
            addresses,
            subject=WEB.subject,
            topics=same,
            environment=model(llm.url) if model_is_there else None,
            pages=4,
        )
    urls = [page["url"] for page in ended.result["pages"]]
    assert len(urls) == len(set(urls))
    assert len(servers.crawled) == len(set(servers.crawled))
