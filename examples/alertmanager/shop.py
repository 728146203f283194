"""A service with an incident: metrics for Prometheus at :9100/metrics, and its logs and pods as an MCP server.

python shop.py            MCP on standard input and output
python shop.py --http     MCP at :9000/mcp, and metrics
"""

import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

from fastmcp import FastMCP

mcp = FastMCP("shop")


@mcp.tool(annotations={"readOnlyHint": True})
def get_logs(service: str = "checkout") -> str:
    """Logs of a service of the last hour."""
    lines = [
        f"2026-11-15T10:{n // 340:02d}:{n % 60:02d}Z INFO {service} request {n} took {n % 90} ms" for n in range(20_000)
    ]
    lines[17_000] = f"2026-11-15T10:50:20Z ERROR {service} cannot connect to orders-db: no space left on device"
    return "\n".join(lines)


@mcp.tool(annotations={"readOnlyHint": True})
def get_events(namespace: str = "shop") -> list[dict[str, str]]:
    """Events of a namespace, as Kubernetes reports them."""
    return [
        {"type": "Normal", "reason": "Scheduled", "object": "pod/checkout-1", "message": "assigned to node-3"},
        {"type": "Warning", "reason": "EvictionThresholdMet", "object": "node/node-3", "message": "reclaim disk"},
    ]


class Metrics(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'http_requests_failed_ratio{service="checkout"} 0.42\n')


if __name__ == "__main__":
    if "--http" in sys.argv:
        threading.Thread(target=HTTPServer(("0.0.0.0", 9100), Metrics).serve_forever, daemon=True).start()
        mcp.run(transport="http", host="0.0.0.0", port=9000)
    else:
        mcp.run()
