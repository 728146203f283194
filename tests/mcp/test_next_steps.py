"""What a person is told to do about a server that cannot be used."""

import pytest

from tersely.cli.next_steps import next_step
from tersely.mcp.servers import ServerOptions

COMMAND = {"command": "npx", "args": ["-y", "a server", "--token=ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"]}
URL = {"url": "https://example.test/mcp?key=canary"}


@pytest.mark.parametrize(
    ("transport", "reason", "is_starting", "says"),
    [
        (
            COMMAND,
            "It was not ready within 30 s.",
            True,
            "raise mcp_servers.box.start_timeout (30 s). Run: npx -y 'a server'",
        ),
        (
            COMMAND,
            "Server 'box' could not be started: npx: No such file.",
            False,
            "Install npx, or write its full path",
        ),
        (COMMAND, "the process exited with status 3: boom.", False, "Run it in a terminal to see why it ends"),
        (
            URL,
            "cannot be reached: it needs a login: run `tersely gateway login x`.",
            False,
            "Log in with the command above",
        ),
        (URL, "HTTP 401 Unauthorized; check bearer_token", False, "token in its headers"),
        (URL, "HTTP 404 Not Found", False, "most servers answer at /mcp"),
        (URL, "connecting to its address timed out", False, "check firewall, VPN and HTTPS_PROXY"),
        (URL, "no connection to its address (refused)", False, "Try: curl -i https://example.test/mcp"),
    ],
)
def test_every_failure_has_a_next_step_without_secrets(
    transport: dict[str, object], reason: str, is_starting: bool, says: str
) -> None:
    options = ServerOptions.model_validate({"transport": transport})
    step = next_step("box", options, reason, is_starting=is_starting)
    assert says in step and "canary" not in step and "ghp_" not in step
