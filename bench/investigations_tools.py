"""An MCP server with one small tool, without an SDK, so that it uses almost no CPU.

python -m bench.investigations_tools
"""

import json
import sys

TOOL = {
    "name": "look",
    "description": "Looks at one thing.",
    "inputSchema": {"type": "object", "properties": {"number": {"type": "integer"}}},
    "annotations": {"readOnlyHint": True},
}
SAID = "\n".join(f"pod web-{number} Running 0 restarts" for number in range(40))


def result(request: dict[str, object]) -> dict[str, object] | None:
    params = request.get("params")
    match request["method"]:
        case "initialize":
            version = params["protocolVersion"] if isinstance(params, dict) else ""
            return {
                "protocolVersion": version,
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "bench", "version": "1"},
            }
        case "tools/list":
            return {"tools": [TOOL]}
        case "tools/call":
            return {"content": [{"type": "text", "text": SAID}]}
        case "ping":
            return {}
    return None


for line in sys.stdin.buffer:
    request = json.loads(line)
    if "id" not in request:
        continue
    answered = result(request)
    body = {"result": answered} if answered is not None else {"error": {"code": -32601, "message": "no such method"}}
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": request["id"], **body}) + "\n")
    sys.stdout.flush()
