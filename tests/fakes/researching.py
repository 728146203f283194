"""A research from beginning to end: a small web and a summarizer behind real MCP servers, an sessions_app, and a
scripted
researcher.
"""

import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from fastmcp import FastMCP
from fastmcp.exceptions import ToolError
from mcp_types import ToolAnnotations

from tersely.agent.options import AgentOptions
from tersely.app.sessions import SessionsApp, sessions_app
from tersely.condensing.structural import condense_within
from tersely.mcp.servers import ServerOptions, TransportOptions
from tersely.research.work import result_of
from tersely.sessions.chains import ChainOptions, StageOptions
from tersely.sessions.intake import Submission
from tersely.sessions.overrides import Override
from tersely.settings.model import Settings
from tersely.store import sessions as rows
from tersely.store.sessions import Session
from tersely.store.stages import Stage, stages_of
from tests.fakes.llm_server import Body, Reply, serving
from tests.fakes.web.pages import SmallWeb, draw_web

READS = ToolAnnotations(read_only_hint=True)
TEXT = {"type": "string"}


def records(**fields: object) -> dict[str, object]:
    return {"type": "array", "items": {"type": "object", "required": ["name"], "properties": {"name": TEXT, **fields}}}


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "people": records(byname=TEXT, allegiance={**TEXT, "description": "faction that the person is sworn to"}),
        "events": records(date=TEXT, leader={**TEXT, "description": "who led it"}),
        "items": records(keeper={**TEXT, "description": "in whose hands it is"}),
    },
}
TOPICS = {
    "people": "Who is who in {subject}?",
    "allegiances": "Factions of {subject}, oaths and allegiances",
    "dates": "Timeline and chronology of {subject}",
    "events": "Battles and great events of {subject} and who led them",
    "items": "Relics and famous items of {subject} and their keepers",
}
FIELDS = {
    "name": ("people", "byname"),
    "allegiance": ("people", "allegiance"),
    "date": ("events", "date"),
    "event": ("events", "leader"),
    "item": ("items", "keeper"),
}


@dataclass
class Servers:
    """A search server and a summarizer that write down what they are asked."""

    web: SmallWeb
    also: str = ""
    """What every page says besides."""

    fails: int = 0
    """Every so many calls of the summarizer fail; 0: none does."""

    unchanged: bool = False
    """The summarizer gives everything back as it came."""

    crawled: list[str] = field(default_factory=list)
    summarized: list[Mapping[str, Any]] = field(default_factory=list)

    def search(self) -> FastMCP:
        server = FastMCP(name="search")

        @server.tool(annotations=READS, output_schema=None)
        def search(query: str, limit: int = 8) -> str:
            """Search the web."""
            found = self.web.search(query, limit)
            return "\n\n".join(
                f"{number}. {page.title}\n   {page.url}\n   {passage}"
                for number, (page, passage) in enumerate(found, 1)
            )

        @server.tool(annotations=READS, output_schema=None)
        def crawl(url: str) -> str:
            """Read one page."""
            self.crawled.append(url)
            page = self.web.page(url)
            if page is None:
                raise ToolError("404")
            return page.markdown + self.also

        return server

    def summarizer(self) -> FastMCP:
        server = FastMCP(name="summarizer")

        @server.tool(annotations=READS, output_schema=None)
        def summarize_for_extraction(content: str, schema_hint: str, max_output_tokens: int = 0) -> str:
            """Summarize content for extraction."""
            self.summarized.append(
                {"content": content, "schema_hint": schema_hint, "max_output_tokens": max_output_tokens}
            )
            if self.fails and len(self.summarized) % self.fails == 0:
                raise ToolError("the summarizer is down")
            return content if self.unchanged else condense_within(content, max_output_tokens or 1_500, schema_hint).text

        return server


@asynccontextmanager
async def listening(servers: Servers, *, summarizer: bool = True) -> AsyncIterator[dict[str, str]]:
    """The addresses of both, by the names of 003 §6."""
    async with serving(servers.search().http_app(), lifespan="on") as search:
        if not summarizer:
            yield {"search": f"{search}/mcp"}
            return
        async with serving(servers.summarizer().http_app(), lifespan="on") as other:
            yield {"search": f"{search}/mcp", "summarizer": f"{other}/mcp"}


@dataclass
class Ended:
    session: Session
    result: dict[str, Any]
    contents: list[str]
    checkpoints: list[dict[str, Any]]
    raw: list[str]
    stages: list[Stage]


