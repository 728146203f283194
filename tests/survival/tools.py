"""Tools as a process of its own: `look` shows something with a secret in it, `change` has an effect. Both write down
every call.
"""

import json
import os
import random
import signal
import string
import sys
import time
from pathlib import Path

from tests.fakes.mcp_servers.plain import Message, PlainServer, text

SECRET = "ghp_" + "".join(random.Random(11).choices(string.ascii_letters + string.digits, k=36))
SCHEMA = {
    "type": "object",
    "properties": {"case": {"type": "string"}, "number": {"type": "integer"}},
    "required": ["case", "number"],
}


def look(server: PlainServer, request: Message) -> Message | None:
    given = request["params"]["arguments"]
    case, number = given["case"], given["number"]
    with Path(sys.argv[1]).open("a") as log:
        log.write(
            json.dumps({"kind": "call", "what": "tool", "case": case, "number": number, "at": time.time()}) + "\n"
        )
    if case.endswith("f27") and number == 1 and not Path(f"{sys.argv[1]}.{case}").exists():
        Path(f"{sys.argv[1]}.{case}").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    if case.endswith("f28") and number == 1:
        return None
    if case.endswith("large") and number == 1:
        return text("2026-11-15T08:00:00Z INFO one line of a result that is much too long\n" * 1_450_000)
    if case.endswith("f24") and number < 2:
        # Short enough to be shown as it is, long enough to give way.
        return text(
            "\n".join(
                f"{n} {case} {number} {n * n} requests were served by pod {n % 7} in state {n % 5}" for n in range(40)
            )
        )
    if "poison" in case and number == 1:
        return text("POISON for whoever reads it")
    if number == 1:
        lines = [
            f"2026-11-15T08:{n // 60 % 60:02d}:{n % 60:02d}Z INFO {case} request {n} served in {n % 37} ms"
            for n in range(400)
        ]
        lines[200] = f"2026-11-15T08:02:00Z ERROR {case} cannot reach db-1 with token {SECRET}"
        return text("\n".join(lines))
    return text(f"{case} is in state {number}; its token is {SECRET}")


def change(server: PlainServer, request: Message) -> Message | None:
    """Its effect is the line in the log; it takes a moment, before and after."""
    given = request["params"]["arguments"]
    time.sleep(random.uniform(0, 0.2))
    with Path(sys.argv[1]).open("a") as log:
        log.write(
            json.dumps({"kind": "effect", "case": given["case"], "number": given["number"], "at": time.time()}) + "\n"
        )
    time.sleep(random.uniform(0, 0.2))
    return text(f"{given['case']} was changed")


if __name__ == "__main__":
    if sys.argv[2:] == ["acts"]:
        # Without hints: nothing says that a call may be made twice.
        acts = {"name": "change", "description": "Change something of a case.", "inputSchema": SCHEMA}
        PlainServer({"change": change}, [acts]).serve()
        sys.exit()
    definition = {
        "name": "look",
        "description": "Look at a case.",
        "inputSchema": SCHEMA,
        "annotations": {"readOnlyHint": True},
    }
    PlainServer({"look": look}, [definition]).serve()
