"""The server behind the gateway in bench.gateway: FastMCP with a small tool, one with progress, and a large one.

python -m bench.gateway_upstream [--stdio]
"""

import json
import sys

import uvicorn
from fastmcp import Context, FastMCP

from conformance.processes import local_listener

server = FastMCP("bench")


@server.tool
def small(number: int) -> str:
    """Says the number."""
    return f"number {number}: ok"


@server.tool
async def steps(caller: str, count: int, context: Context) -> str:
    """Reports progress, and says each time for whom."""
    for step in range(count):
        await context.report_progress(step + 1, count, caller)
    return caller


@server.tool
def long() -> str:
    """Says more than anybody wants to read."""
    return "\n".join(
        f"2026-11-15T10:00:00Z INFO api GET /cart/{number} 200 in {number % 97} ms" for number in range(2000)
    )


def main() -> int:
    if "--stdio" in sys.argv:
        server.run("stdio", show_banner=False)
        return 0
    listener = local_listener()
    sys.stderr.write(
        json.dumps({"event": "listening", "address": f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"}) + "\n"
    )
    sys.stderr.flush()
    config = uvicorn.Config(
        server.http_app(path="/mcp"), log_config=None, access_log=False, lifespan="on", timeout_graceful_shutdown=2
    )
    uvicorn.Server(config).run(sockets=[listener])
    return 0


if __name__ == "__main__":
    sys.exit(main())