async def research(
    folder: Path,
    addresses: Mapping[str, str],
    *,
    subject: str,
    topics: Mapping[str, str] = TOPICS,
    schema: Mapping[str, Any] = SCHEMA,
    environment: Mapping[str, str] | None = None,
    override: Override | None = None,
    **options: Any,
) -> Ended:
    """Submit a research, wait for its end, and read what is kept of it."""
    base = Settings.load({"TERSELY_DATA_DIR": str(folder), "TERSELY_SUMMARY_CACHE": "no", **(environment or {})})
    settings = base.model_copy(
        update={
            "mcp_servers": {
                name: ServerOptions(transport=TransportOptions(url=url)) for name, url in addresses.items()
            },
            "agents": {"researcher": AgentOptions(mcp_servers=tuple(addresses))},
            "chains": {"research": ChainOptions(alert_types=("research",), kind="research", stages=(_STAGE,))},
        }
    )
    data = {
        "subject": subject,
        "topics": dict(topics),
        "schema": dict(schema),
        **({"options": options} if options else {}),
    }
    async with sessions_app(settings, version="test") as parts:
        accepted = await parts.intake.submit(
            Submission(data=data, alert_type="research", override=override), principal="me"
        )
        return await ended(parts, accepted.session_id)


_STAGE = StageOptions(name="research", agent="researcher")


async def ended(parts: SessionsApp, session_id: str) -> Ended:
    with anyio.fail_after(300):
        while True:
            async with parts.database.reading() as db:
                session = await rows.find(db, session_id)
                stages = await stages_of(db, session_id)
            if session.has_ended:
                break
            await anyio.sleep(0.05)
    scope = session.results_scope
    result = await result_of(parts.kept, session) or {}
    checkpoints = []
    for one in reversed(await parts.kept.list(scope, limit=500)):
        if one.origin.tool == "research_checkpoint":
            checkpoints.append(json.loads(await parts.kept.load(one.handle, scope)))
    contents = [await parts.kept.load(page["content_handle"], scope) for page in result.get("pages", [])]
    raw = [await parts.kept.load(page["handle"], scope) for page in result.get("pages", [])]
    return Ended(session, result, [*contents], checkpoints, [*raw], stages)


def model(url: str, **more: str) -> dict[str, str]:
    return {
        "OPENROUTER_API_KEY": "k",
        "OPENROUTER_BASE_URL": url,
        "LLM_MODEL": "scripted",
        "LLM_CONTEXT_WINDOW": "64000",
        **more,
    }


@dataclass
class Researcher:
    """A model that does as it is told: searches, reads what was found, summarizes by handle, takes notes, extracts what
    it reads.
    """

    web: SmallWeb
    pages: int = 3
    summarizes: bool = True
    invents: bool = False

    def __call__(self, body: Body) -> Reply:
        messages = body["messages"]
        system = str(messages[0]["content"])
        if system.startswith("You extract facts"):
            answered = "".join(str(message["content"]) for message in messages if message["role"] == "assistant")
            return Reply(self.extracted(str(messages[1]["content"]), answered))
        said = [message for message in messages if message["role"] == "tool"]
        topic = str(messages[1]["content"]).split("\n")[0]
        done = "\n".join(str(message["content"]) for message in said)
        if not said:
            return _calls(("search__search", {"query": topic, "limit": 15}))
        crawled = [message for message in said if str(message["content"]).startswith("search.crawl")]
        if not crawled:
            before = str(messages[1]["content"])
            urls = [url for url in re.findall(r"https?://\S+", done) if url not in before][: self.pages]
            return _calls(*(("search__crawl", {"url": url}) for url in urls))
        texts = "\n".join(str(message["content"]) for message in crawled)
        handles = list(dict.fromkeys(re.findall(r"(?:kept as |handle=')(r_\w+)", texts)))
        if self.summarizes and "summarizer.summarize_for_extraction" not in done:
            hint = next(line.strip() for line in system.split("\n") if line.startswith("    Extract facts"))
            asked = {"schema_hint": hint, "max_output_tokens": 1_500}
            return _calls(
                *(
                    ("summarizer__summarize_for_extraction", {"content": f"result:{handle}", **asked})
                    for handle in handles
                )
            )
        return Reply(f"Notes: {len(crawled)} pages were read.")

    def extracted(self, prompt: str, answered: str = "") -> str:
        """Every planted claim that stands in one line of a page, cited; and one that nobody made, if it invents.
        Without those that an earlier answer, which was cut off, contains.
        """
        facts: list[Any] = []
        for section in re.split(r"(?m)^(?=\[P\d+\] )", prompt)[1:]:
            label = section[1 : section.index("]")]
            for claim in self.web.country.claims:
                line = next((line for line in section.split("\n") if claim.about in line and claim.value in line), None)
                if line:
                    path, name = FIELDS[claim.kind]
                    source = {"page": label, "quote": line.strip("* |")[:200]}
                    facts.append({"path": path, "value": {"name": claim.about, name: claim.value}, "sources": [source]})
        if self.invents:
            facts.append(
                {
                    "path": "people",
                    "value": {"name": "Nobody Atall", "byname": "the Invented"},
                    "sources": [{"page": "P1"}],
                }
            )
            facts.append({"path": "people", "value": {"name": self.web.country.people[0]}, "sources": []})
        return json.dumps({"facts": [fact for fact in facts if json.dumps(fact) not in answered]})


def _calls(*calls: tuple[str, Mapping[str, Any]]) -> Reply:
    return Reply(
        finish="tool_calls",
        tool_calls=tuple(
            {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
            for number, (name, arguments) in enumerate(calls, start=1)
        ),
    )


WEB = draw_web(7)
