"""A small web behind real MCP servers: `python -m tersely.demo.web --seed N` searches and crawls it.

Fifteen pages about a country that does not exist, drawn from the seed. On standard
input and output, or with `--http` at an address; `--tools` leaves one of the two
tools out, for those who want search and crawl to be two servers. What the pages
state is known to `web_pages`; nothing of it is handed out but the pages themselves.
"""

import argparse
import sys
from typing import Annotated, Literal

from fastmcp import FastMCP
from fastmcp.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import Field

from tersely.demo.web_pages import SmallWeb, draw_web

READS = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=True)
TOOLS = ("search", "crawl")


def build(web: SmallWeb, tools: tuple[str, ...] = TOOLS) -> FastMCP:
    """The server over a small web."""
    server = FastMCP(name="web", instructions="Searches the web and reads its pages.")

    def search(
        query: Annotated[str, Field(description="Words to look for.")],
        limit: Annotated[int, Field(description="How many results at most.", ge=1, le=20)] = 8,
    ) -> str:
        """Search the web. Returns titles, addresses and a passage of each page; `crawl` reads a page."""
        found = web.search(query, limit)
        return "\n\n".join(
            f"{number}. {page.title}\n   {page.url}\n   {passage}"
            for number, (page, passage) in enumerate(found, start=1)
        )

    def crawl(
        url: Annotated[str, Field(description="Address of the page.")],
        format: Annotated[Literal["markdown", "html"], Field(description="markdown, or the raw html.")] = "markdown",
    ) -> str:
        """Read one page of the web, all of it: the article and whatever stands around it."""
        page = web.page(url)
        if page is None:
            raise ToolError(f"404: there is no page at {url!r}. `search` gives addresses.")
        return page.markdown if format == "markdown" else page.html

    for function in (search, crawl):
        if function.__name__ in tools:
            server.tool(function, annotations=READS, output_schema=None)
    return server


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tersely.demo.web", description="A small web that does not exist, behind an MCP server."
    )
    parser.add_argument("--seed", type=int, default=7, help="draws the web; the same seed gives the same one again (7)")
    parser.add_argument(
        "--tools", nargs="+", choices=TOOLS, default=list(TOOLS), help="which tools it offers; both unless given"
    )
    parser.add_argument(
        "--http", action="store_true", help="serve at http://127.0.0.1:PORT/mcp instead of standard input and output"
    )
    parser.add_argument("--port", type=int, default=8006, help="with --http (8006)")
    parser.add_argument("--subject", action="store_true", help="say what this web is about, and end")
    options = parser.parse_args(arguments)
    web = draw_web(options.seed)
    if options.subject:
        sys.stdout.write(web.subject + "\n")
        return
    server = build(web, tuple(options.tools))
    if options.http:
        server.run(transport="http", host="127.0.0.1", port=options.port, show_banner=False)
    else:
        server.run(transport="stdio", show_banner=False)


if __name__ == "__main__":
    main(sys.argv[1:])
