"""FastMCP's proxy in front of a server, for comparison with the gateway.

    python -m conformance.proxy http://127.0.0.1:9000/mcp [--port N]

All its features are enabled, so that the comparison is fair.
"""

import argparse
import json
import sys

import uvicorn
from fastmcp.server import create_proxy
from fastmcp.server.event_store import EventStore

from conformance.processes import local_listener


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("upstream")
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()
    listener = local_listener(options.port)
    address = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
    app = create_proxy(options.upstream).http_app(
        path="/mcp",
        event_store=EventStore(),
        retry_interval=100,
        host_origin_protection=True,
        allowed_hosts=["127.0.0.1:*", "localhost:*"],
    )
    sys.stderr.write(json.dumps({"event": "listening", "address": address}) + "\n")
    sys.stderr.flush()
    config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="on", timeout_graceful_shutdown=2)
    uvicorn.Server(config).run(sockets=[listener])
    return 0


if __name__ == "__main__":
    sys.exit(main())
