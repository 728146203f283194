"""The simulated knowledge base as an MCP server: `python -m tersely.demo.knowledge --seed N`."""

import sys
from typing import Annotated

from fastmcp import FastMCP
from fastmcp.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import Field

from tersely.demo import runbooks
from tersely.demo.arguments import incident_from
from tersely.demo.incidents import Incident

READS = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)


def build(incident: Incident) -> FastMCP:
    """The server over the knowledge base of the cluster's operators."""
    server = FastMCP(
        name="knowledge",
        instructions="Runbooks and past incidents of the people on call: what to do, not what is wrong now.",
    )
    world = incident.world

    @server.tool(annotations=READS, output_schema=None)
    def search_runbooks(
        query: Annotated[str, Field(description="Words to look for, e.g. the alert's name or a symptom.")],
    ) -> str:
        """Search the runbooks for an alert, a symptom or a service. Returns titles and ids; `read_runbook` gives the
        page.
        """
        found = runbooks.search(world, query)
        if not found:
            return "No page has these words.\n"
        return "\n".join(f"- {page.title} (id: {page.id}): {page.core.split('. ')[0]}." for page in found) + "\n"

    @server.tool(annotations=READS, output_schema=None)
    def read_runbook(id: Annotated[str, Field(description="Id of the page, as `search_runbooks` gives it.")]) -> str:
        """Read one runbook page in full."""
        for page in runbooks.pages(world):
            if page.id == id:
                return runbooks.render(world, page)
        raise ToolError(f"There is no page {id!r}. `search_runbooks` gives the ids.")

    @server.tool(annotations=READS, output_schema=None)
    def past_incidents(
        service: Annotated[str, Field(description="Only incidents of this service; empty for all.")] = "",
        days: Annotated[int, Field(description="How far back.", ge=1, le=3_650)] = 365,
    ) -> str:
        """Read the reports of past incidents, all of them resolved: what it was then and what helped."""
        return runbooks.render_past(incident, service=service, days=days)

    return server


if __name__ == "__main__":
    build(incident_from(sys.argv[1:])).run(transport="stdio", show_banner=False)
