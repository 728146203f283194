"""What the operator says about research: how many pages, how much of them, with which tools, and for how much."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

_CONFIG = ConfigDict(
    extra="forbid", frozen=True, use_attribute_docstrings=True, populate_by_name=True, hide_input_in_errors=True
)


class ResearchOptions(BaseModel):
    """How subjects are researched."""

    model_config = _CONFIG

    pages: Annotated[int, Field(alias="TERSELY_RESEARCH_PAGES", ge=1, le=500)] = 15
    """Pages read for one subject, shared evenly by its topics."""

    tokens: Annotated[int, Field(alias="TERSELY_RESEARCH_TOKENS", ge=1_000, le=1_000_000)] = 25_000
    """What all pages together may take once they are condensed; the extraction reads this much."""

    max_tokens: Annotated[int, Field(alias="TERSELY_RESEARCH_MAX_TOKENS", ge=0)] = 0
    """Tokens of the model that one subject may cost, asked and answered; then it ends and says so. 0: no limit."""

    max_price: Annotated[float, Field(alias="TERSELY_RESEARCH_MAX_PRICE", ge=0)] = 0
    """US dollars that one subject may cost; then it ends and says so. 0: no limit."""

    search_tool: Annotated[str, Field(alias="TERSELY_RESEARCH_SEARCH_TOOL")] = ""
    """`server.tool` that searches; without it the first one that takes a query and calls itself a search."""

    crawl_tool: Annotated[str, Field(alias="TERSELY_RESEARCH_CRAWL_TOOL")] = ""
    """`server.tool` that reads a page; without it the first one that takes an address."""

    summarize_tool: Annotated[str, Field(alias="TERSELY_RESEARCH_SUMMARIZE_TOOL")] = ""
    """`server.tool` that summarizes for extraction; without it the one called `summarize_for_extraction`, else we do it
    ourselves.
    """
