"""Lists its tools a few at a time; with `--endless` the listing has no last page."""

import sys

from tests.fakes.mcp_servers.plain import Message, PlainServer, text, tool


class Paginating(PlainServer):
    def list_tools(self, params: Message) -> Message:
        first = int(params.get("cursor") or 0)
        if "--endless" in sys.argv:
            return {"tools": [tool(f"tool_{first}")], "nextCursor": str(first + 1)}
        if "--circle" in sys.argv:
            return {"tools": [tool(f"tool_{first}")], "nextCursor": str((first + 1) % 3)}
        page = {"tools": self.definitions[first : first + 10]}
        return {**page, "nextCursor": str(first + 10)} if first + 10 < len(self.definitions) else page


if __name__ == "__main__":
    Paginating(
        {f"tool_{number}": lambda server, request: text(request["params"]["name"]) for number in range(35)}
    ).serve()
