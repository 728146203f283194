"""The server `type: history`: agents search the verdicts of earlier sessions.

It runs in this process, on the same database; otherwise it is a server like any other:
agents, chains and overrides name it, its results are masked, condensed and kept. It
returns verdicts of all sessions, as the API does for everyone who may read. Handles of
other sessions cannot be read, so they are left out.
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tersely.errors import ToolError
from tersely.mcp.raw import ContentPart, OnProgress, RawResult, Tool, read_tool
from tersely.mcp.servers import Server
from tersely.store import history
from tersely.store.database import Database
from tersely.store.events import stamp
from tersely.store.history import Match
from tersely.store.triage import UNTOUCHED, Triage, triage_of

if TYPE_CHECKING:
    from tersely.mcp.connect.supervisor import ServerStatus

MOST_FOUND = 10
TOOL = "search_past_sessions"
_DEFINITION = {
    "name": TOOL,
    "description": "Search earlier investigations by words of their title, cause or summary: what happened, why, and "
    "whether people confirmed it. Search for the alert's name, the service or an error message.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "Words; the sessions with most of them come first."},
            "limit": {"type": "integer", "minimum": 1, "maximum": MOST_FOUND},
        },
        "required": ["query"],
    },
    "annotations": {"readOnlyHint": True, "idempotentHint": True},
}


class HistoryServer:
    """A `ServerConnection` without a process or an address."""

    def __init__(self, server: Server, database: Database) -> None:
        self.server = server
        self.tools: tuple[Tool, ...] = (read_tool(server.name, _DEFINITION),)
        self._database = database
        self._since = database.clock.now()

    async def call(
        self,
        tool: Tool,
        arguments: Mapping[str, Any],
        *,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> RawResult:
        query, limit = arguments.get("query"), arguments.get("limit", 5)
        if not isinstance(query, str) or not query.strip():
            raise ToolError(f"{TOOL} needs a query: words of a title, a cause or an error message.")
        if not isinstance(limit, int):
            raise ToolError(f"limit must be a number from 1 to {MOST_FOUND}.")
        async with self._database.reading() as db:
            found = await history.search_verdicts(
                db, query[:2_000], all_words=False, limit=min(max(limit, 1), MOST_FOUND)
            )
            triaged = await triage_of(db, [match.session.id for match in found])
        described = [_described(match, triaged.get(match.session.id, UNTOUCHED)) for match in found]
        text = "\n\n".join(described) if described else "No earlier session matches these words."
        return RawResult(parts=(ContentPart(kind="text", text=text),))

    def retry(self) -> None:
        """Without effect: it is always there."""

    def status(self) -> "ServerStatus":
        from tersely.mcp.connect.supervisor import ServerStatus

        return ServerStatus(
            name=self.server.name,
            state="ready",
            since=self._since,
            last_error="",
            tools=len(self.tools),
            refused=(),
            protocol="",
            server_info={"name": "tersely", "title": "Earlier sessions"},
            latency_ms=None,
            restarts=0,
            next_try=None,
            dropped=0,
            pid=None,
        )


def _described(match: Match, triaged: Triage) -> str:
    session, verdict = match.session, match.session.verdict or {}
    lines = [f"session {session.id}, {stamp(session.created_at)}, alert type {session.alert_type}: {session.title}"]
    if service := verdict.get("service"):
        lines.append(f"affected: {service}")
    lines.append(f"cause ({verdict.get('confidence', 'low')} confidence): {verdict.get('cause') or 'none found'}")
    if triaged.rating:
        note = f": {json.dumps(triaged.rating_note, ensure_ascii=False)}" if triaged.rating_note else ""
        lines.append(f"a person rated this verdict as {triaged.rating}{note}")
    if triaged.close_note:
        lines.append(f"closed with: {json.dumps(triaged.close_note, ensure_ascii=False)}")
    lines.append(f"summary: {verdict.get('summary', '')}")
    lines += [f"next action: {action.get('text', '')}" for action in verdict.get("actions") or ()][:3]
    return "\n".join(lines)
