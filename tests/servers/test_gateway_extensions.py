"""What passes through the gateway without the protocol's core knowing it: methods of extensions, masked like the
rest.
"""

import json
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server as ProtocolServer
from mcp.shared.exceptions import MCPError

from tests.fakes.gateways import at, gateway, post
from tests.fakes.llm_server import serving

SECRET = "hunter2-Xy77"
FAILED = {
    "taskId": "task-3243f22b6b9ce947",
    "status": "failed",
    "statusMessage": f"cannot log in with password={SECRET}",
    "error": {"code": -32603, "message": f"postgres://app:{SECRET}@db-1/orders refused"},
}


class Extended:
    """A server with an extension: one method that the core of the protocol does not have."""

    def __init__(self) -> None:
        self.server: ProtocolServer[Any] = ProtocolServer("extended", version="1")
        self.server.extensions["io.modelcontextprotocol/tasks"] = {}
        self.server.add_request_handler("tools/list", types.PaginatedRequestParams, self._tools)
        self.server.add_request_handler("tasks/get", types.RequestParams, self._get)

    async def _tools(self, context: Any, params: Any) -> dict[str, Any]:
        return {"tools": [], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}

    async def _get(self, context: Any, params: Any) -> dict[str, Any]:
        if context.params.get("taskId") != FAILED["taskId"]:
            raise MCPError(types.INVALID_PARAMS, f"No task of that name; password={SECRET}")
        return FAILED


async def test_what_an_extension_answers_is_masked_and_its_handles_stay() -> None:
    async with (
        serving(Extended().server.streamable_http_app(), lifespan="on") as address,
        gateway(at(f"{address}/mcp")) as ours,
    ):
        answer = await post(ours.url, "tasks/get", {"taskId": FAILED["taskId"]}, **{"mcp-name": str(FAILED["taskId"])})
        refused = await post(ours.url, "tasks/get", {"taskId": "other"}, **{"mcp-name": "other"})

    result = answer["result"]
    assert SECRET not in json.dumps([answer, refused])
    assert (result["taskId"], result["status"], result["error"]["code"]) == (FAILED["taskId"], "failed", -32603)
    assert result["statusMessage"].startswith("cannot log in with password=[MASKED:")
    assert refused["error"]["code"] == types.INVALID_PARAMS
