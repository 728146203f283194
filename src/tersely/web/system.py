"""Alert types, MCP servers and their tools, saved tokens, and information about this service."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any
from urllib.parse import urlsplit

from fastapi import APIRouter, Query
from fastapi import Path as PathParameter

from tersely.condensing.options import SummarizationOptions
from tersely.cpu.run import run_in_thread
from tersely.llm.facts import price
from tersely.llm.providers import ProviderOptions
from tersely.masking.options import MaskingOptions
from tersely.mcp.raw import Tool
from tersely.mcp.registry import ToolRegistry
from tersely.mcp.selection import is_selected, why_forbidden, why_unusable
from tersely.mcp.servers import ServerOptions, TransportOptions
from tersely.mcp.suspicion import suspicions
from tersely.store import audit, spending, usage
from tersely.store.tally import Door
from tersely.text.tokens import O200K
from tersely.web.auth import Authenticator, Caller, Principal
from tersely.web.configuration import configuration_values
from tersely.web.dependencies import WebDependencies
from tersely.web.middleware import MAX_BODY_BYTES
from tersely.web.paging import After, Day, Limit, Time
from tersely.web.problems import ApiError
from tersely.web.schemas import (
    ERRORS,
    MAX_RUNBOOK_BYTES,
    AlertTypeOut,
    AlertTypesOut,
    AuditEntryOut,
    ConfigurationOut,
    CursorPage,
    DaySpendingOut,
    InfoOut,
    McpServerOut,
    McpServersOut,
    ModelSpendingOut,
    ProviderOut,
    RetryOut,
    SavingsOut,
    SpendingOut,
    SystemProblemOut,
    SystemProblemsOut,
    ToolOut,
    ToolUseOut,
)
from tersely.web.version import VERSION


def system_routes(deps: WebDependencies, authenticator: Authenticator) -> APIRouter:
    router = APIRouter(tags=["system"], responses=ERRORS)

    @router.get("/alert-types")
    async def list_alert_types() -> AlertTypesOut:
        """The known alert types, and the chain that investigates each."""
        plan = deps.intake.plan
        default = plan.default_alert_type()
        items = [
            AlertTypeOut(
                alert_type=name, chain=chain, description=plan.chains[chain].description, default=name == default
            )
            for name, chain in plan.alert_types().items()
        ]
        return AlertTypesOut(items=items, default=default)

    @router.get("/system/mcp-servers")
    async def list_mcp_servers() -> McpServersOut:
        """The MCP servers: their state, their tools, and the policy for their results."""
        registry = deps.registry
        model_names = {(named.tool.server, named.tool.name): named.name for named in registry.tools()}
        # In a thread, because checking every description takes a while.
        servers = await run_in_thread(
            lambda: [_server(registry, name, model_names) for name in list(registry.connections)]
        )
        return McpServersOut(items=servers)

    @router.post("/system/mcp-servers/{name}/retry", status_code=202)
    async def retry_mcp_server(name: Annotated[str, PathParameter(max_length=200)]) -> RetryOut:
        """Connect to a server that is not connected now, instead of after the pause."""
        connection = deps.registry.connections.get(name)
        if connection is None:
            raise ApiError(404, f"There is no MCP server {name!a}.", code="server_not_found")
        connection.retry()
        return RetryOut(name=name, state=connection.status().state)

    @router.get("/system/problems")
    async def read_problems() -> SystemProblemsOut:
        """What is not available at the moment: the database, MCP servers. Known at once, without asking them."""
        items = [
            SystemProblemOut(subject="database", name="", message=problem, since=None)
            for problem in [deps.database.health.problem]
            if problem
        ]
        for name, connection in deps.registry.connections.items():
            status = connection.status()
            if status.state == "retrying":
                items.append(
                    SystemProblemOut(subject="server", name=name, message=status.last_error, since=status.since)
                )
        return SystemProblemsOut(items=items)

    @router.get("/system/configuration")
    async def read_configuration() -> ConfigurationOut:
        """The effective configuration of this process, without secrets."""
        return ConfigurationOut(items=await run_in_thread(lambda: list(configuration_values(deps.settings))))

    @router.get("/system/spending")
    async def read_spending(
        since: Annotated[Day | None, Query(description="Sessions from this day (UTC) on; default 30 days.")] = None,
    ) -> SpendingOut:
        """What sessions cost and saved, by day and chain, and by model."""
        start = since or (datetime.now(UTC) - timedelta(days=29)).date()
        async with deps.database.reading() as db:
            days = await spending.spent_by_day(db, since=start)
            models = await spending.spent_by_model(db, since=start)
        plan = deps.intake.plan
        default = plan.providers.get(plan.defaults.llm_provider or "")
        return SpendingOut(
            days=[
                DaySpendingOut(
                    **{name: getattr(one, name) for name in _DAY_FIELDS},
                    price_usd=one.price_micros / 1e6,
                    saved_usd=_input_price(default, one.tokens_saved),
                )
                for one in days
            ],
            models=[
                ModelSpendingOut(
                    **{name: getattr(one, name) for name in _MODEL_FIELDS}, price_usd=one.price_micros / 1e6
                )
                for one in models
            ],
        )

    @router.get("/system/savings")
    async def read_savings(
        since: Annotated[Day | None, Query(description="Only days (UTC) from this one on.")] = None,
        door: Annotated[Door | None, Query(description="Only this entry point: `session` or `gateway`.")] = None,
    ) -> SavingsOut:
        """Tokens of tool results before and after condensing, by day, server and tool."""
        await usage.take_in(deps.database, deps.settings.store.spool)
        async with deps.database.reading() as db:
            rows = await usage.used(db, since=since, door=door)
        before, after = sum(row.tokens_before for row in rows), sum(row.tokens_after for row in rows)
        saved = max(0, before - after)
        return SavingsOut(
            items=[_tool_use(row) for row in rows],
            tokens_before=before,
            tokens_after=after,
            saved=saved,
            spared=saved,
            encoding=O200K.name,
        )

    @router.get("/system/info")
    async def read_info(principal: Principal = Caller) -> InfoOut:
        """About this service and the calling principal."""
        plan = deps.intake.plan
        providers = [
            ProviderOut(name=name, type=options.type, model=options.model) for name, options in plan.providers.items()
        ]
        named = plan.defaults.llm_provider
        return InfoOut(
            version=VERSION,
            auth=authenticator.mode,
            principal=principal.name,
            scopes=sorted(principal.scopes),
            providers=providers,
            model=next((provider.model for provider in providers if provider.name == named), None),
            store="sqlite" if deps.database.is_sqlite else "postgresql",
            limits={"body_bytes": MAX_BODY_BYTES, "runbook_bytes": MAX_RUNBOOK_BYTES},
        )

    @router.get("/audit-log")
    async def read_audit_log(
        after: After = 0, since: Time | None = None, limit: Limit = 200
    ) -> CursorPage[AuditEntryOut]:
        """Who submitted, cancelled, deleted, exported, read results or logged in, in the order it happened."""
        moment = since.replace(tzinfo=since.tzinfo or UTC) if since else None
        async with deps.database.reading() as db:
            found = await audit.page(db, after=after, since=moment, limit=limit + 1)
        items = [AuditEntryOut(id=one.id, at=one.at, **vars(one.entry)) for one in found[:limit]]
        return CursorPage(items=items, next_cursor=str(items[-1].id) if len(found) > limit else None)

    return router


_DAY_FIELDS = ("day", "chain", "sessions", "unknown", "input_tokens", "output_tokens", "tokens_saved")
_MODEL_FIELDS = ("model", "provider", "calls", "unknown", "input_tokens", "output_tokens")


def _input_price(provider: ProviderOptions | None, tokens: int) -> float | None:
    if provider is None:
        return None
    found = price(provider.type, provider.model, tokens, 0)
    return None if found is None else float(found)


def _address(transport: TransportOptions) -> str:
    if transport.url:
        parts = urlsplit(transport.url)
        return f"{parts.scheme}://{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}{parts.path}"
    return transport.command or ""


def _tool_use(row: usage.ToolUse) -> ToolUseOut:
    saved = max(0, row.tokens_before - row.tokens_after)
    computed: dict[str, Any] = {"saved": saved, "spared": saved, "latency": dict(row.latency)}
    return ToolUseOut(
        **{name: getattr(row, name) for name in ToolUseOut.model_fields if name not in computed}, **computed
    )


def _server(registry: ToolRegistry, name: str, model_names: dict[tuple[str, str], str]) -> McpServerOut:
    connection = registry.connections[name]
    status, options = connection.status(), connection.server.options
    tools = [tool for tool in connection.tools if is_selected(tool.name, options) and not why_unusable(tool)]
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
        address=_address(options.transport),
        output=status.output,
        instructions=options.instructions,
        policy=_policy(options),
        tools=[_tool(tool, registry, model_names.get((tool.server, tool.name), "")) for tool in tools],
        unusable=list(status.refused),
    )


def _tool(tool: Tool, registry: ToolRegistry, model_name: str) -> ToolOut:
    options = registry.connections[tool.server].server.options
    condensing, masking = options.policy(tool.name)
    has_own = (condensing, masking) != (options.summarization, options.data_masking)
    return ToolOut(
        name=tool.name,
        called=model_name,
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
    """The policy for a server's results and tools, without its transport options, which contain secrets."""
    return {
        **_results_policy(options.summarization, options.data_masking),
        "tools": options.tools.model_dump(mode="json"),
        "read_only": options.read_only,
        "allow_destructive": options.allow_destructive,
        "timeout": options.timeout,
        "max_result_bytes": options.max_result_bytes,
    }
