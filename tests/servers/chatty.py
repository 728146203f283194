"""A server with long results, for the tests of the gateway."""

from typing import Any

from tests.fakes.mcp_servers.web import Honest

SECRET = "password=hunter2-is-secret"


def log(lines: int = 3_000) -> str:
    """About 24 tokens a line; every 500th is an error."""
    return "\n".join(
        f"2026-11-15T08:00:00Z ERROR payment {number} failed: card declined"
        if number % 500 == 0
        else f"2026-11-15T08:{number % 60:02d}:00Z INFO request {number} served in {number % 97} ms"
        for number in range(1, lines)
    )


class Chatty(Honest):
    """An honest server with a long log."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.seen: list[dict[str, Any]] = []

        @self.server.tool
        def logs(lines: int = 3_000, service: str = "") -> str:
            self.seen.append({"lines": lines, "service": service})
            return log(lines)

        @self.server.tool
        def length(text: str) -> int:
            return len(text)
