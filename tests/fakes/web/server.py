"""A small simulated web as an MCP server that searches and crawls it: `python -m tests.fakes.web.server --seed N`.

Fifteen pages about an invented country, drawn from the seed, over stdio or with
`--http` over HTTP. `--tools` leaves out one of the two tools, so that search and crawl
can be two servers. `pages` knows which facts the pages state; the server returns only
the pages.
"""

import argparse
import sys
from typing import Annotated, Literal

from fastmcp import FastMCP
from fastmcp.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import Field

from tests.fakes.web.pages import SmallWeb, draw_web

READS = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=True)
TOOLS = ("search", "crawl")


def build(web: SmallWeb, tools: tuple[str, ...] = TOOLS) -> FastMCP:
    """The server over a web."""
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
        """Read one whole page: the article and everything around it."""
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
        prog="python -m tests.fakes.web.server", description="A small simulated web as an MCP server."
    )
    parser.add_argument("--seed", type=int, default=7, help="draws the web; the same seed draws the same web (7)")
    parser.add_argument(
        "--tools", nargs="+", choices=TOOLS, default=list(TOOLS), help="which tools it offers; default: both"
    )
    parser.add_argument(
        "--http", action="store_true", help="serve at http://127.0.0.1:PORT/mcp instead of standard input and output"
    )
    parser.add_argument("--port", type=int, default=8006, help="with --http (8006)")
    parser.add_argument("--subject", action="store_true", help="print the subject of this web and exit")
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
