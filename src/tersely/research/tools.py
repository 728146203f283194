"""The tools of a researcher: which one searches, which reads pages, which summarizes, and their arguments.

Tools are found by their names, descriptions and schemas, so that any search server
works; configured tools take precedence.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from tersely.errors import InputError
from tersely.mcp.raw import Tool
from tersely.mcp.registry import ToolRegistry
from tersely.research.options import ResearchOptions

_QUERY = ("query", "q", "search_query", "search", "question", "keywords", "text")
_ADDRESS = ("url", "urls", "uri", "address", "link", "page", "page_url")
_COUNT = ("limit", "max_results", "num_results", "count", "numresults", "maxresults", "n", "top_k")
_SEARCHES = re.compile(r"search", re.I)
_READS = re.compile(r"crawl|fetch|scrape|extract|read|page|browse|content", re.I)
SUMMARIZE = "summarize_for_extraction"
_URL = re.compile(r"https?://[^\s<>\"'\])}]+")
_LINK = re.compile(r"\[([^\[\]\n]{1,300})\]\((https?://[^\s)]+)\)")
_NUMBERED = re.compile(r"^\W{0,3}(?:\d{1,3}[.):]\s*)?[#*\s]*|[*\s]+$")


@dataclass(frozen=True)
class SearchHit:
    """A page that a search found."""

    url: str
    title: str = ""


@dataclass(frozen=True, kw_only=True)
class ResearchTools:
    search: Tool
    crawl: Tool
    summarize: Tool | None

    @classmethod
    def of(
        cls,
        registry: ToolRegistry,
        servers: Sequence[str],
        options: ResearchOptions,
        *,
        granted: Mapping[str, Sequence[str]] = {},
    ) -> "ResearchTools":
        """Choose the tools for a research.

        Args:
            granted: The only tools that may be used, by server, if the alert restricts them.

        Raises:
            InputError: No tool searches or no tool reads pages; the message lists the tools and the setting.
        """
        offered = [named.tool for named in registry.tools(servers)]
        tools = [tool for tool in offered if tool.name in granted.get(tool.server, (tool.name,))]
        search = _named(tools, options.search_tool) or _best(tools, _QUERY, _SEARCHES)
        crawl = _named(tools, options.crawl_tool) or _best([tool for tool in tools if tool != search], _ADDRESS, _READS)
        summarize = _named(tools, options.summarize_tool) or next(
            (tool for tool in tools if tool.name == SUMMARIZE), None
        )
        for tool, does, setting in (
            (search, "searches", "search_tool"),
            (crawl, "reads a page by its address", "crawl_tool"),
        ):
            if tool is None:
                available = f" There are: {', '.join(one.dotted for one in tools)}." if tools else ""
                down = [status for status in registry.statuses() if status.state != "ready"]
                if down:
                    why = " ".join(status.last_error or f"Server {status.name!r} is still starting." for status in down)
                    raise InputError(
                        f"No tool {does}, because a server is missing. {why}{available} Start it and try again."
                    )
                raise InputError(f"No tool {does}.{available} Name one as research.{setting} (server.tool).")
        assert search and crawl
        return cls(search=search, crawl=crawl, summarize=summarize)

    def search_arguments(self, query: str, limit: int) -> dict[str, Any]:
        arguments: dict[str, Any] = {_argument(self.search, _QUERY): query}
        count = _argument(self.search, _COUNT)
        if count:
            most = _properties(self.search)[count].get("maximum")
            arguments[count] = min(limit, most) if isinstance(most, int) else limit
        return arguments

    def crawl_arguments(self, url: str) -> dict[str, Any]:
        name = _argument(self.crawl, _ADDRESS)
        wants_list = _properties(self.crawl).get(name, {}).get("type") == "array"
        return {name: [url] if wants_list else url}

    def address_in(self, arguments: Mapping[str, Any]) -> str:
        """The address in the arguments of a crawl."""
        value = arguments.get(_argument(self.crawl, _ADDRESS), "")
        return str(value[0] if isinstance(value, list) and value else value)


def _named(tools: Sequence[Tool], name: str) -> Tool | None:
    if not name:
        return None
    found = next((tool for tool in tools if name in (tool.dotted, tool.name)), None)
    if found is None:
        raise InputError(f"There is no tool {name!r}. There are: {', '.join(tool.dotted for tool in tools) or 'none'}.")
    return found


def _best(tools: Sequence[Tool], arguments: Sequence[str], pattern: re.Pattern[str]) -> Tool | None:
    """The first tool with such an argument and a matching name, else one with a matching description."""
    fitting = [tool for tool in tools if _argument(tool, arguments) and not tool.destructive]
    by_name = [tool for tool in fitting if pattern.search(tool.name)]
    by_description = [tool for tool in fitting if pattern.search(tool.description)]
    return next(iter([*by_name, *by_description]), None)


def _properties(tool: Tool) -> Mapping[str, Any]:
    found = tool.input_schema.get("properties")
    return (
        {name: part if isinstance(part, dict) else {} for name, part in found.items()}
        if isinstance(found, dict)
        else {}
    )


def _argument(tool: Tool, names: Sequence[str]) -> str:
    declared = {name.lower(): name for name in _properties(tool)}
    return next((declared[name] for name in names if name in declared), "")


# Search results


def hits(text: str) -> list[SearchHit]:
    """The pages in a search result of any format, in order, each once."""
    try:
        found = list(_in_json(json.loads(text)))
    except (ValueError, RecursionError):
        found = list(_in_text(text))
    unique: dict[str, SearchHit] = {}
    for hit in found:
        unique.setdefault(same_page(hit.url), hit)
    return list(unique.values())


def _in_json(value: Any) -> Iterator[SearchHit]:
    if isinstance(value, dict):
        url = next((value[key] for key in ("url", "link", "href", "uri") if isinstance(value.get(key), str)), "")
        if url.startswith(("http://", "https://")):
            yield SearchHit(url, str(value.get("title") or value.get("name") or "")[:300])
        for inner in value.values():
            if isinstance(inner, dict | list):
                yield from _in_json(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _in_json(inner)


def _in_text(text: str) -> Iterator[SearchHit]:
    title = ""
    for line in text.splitlines():
        links = _LINK.findall(line)
        if links:
            yield from (SearchHit(url, name.strip()) for name, url in links)
        elif found := _URL.findall(line):
            yield from (SearchHit(url.rstrip(".,;:!?"), title) for url in found)
        elif line.strip():
            title = _NUMBERED.sub("", line.removeprefix("Title:").strip())[:300]
            continue
        title = ""


def same_page(url: str) -> str:
    """Normalize an address, so that addresses of the same page are equal."""
    parts = urlsplit(url.strip())
    return urlunsplit(
        (parts.scheme.lower().replace("https", "http"), parts.netloc.lower(), parts.path.rstrip("/"), parts.query, "")
    )
