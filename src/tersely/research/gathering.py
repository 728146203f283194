"""Research of one topic: find and read pages, by an agent or by search alone, and condense each to its share.

Pages are passed by handle. A page is kept and condensed on arrival; the summarizer
receives `result:r_…`, which is expanded to the whole page, whether the agent calls it
or this module does. The summary replaces the page in the checkpoint; the page itself
stays readable. If the summarizer fails, the page is condensed structurally and the gap
is reported.
"""

import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Literal, TypeVar

from tersely.agent.assignment import Assignment
from tersely.agent.calls import Called, ToolCaller
from tersely.agent.loop import investigate
from tersely.agent.ordered_gather import ordered_gather
from tersely.agent.tool_executor import Fetched, Step
from tersely.agent.trace import recorded_exchanges
from tersely.condensing.budget import Condensed
from tersely.condensing.prompt_files import Prompt
from tersely.condensing.summarize.map_reduce import SummaryRequest
from tersely.cpu.run import run_cpu
from tersely.llm.client import LLM
from tersely.llm.exchanges import observed
from tersely.llm.messages import ToolCall
from tersely.masking.mask import Masker
from tersely.masking.masked import NOTHING, Masked
from tersely.pipeline.admit import admit_text, admit_words
from tersely.pipeline.core import masked_text
from tersely.pipeline.policy import Policy
from tersely.pipeline.process import Intent
from tersely.research.budget import SPENT, UsageBudget
from tersely.research.request import ResearchRequest, Topic
from tersely.research.tools import ResearchTools, SearchHit, hits, same_page
from tersely.store.results import Origin
from tersely.text.tokens import O200K

T = TypeVar("T")

RESEARCHER = Prompt("researcher", "tersely.research")
SUMMARIZING = Prompt("summarizing", "tersely.research")
TOPIC = Prompt("topic", "tersely.research")

HEADER_TOKENS = 60
"""Tokens for a page's title and address in the accumulated content."""

SMALLEST_TARGET = 100
_TITLE = re.compile(r"^#\s+(.{1,200})$|<title[^<>]*>([^<]{1,200})", re.M | re.I)

How = Literal["agent", "summarizer", "summary", "structural", "whole"]


@dataclass(frozen=True, kw_only=True)
class CollectedPage:
    """A page in the accumulated content."""

    url: str
    title: str
    topic: str
    page: str
    """Handle of the whole page."""

    content: str
    """Handle of the condensed page."""

    tokens_before: int
    tokens: int
    how: How
    gap: str = ""
    """What was lost in condensing, for the report."""


@dataclass(frozen=True, kw_only=True)
class ReadPage:
    url: str
    title: str
    handle: str
    tokens: int
    digest: str
    """Digest of the content, to recognize the same page under two addresses."""


@dataclass(frozen=True, kw_only=True)
class Shortened:
    """The stored result of condensing a page: a handle with sizes."""

    content: str
    tokens: int
    how: How
    gap: str = ""


@dataclass(kw_only=True)
class TopicResult:
    """The outcome of one topic."""

    topic: Topic
    blocks: list[CollectedPage] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)
    notes: Masked = NOTHING
    stopped: str = ""
    """Why the work was stopped early."""


class _CollectingStep:
    """A step that collects the calls made, ordered by step name rather than by completion."""

    def __init__(self, step: Step) -> None:
        self._step = step
        self._calls: dict[tuple[int, ...], Fetched] = {}

    async def __call__(self, name: str, work: Callable[[], Awaitable[T]]) -> T:
        result = await self._step(name, work)
        if isinstance(result, Called):
            self._calls[tuple(map(int, re.findall(r"/(\d+)(?=/)", name)))] = result.fetched
        return result

    def calls(self) -> list[Fetched]:
        return [self._calls[key] for key in sorted(self._calls)]


