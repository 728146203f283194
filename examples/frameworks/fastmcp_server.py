"""FastMCP: one line in your own server, where `ResponseLimitingMiddleware` would stand.

`fastmcp run fastmcp_server.py` serves it; run as a program, it shows a call.
"""

import asyncio
from typing import Any

from fastmcp import Client, FastMCP
from shop import logs

from tersely.integrations.fastmcp import CondensingServerMiddleware

mcp: FastMCP[Any] = FastMCP("shop")
mcp.add_middleware(CondensingServerMiddleware())
mcp.tool(logs)


async def show() -> None:
    async with Client(mcp) as client:
        result = await client.call_tool("logs", {"service": "payments card declined"})
        print(result.content[0].text)


if __name__ == "__main__":
    asyncio.run(show())
