"""The simulated systems as their clients see them: processes that speak MCP."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from fastmcp.exceptions import ToolError
from mcp_types import TextContent

from tersely import count_tokens, mask
from tersely.demo.cluster import build as build_cluster
from tersely.demo.incidents import Incident, draw_incident, server_commands
from tersely.demo.knowledge import build as build_knowledge

NOW = datetime(2026, 11, 15, 8, 0, tzinfo=UTC)
SEED = 7

pytestmark = pytest.mark.anyio


@pytest.fixture
def incident() -> Incident:
    return draw_incident(SEED, NOW)


@asynccontextmanager
async def started(name: str) -> AsyncIterator[Client[Any]]:
    command, *arguments = server_commands(SEED, NOW)[name]
    async with Client(StdioTransport(command, arguments, keep_alive=False)) as client:
        yield client


async def asked(client: Client[Any], tool: str, **arguments: object) -> str:
    result = await client.call_tool(tool, dict(arguments))
    assert isinstance(result.content[0], TextContent)
    return result.content[0].text


@pytest.mark.process
async def test_both_servers_start_as_processes_and_show_the_same_incident(incident: Incident) -> None:
    async with started("cluster") as cluster, started("knowledge") as knowledge:
        pods = json.loads(await asked(cluster, "list_pods", namespace=incident.victim.namespace))
        page = await asked(knowledge, "read_runbook", id=f"service-{incident.victim.name}")
    in_production = {pod.name for pod in incident.world.pods if pod.service.namespace == incident.victim.namespace}
    assert {item["metadata"]["name"] for item in pods["items"]} == in_production
    assert f"# Service: {incident.victim.name}" in page


async def test_every_tool_says_that_it_only_reads_but_the_one_that_destroys(incident: Incident) -> None:
    async with Client(build_cluster(incident.world)) as cluster, Client(build_knowledge(incident)) as knowledge:
        tools = [*await cluster.list_tools(), *await knowledge.list_tools()]
    declared = {tool.name: tool.annotations for tool in tools}
    destroys = declared.pop("restart_deployment")
    assert destroys is not None and destroys.destructive_hint is True and destroys.read_only_hint is False
    assert all(annotations is not None and annotations.read_only_hint is True for annotations in declared.values())


async def test_answers_range_from_a_few_hundred_to_hundreds_of_thousands_of_tokens(incident: Incident) -> None:
    service = incident.victim.name
    async with Client(build_cluster(incident.world)) as cluster:
        small = count_tokens(await asked(cluster, "get_rollout_history", service=service))
        large = count_tokens(await asked(cluster, "list_pods"))
    assert small < 600
    assert 100_000 < large < 400_000


async def test_filters_narrow_what_comes_back(incident: Incident) -> None:
    service = incident.victim.name
    async with Client(build_cluster(incident.world)) as cluster:
        lines = (await asked(cluster, "get_logs", service="identity", lines=50)).splitlines()
        events = await asked(cluster, "get_events", about=service, only_warnings=True)
        of_service = json.loads(await asked(cluster, "list_pods", service=service, namespace=incident.victim.namespace))
    assert len(lines) == 50
    assert all(service in line and " Normal " not in line for line in events.splitlines()[1:])
    assert {item["spec"]["containers"][0]["name"] for item in of_service["items"]} == {service}


@pytest.mark.parametrize(
    ("tool", "arguments", "advice"),
    [
        ("get_logs", {"service": "nonsense"}, "get_deployments"),
        ("describe_pod", {"name": "nonsense"}, "list_pods"),
        ("list_pods", {"namespace": "nonsense"}, "staging"),
    ],
)
async def test_a_name_that_does_not_exist_is_answered_with_what_does(
    incident: Incident, tool: str, arguments: dict[str, str], advice: str
) -> None:
    async with Client(build_cluster(incident.world)) as cluster:
        with pytest.raises(ToolError, match=advice):
            await cluster.call_tool(tool, arguments)


async def test_secrets_stand_in_the_outputs_and_the_masker_takes_them_out(incident: Incident) -> None:
    """The demonstration masks values that only their names mark as secret."""
    async with Client(build_cluster(incident.world)) as cluster:
        pods = await asked(cluster, "list_pods", namespace=incident.victim.namespace)
    secrets = [secret for secret in incident.world.secrets() if secret in pods]
    assert secrets
    masked = mask(pods)
    assert [secret for secret in secrets if secret in masked] == []


async def test_a_search_for_the_alert_finds_its_runbook(incident: Incident) -> None:
    alert = incident.alert["alerts"][0]["labels"]["alertname"]
    async with Client(build_knowledge(incident)) as knowledge:
        found = await asked(knowledge, "search_runbooks", query=f"{alert} {incident.victim.name}")
        history = await asked(knowledge, "past_incidents", service=incident.victim.name)
    assert f"id: alert-{alert.lower()}" in found
    assert "resolved" in history
