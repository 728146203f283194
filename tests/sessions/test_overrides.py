"""What one alert may ask for itself, checked against what there is."""

from dataclasses import dataclass

from tersely.mcp.raw import Tool
from tersely.mcp.servers import Server, ServerOptions
from tersely.sessions.overrides import Override, mistakes


@dataclass(frozen=True)
class Link:
    server: Server
    tools: tuple[Tool, ...]


def link(*tools: Tool, **options: object) -> Link:
    transport = {"command": "nothing"}
    return Link(
        Server(name="cluster", options=ServerOptions.model_validate({"transport": transport, **options})), tools
    )


def tool(name: str, *, read_only: bool = False, destructive: bool = False) -> Tool:
    return Tool(
        server="cluster",
        name=name,
        input_schema={},
        fingerprint="",
        raw={},
        read_only=read_only,
        destructive=destructive,
    )


def wrong(there: Link, *names: str) -> dict[str, str]:
    override = Override.model_validate({"servers": [{"name": "cluster", "tools": list(names)}]})
    return {mistake.field: mistake.message for mistake in mistakes(override, {"cluster": there})}


READ, DELETE, SECRET = tool("read", read_only=True), tool("delete", destructive=True), tool("secret", read_only=True)


def test_a_tool_that_the_configuration_forbids_is_refused_with_the_reason() -> None:
    found = wrong(link(READ, DELETE), "read", "delete")
    assert list(found) == ["mcp.servers.0.tools.1"] and "allow_destructive" in found["mcp.servers.0.tools.1"]
    assert wrong(link(READ, DELETE, allow_destructive=True), "delete") == {}


def test_a_tool_that_the_operator_took_out_does_not_exist_and_is_not_told_of() -> None:
    found = wrong(link(READ, DELETE, SECRET, tools={"deny": ["secret"]}), "secret")
    assert found == {"mcp.servers.0.tools.0": "Server 'cluster' has no tool 'secret'. It has: read."}


def test_tools_of_a_server_that_is_down_are_believed() -> None:
    assert wrong(link(), "anything") == {}
