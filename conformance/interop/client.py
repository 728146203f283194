"""Python clients nobody here wrote: connect with their default time limits, list, call one tool, say in JSON what came.

No client is given a time limit here; `limit` is the one it then has by itself, in seconds, null for none.

python client.py mcp1|langchain|openai-agents|pydantic-ai '["command", "argument"]' TOOL '{"argument": 1}'
"""

import asyncio
import json
import sys
from typing import Any

Seen = tuple[list[str], Any, float | None]


async def mcp1(command: list[str], tool: str, arguments: dict[str, Any]) -> Seen:
    from mcp.client.stdio import stdio_client

    from mcp import ClientSession, StdioServerParameters

    async with (
        stdio_client(StdioServerParameters(command=command[0], args=command[1:])) as (read, write),
        ClientSession(read, write) as session,
    ):
        await session.initialize()
        names = [one.name for one in (await session.list_tools()).tools]
        return names, str((await session.call_tool(tool, arguments)).content), session._session_read_timeout_seconds


async def langchain(command: list[str], tool: str, arguments: dict[str, Any]) -> Seen:
    from langchain_mcp_adapters.client import MultiServerMCPClient

    server: Any = {"transport": "stdio", "command": command[0], "args": command[1:]}
    tools = await MultiServerMCPClient({"it": server}).get_tools()
    wanted = next(one for one in tools if one.name == tool)
    return [one.name for one in tools], str(await wanted.ainvoke(arguments)), None


async def openai_agents(command: list[str], tool: str, arguments: dict[str, Any]) -> Seen:
    from agents.mcp import MCPServerStdio

    async with MCPServerStdio(params={"command": command[0], "args": command[1:]}) as server:
        names = [one.name for one in await server.list_tools()]
        said = str((await server.call_tool(tool, arguments)).content)
        return names, said, server.client_session_timeout_seconds


async def pydantic_ai(command: list[str], tool: str, arguments: dict[str, Any]) -> Seen:
    from fastmcp.client.transports import StdioTransport
    from pydantic_ai.mcp import MCPToolset

    async with MCPToolset(StdioTransport(command=command[0], args=command[1:])) as toolset:
        names = [one.name for one in await toolset.list_tools()]
        return (
            names,
            await toolset.direct_call_tool(tool, arguments),
            (toolset._client_options or {}).get("init_timeout"),
        )


CLIENTS = {"mcp1": mcp1, "langchain": langchain, "openai-agents": openai_agents, "pydantic-ai": pydantic_ai}

if __name__ == "__main__":
    name, command, tool, arguments = sys.argv[1:]
    names, said, limit = asyncio.run(CLIENTS[name](json.loads(command), tool, json.loads(arguments)))
    sys.stdout.write(json.dumps({"tools": names, "said": said, "limit": limit}))
