"""What there is to work with: alert types, MCP servers and their tools, what was spared, and about this service."""

from typing import Annotated, Any

import anyio.to_thread
from fastapi import APIRouter, Depends, Query

from tersely.condensing.options import SummarizationOptions
from tersely.masking.options import MaskingOptions
from tersely.mcp.raw import Tool
from tersely.mcp.registry import ToolRegistry
from tersely.mcp.selection import is_selected, why_forbidden, why_unusable
from tersely.mcp.servers import ServerOptions
from tersely.mcp.suspicion import suspicions
from tersely.store import usage
from tersely.text.tokens import O200K
from tersely.web.auth import Authenticator, Principal, Reads, needs
from tersely.web.dependencies import WebDependencies
from tersely.web.middleware import MAX_BODY_BYTES
from tersely.web.paging import Day
from tersely.web.schemas import (
    ERRORS,
    LONGEST_RUNBOOK,
    AlertTypeOut,
    AlertTypesOut,
    InfoOut,
    McpServerOut,
    McpServersOut,
    ProviderOut,
    SavingsOut,
    ToolOut,
    ToolUseOut,
)
from tersely.web.version import VERSION

_SUBMITS_OR_READS = Depends(needs("submit", "read"))


def routes(parts: WebDependencies, authenticator: Authenticator) -> APIRouter:
    router = APIRouter(tags=["system"], responses=ERRORS)

    @router.get("/alert-types")
    async def list_alert_types(principal: Principal = _SUBMITS_OR_READS) -> AlertTypesOut:
        """Which alerts are known, and which chain investigates them."""
        plan = parts.intake.plan
        default = plan.default_alert_type()
        items = [
            AlertTypeOut(
                alert_type=name, chain=chain, description=plan.chains[chain].description, default=name == default
            )
            for name, chain in plan.alert_types().items()
        ]
        return AlertTypesOut(items=items, default=default)

    @router.get("/system/mcp-servers")
    async def list_mcp_servers(principal: Principal = _SUBMITS_OR_READS) -> McpServersOut:
        """The MCP servers: how they are, what tools they have, and what holds for their results."""
        registry = parts.registry
        called = {(named.tool.server, named.tool.name): named.name for named in registry.tools()}
        # Looking at every description takes a while.
        servers = await anyio.to_thread.run_sync(
            lambda: [_server(registry, name, called) for name in list(registry.connections)]
        )
        return McpServersOut(items=servers)

    @router.get("/system/savings")
    async def read_savings(
        since: Annotated[Day | None, Query(description="From this day (UTC) on.")] = None,
        door: Annotated[usage.Door | None, Query(description="Only what came through this door.")] = None,
        principal: Principal = Reads,
    ) -> SavingsOut:
        """Tokens that tools returned and that conversations got, by day, server and tool."""
        async with parts.database.reading() as db:
            used = await usage.used(db, since=since, door=door)
        before, after = sum(use.tokens_before for use in used), sum(use.tokens_after for use in used)
        items = [
            ToolUseOut(
                **{name: getattr(use, name) for name in ToolUseOut.model_fields if name not in ("spared", "latency")},
                spared=max(0, use.tokens_before - use.tokens_after),
                latency=dict(use.latency),
            )
            for use in used
        ]
        return SavingsOut(
            items=items, tokens_before=before, tokens_after=after, spared=max(0, before - after), encoding=O200K.name
        )

    @router.get("/system/info")
    async def read_info(principal: Principal = _SUBMITS_OR_READS) -> InfoOut:
        """About this service, and about you."""
        plan = parts.intake.plan
        providers = [
            ProviderOut(name=name, type=options.type, model=options.model) for name, options in plan.providers.items()
        ]
        named = plan.defaults.llm_provider
        return InfoOut(
            version=VERSION,
            auth=authenticator.mode,
            principal=principal.name,
            scopes=sorted(principal.rights),
            providers=providers,
            model=next((provider.model for provider in providers if provider.name == named), None),
            store="sqlite" if parts.database.is_sqlite else "postgresql",
            limits={"body_bytes": MAX_BODY_BYTES, "runbook_bytes": LONGEST_RUNBOOK},
        )

    return router


def _server(registry: ToolRegistry, name: str, called: dict[tuple[str, str], str]) -> McpServerOut:
    link = registry.connections[name]
    status, options = link.status(), link.server.options
    known = [tool for tool in link.tools if is_selected(tool.name, options) and not why_unusable(tool)]
    return McpServerOut(
        name=name,
        state=status.state,
        healthy=status.state == "ready",
        since=status.since,
        last_error=status.last_error,
        protocol=status.protocol,
        server_info=dict(status.server_info),
        latency_ms=status.latency_ms,
        restarts=status.restarts,
        next_try=status.next_try,
        instructions=options.instructions,
        policy=_policy(options),
        tools=[_tool(tool, registry, called.get((tool.server, tool.name), "")) for tool in known],
        unusable=list(status.refused),
    )


def _tool(tool: Tool, registry: ToolRegistry, called: str) -> ToolOut:
    options = registry.connections[tool.server].server.options
    condensing, masking = options.policy(tool.name)
    has_own = (condensing, masking) != (options.summarization, options.data_masking)
    return ToolOut(
        name=tool.name,
        called=called,
        description=tool.description,
        read_only=tool.read_only,
        destructive=tool.destructive,
        refused=why_forbidden(tool, options),
        policy=_results_policy(condensing, masking) if has_own else None,
        odd=suspicions(tool),
        redefined=registry.is_redefined(tool),
    )


def _results_policy(condensing: SummarizationOptions, masking: MaskingOptions) -> dict[str, Any]:
    return {
        "summarization": condensing.model_dump(mode="json"),
        "data_masking": {
            "enabled": masking.enabled,
            "groups": list(masking.groups),
            "custom_patterns": sorted(masking.custom_patterns),
        },
    }


def _policy(options: ServerOptions) -> dict[str, Any]:
    """What holds for a server's results and tools; nothing of how it is reached, where secrets are."""
    return {
        **_results_policy(options.summarization, options.data_masking),
        "tools": options.tools.model_dump(mode="json"),
        "read_only": options.read_only,
        "allow_destructive": options.allow_destructive,
        "timeout": options.timeout,
        "max_result_bytes": options.max_result_bytes,
    }
