"""The MCP server of the pages: two tools that read, and an error to find."""

from tests.fakes.mcp_servers.plain import Message, PlainServer, text

NOTHING = {"type": "object", "properties": {}}
READING = {"readOnlyHint": True}


def get_logs(server: PlainServer, request: Message) -> Message:
    lines = [f"2026-11-15T10:{n // 60:02d}:{n % 60:02d}Z INFO checkout request {n}" for n in range(600)]
    lines[400] = "2026-11-15T10:06:40Z ERROR checkout cannot connect to orders-db: no space left on device"
    return text("\n".join(lines))


def list_pods(server: PlainServer, request: Message) -> Message:
    return text("NAME READY STATUS RESTARTS\ncheckout-0 0/1 CrashLoopBackOff 17\nweb-0 1/1 Running 0")


if __name__ == "__main__":
    tools = [get_logs, list_pods]
    definitions = [
        {"name": one.__name__, "description": "Reads.", "inputSchema": NOTHING, "annotations": READING} for one in tools
    ]
    PlainServer({one.__name__: one for one in tools}, definitions).serve()
