"""A web of three pages, as an MCP server with a search tool and a tool that reads a page."""

from fastmcp import FastMCP

SEASONS = "\n\n".join(f"Visitors of season {year} praised the calm water." for year in range(1900, 2020))
PAGES = {
    "https://example.test/lake": f"""# Lake Orta

Lake Orta has an area of 18.2 km² and is 143 m deep. It lies west of Lake Maggiore.

{SEASONS}""",
    "https://example.test/island": """# Isola San Giulio

The island in Lake Orta is 275 m long. A Benedictine abbey was founded in 1973.""",
    "https://example.test/history": """# History

In 1926 a factory polluted Lake Orta. Between 1989 and 1990 it was limed and recovered.""",
}

mcp = FastMCP("web")


@mcp.tool(annotations={"readOnlyHint": True})
def search(query: str, limit: int = 10) -> list[dict[str, str]]:
    """Search the web; returns title, url and snippet of each hit."""
    return [
        {"title": text.splitlines()[0].lstrip("# "), "url": url, "snippet": text[:120]} for url, text in PAGES.items()
    ][:limit]


@mcp.tool(annotations={"readOnlyHint": True})
def read_page(url: str) -> str:
    """Read a page by its address, as Markdown."""
    return PAGES[url]


if __name__ == "__main__":
    mcp.run()
