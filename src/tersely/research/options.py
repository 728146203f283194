"""Configuration of research: number and size of pages, budget, and tools."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

_CONFIG = ConfigDict(
    extra="forbid", frozen=True, use_attribute_docstrings=True, populate_by_name=True, hide_input_in_errors=True
)


class ResearchOptions(BaseModel):
    """Options of research."""

    model_config = _CONFIG

    pages: Annotated[int, Field(alias="TERSELY_RESEARCH_PAGES", ge=1, le=500)] = 15
    """Pages to read for one subject, divided evenly among its topics."""

    tokens: Annotated[int, Field(alias="TERSELY_RESEARCH_TOKENS", ge=1_000, le=1_000_000)] = 25_000
    """Tokens of all condensed pages together, which the extraction reads."""

    max_tokens: Annotated[int, Field(alias="TERSELY_RESEARCH_MAX_TOKENS", ge=0)] = 0
    """Limit on model tokens, input and output, for one subject; research stops there and reports it. 0: no limit."""

    max_price: Annotated[float, Field(alias="TERSELY_RESEARCH_MAX_PRICE", ge=0)] = 0
    """Limit in US dollars for one subject; research stops there and reports it. 0: no limit."""

    search_tool: Annotated[str, Field(alias="TERSELY_RESEARCH_SEARCH_TOOL")] = ""
    """`server.tool` that searches; if omitted, the first one that takes a query and mentions search."""

    crawl_tool: Annotated[str, Field(alias="TERSELY_RESEARCH_CRAWL_TOOL")] = ""
    """`server.tool` that reads a page; if omitted, the first one that takes an address."""

    summarize_tool: Annotated[str, Field(alias="TERSELY_RESEARCH_SUMMARIZE_TOOL")] = ""
    """`server.tool` that summarizes for extraction; if omitted, `summarize_for_extraction`, else Tersely itself."""