@dataclass(kw_only=True)
class TopicResearch:
    """The work on one topic. Pages of earlier topics (`known`, `digests`) are not counted again."""

    request: ResearchRequest
    topic: Topic
    assignment: Assignment
    tools: ResearchTools
    caller: ToolCaller
    step: Step
    llm: LLM | None
    usage_budget: UsageBudget
    known: Mapping[str, CollectedPage]
    digests: set[str]

    async def run(self) -> TopicResult:
        done = TopicResult(topic=self.topic)
        summaries: dict[str, Fetched] = {}
        pages: list[ReadPage] = []
        if self.llm:
            done.stopped = await self._refusal()
            if done.stopped:
                return done
            pages, summaries = await self._by_agent(done)
        if not pages and not done.stopped:
            pages = await self._by_search(done)
        share = self.request.tokens_per_topic // max(self.request.pages_per_topic, len(pages) or 1)
        target = max(SMALLEST_TARGET, share - HEADER_TOKENS)

        async def shorten(number: int, page: ReadPage, in_turn: Step) -> CollectedPage:
            shortened = await self._shortened(
                f"{self._prefix}/page/{number}", page, target, summaries.get(page.handle), in_turn
            )
            return CollectedPage(
                url=page.url,
                title=page.title,
                topic=self.topic.name,
                page=page.handle,
                content=shortened.content,
                tokens_before=page.tokens,
                tokens=shortened.tokens,
                how=shortened.how,
                gap=shortened.gap,
            )

        works = [
            lambda in_turn, number=number, page=page: shorten(number, page, in_turn)
            for number, page in enumerate(pages, start=1)
        ]
        done.blocks = await ordered_gather(self.step, works) if works else []
        done.gaps += [f"{block.url}: {block.gap}" for block in done.blocks if block.gap]
        return done

    @property
    def _prefix(self) -> str:
        return self.assignment.stage_id

    async def _refusal(self) -> str:
        """Why the budget does not allow this topic, or empty; checked in a step, so that a replay decides the same."""

        async def check() -> str:
            return self.usage_budget.refusal(1_000) if self.usage_budget.is_limited else ""

        return await self.step(f"{self._prefix}/budget", check)

    # Finding and reading: by an agent

    async def _by_agent(self, done: TopicResult) -> tuple[list[ReadPage], dict[str, Fetched]]:
        assert self.llm
        collecting = _CollectingStep(self.step)
        report = await investigate(
            self._researcher_assignment(),
            llm=self.llm,
            # The agent sees pages condensed structurally; only the summary by handle is paid for.
            summarizer=None,
            executor=self.caller.executor,
            read_back=self.caller.read_back,
            recorder=self.caller.recorder,
            step=collecting,
            display_tokens=self.caller.display_tokens,
        )
        done.notes = report.analysis
        if report.status == "failed":
            if report.reason.startswith(SPENT):
                done.stopped = report.reason
            else:
                done.gaps.append(f"{self.topic.name}: the researcher did not finish: {report.reason}")
        calls = collecting.calls()
        crawled = [one for one in calls if (one.server, one.tool) == (self.tools.crawl.server, self.tools.crawl.name)]
        failed = [one for one in crawled if one.handle is None or one.is_error]
        done.gaps += [
            f"{self.tools.address_in(one.arguments)}: could not be read: {one.problem or 'an error'}" for one in failed
        ]
        found = [(SearchHit(self.tools.address_in(one.arguments)), one) for one in crawled if one not in failed]
        summaries: dict[str, Fetched] = {}
        tool = self.tools.summarize
        for one in calls:
            if tool and (one.server, one.tool) == (tool.server, tool.name) and one.handle and not one.is_error:
                handle = str(one.arguments.get("content", "")).removeprefix("result:")
                summaries.setdefault(handle, one)
        return await self._new_pages(found), summaries

    def _researcher_assignment(self) -> Assignment:
        """The assignment with the researcher's prompts and the section on summarizing, with the tools' actual names."""
        tool = self.tools.summarize
        target = str(
            max(SMALLEST_TARGET, self.request.tokens_per_topic // self.request.pages_per_topic - HEADER_TOKENS)
        )
        if tool is None:
            names = {
                "tool": "summarize_result",
                "content": "`handle`",
                "handle": "r_…",
                "hint": "`focus`",
                "size": "`max_tokens`",
            }
        else:
            by_text = self.assignment.agent.controller == "react"
            name = tool.dotted if by_text else self.caller.toolbox.registry.name_of(tool)
            names = {
                "tool": name,
                "content": "`content`",
                "handle": "result:r_…",
                "hint": "the `schema_hint`",
                "size": "`max_output_tokens`",
            }
        section = SUMMARIZING.fill(
            **names, target=target, pages=str(self.request.pages_per_topic), wanted=self.request.hint(self.topic)
        )
        instructions = f"{self.assignment.agent.instructions.strip()}\n\n{section}".strip()
        agent = self.assignment.agent.model_copy(update={"instructions": instructions})
        return replace(self.assignment, agent=agent, system=RESEARCHER, question=TOPIC)

    # Finding and reading: by search alone

    async def _by_search(self, done: TopicResult) -> list[ReadPage]:
        intent = Intent(looking_for=self.request.hint(self.topic))
        wanted = self.request.pages_per_topic
        arguments = self.tools.search_arguments(
            f"{self.request.subject} {self.topic.about}", wanted + len(self.known) + 5
        )
        search = ToolCall("search", self.tools.search.dotted, _json(arguments))
        result = await self.caller.call(
            search, prefix=f"{self._prefix}/search", step=self.step, intent=intent, as_written=search
        )
        if result.observation.is_error or not result.observation.handle:
            done.gaps.append(f"{self.topic.name}: the search failed: {result.observation.text[:300]}")
            return []
        handle = result.observation.handle

        async def read_hits() -> tuple[SearchHit, ...]:
            return tuple(hits(await self.caller.executor.results.load(handle, self.caller.scope.name))[:200])

        found = await self.step(f"{self._prefix}/search/hits", read_hits)
        new = [hit for hit in found if same_page(hit.url) not in self.known][:wanted]
        if not new:
            done.gaps.append(
                f"{self.topic.name}: the search found {'no page' if not found else 'only pages that were read before'}."
            )

        async def crawl(number: int, hit: SearchHit, in_turn: Step) -> tuple[SearchHit, Fetched | None, str]:
            call = ToolCall(f"crawl_{number}", self.tools.crawl.dotted, _json(self.tools.crawl_arguments(hit.url)))
            collecting = _CollectingStep(in_turn)
            result = await self.caller.call(
                call, prefix=f"{self._prefix}/crawl/{number}", step=collecting, intent=intent, as_written=call
            )
            fetched = collecting.calls()[0]
            return hit, None if fetched.is_error or not fetched.handle else fetched, result.observation.text[:300]

        works = [
            lambda in_turn, number=number, hit=hit: crawl(number, hit, in_turn)
            for number, hit in enumerate(new, start=1)
        ]
        crawled = await ordered_gather(self.step, works) if works else []
        done.gaps += [f"{hit.url}: could not be read: {error}" for hit, fetched, error in crawled if fetched is None]
        return await self._new_pages([(hit, fetched) for hit, fetched, _ in crawled if fetched])

    async def _new_pages(self, found: Sequence[tuple[SearchHit, Fetched]]) -> list[ReadPage]:
        """The pages that were not read before, each once, compared by address and by content."""

        async def describe() -> tuple[ReadPage, ...]:
            pages: list[ReadPage] = []
            for hit, fetched in found:
                assert fetched.handle
                kept = await self.caller.executor.results.find(fetched.handle, self.caller.scope.name)
                stretch = await self.caller.executor.results.read_stretch(kept, 0, min(kept.size, 60_000))
                title = hit.title or _title(stretch.text) or hit.url
                pages.append(
                    ReadPage(url=hit.url, title=title, handle=fetched.handle, tokens=fetched.tokens, digest=kept.blob)
                )
            return tuple(pages)

        pages: list[ReadPage] = []
        known = set(self.known)
        for page in await self.step(f"{self._prefix}/pages", describe):
            if same_page(page.url) not in known and page.digest not in self.digests:
                pages.append(page)
                known.add(same_page(page.url))
                self.digests.add(page.digest)
        return pages

    # Condensing

    async def _shortened(
        self, prefix: str, page: ReadPage, target: int, summary: Fetched | None, step: Step
    ) -> Shortened:
        hint = self.request.hint(self.topic)
        if summary is None and self.tools.summarize and page.tokens > target:
            arguments = {"content": f"result:{page.handle}", "schema_hint": hint, "max_output_tokens": target}
            call = ToolCall("summarize", self.tools.summarize.dotted, _json(arguments))
            collecting = _CollectingStep(step)
            intent = Intent(looking_for=hint)
            await self.caller.call(call, prefix=f"{prefix}/summarizer", step=collecting, intent=intent, as_written=call)
            summary = collecting.calls()[0]
            return await step(f"{prefix}/take", lambda: self._accept(page, target, hint, summary, "summarizer"))
        if summary is not None:
            return await step(f"{prefix}/take", lambda: self._accept(page, target, hint, summary, "agent"))
        return await step(f"{prefix}/shorten", lambda: self._summarize(f"{prefix}/shorten", page, target, hint))

    async def _accept(self, page: ReadPage, target: int, hint: str, summary: Fetched, by: How) -> Shortened:
        """Use a summarizer's result if it is shorter than the page; otherwise condense the page structurally."""
        if summary.handle is None or summary.is_error:
            why = f"the summarizer failed ({summary.problem or 'it returned an error'}); condensed structurally"
            return await self._by_structure(page, target, hint, gap=why)
        if summary.tokens > 0.8 * page.tokens and page.tokens > target:
            return await self._by_structure(
                page, target, hint, gap="the summarizer returned the page unchanged; condensed structurally"
            )
        text = await self._load(summary.handle)
        if not text.strip():
            return await self._by_structure(
                page, target, hint, gap="the summarizer returned nothing; condensed structurally"
            )
        if summary.tokens > target:
            condensed = await self._condense(text, target, hint)
            return await self._keep(page, masked_text(condensed), by)
        return Shortened(content=summary.handle, tokens=summary.tokens, how=by)

    async def _summarize(self, key: str, page: ReadPage, target: int, hint: str) -> Shortened:
        """Summarize a page with the research's own model, or structurally without one."""
        text = await self._load(page.handle)
        if self.llm is None or page.tokens <= target:
            condensed = await self._condense(text, target, hint)
            return await self._keep(
                page, masked_text(condensed), "whole" if condensed.status == "passthrough" else "structural"
            )
        llm = self.llm
        recorder = self.caller.recorder
        about_page = {
            "server": self.tools.crawl.server,
            "tool": self.tools.crawl.name,
            "url": page.url,
            "handle": page.handle,
        }
        recorded = recorded_exchanges(recorder, key, self.caller.masker, request=about_page)
        about = {
            "server_name": self.tools.crawl.server,
            "tool_name": self.tools.crawl.name,
            "original_tokens": page.tokens,
            "handle": page.handle,
            "summarization_model": llm.model,
            "summarization_provider": llm.provider,
        }
        recorder.progress("distilling", f"Summarizing {page.title} ({page.tokens:,} tokens)")
        async with recorder.opened(key, "mcp_tool_summary", metadata=about) as event:
            with observed(recorded):
                condensed = await self._condense(text, target, hint, llm)
            summary = masked_text(condensed)
            outcome = {
                "summary_tokens": condensed.tokens_after,
                "status": condensed.status,
                "returned": condensed.returned,
                "summarization_fallback": condensed.status == "fallback"
                or bool(condensed.work and condensed.work.model != llm.model),
            }
            await event.complete(summary, outcome)
        gap = ""
        if condensed.status == "fallback":
            gap = f"no summary ({condensed.reason}); condensed structurally"
        elif condensed.status == "partial":
            gap = "; ".join(str(lost) for lost in condensed.lost) or "parts of it are missing in the summary"
        return await self._keep(page, summary, "structural" if condensed.status == "fallback" else "summary", gap)

    async def _by_structure(self, page: ReadPage, target: int, hint: str, *, gap: str) -> Shortened:
        condensed = await self._condense(await self._load(page.handle), target, hint)
        return await self._keep(page, masked_text(condensed), "structural", gap)

    async def _condense(self, text: Masked, target: int, hint: str, llm: LLM | None = None) -> Condensed:
        policy = Policy(masker=Masker(key=self.assignment.key), keep="never")
        request = SummaryRequest(target=target, focus=admit_words(hint, policy.masker), extraction=True)
        return await self.caller.executor.pipeline.condense(
            text, policy, Intent(), handle=None, budget=target, llm=llm, request=request, note=None
        )

    async def _keep(self, page: ReadPage, text: Masked, how: How, gap: str = "") -> Shortened:
        tokens = await run_cpu(O200K.count, text)
        origin = Origin(
            server="tersely",
            tool="condensed_page",
            arguments={"page": page.handle, "url": page.url, "topic": self.topic.name},
            called_at=datetime.now(UTC),
        )
        handle = await self.caller.executor.results.keep(
            text, scope=self.caller.scope.name, origin=origin, tokens=tokens
        )
        safe = admit_text(gap, Masker(key=self.assignment.key)) if gap else ""
        return Shortened(content=handle, tokens=tokens, how=how, gap=safe)

    async def _load(self, handle: str) -> Masked:
        return await self.caller.executor.results.load(handle, self.caller.scope.name)


def _title(text: str) -> str:
    found = _TITLE.search(text)
    return " ".join((found.group(1) or found.group(2) or "").split()) if found else ""


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
