"""A model as a process of its own: it answers by what the conversation shows, and writes down every call.

A case asks for `--looks` results, one after the other, and concludes. So the number
of a call follows from the conversation alone, whichever process asks.
"""

import argparse
import json
import random
import re
import time
from pathlib import Path
from typing import Any

import anyio

from tests.fakes.llm_server import FakeLLMServer, Reply

CASE = re.compile(r"case-[0-9a-z]+")


def answering(log: Path, looks: int, slowest: float, seed: int) -> "FakeLLMServer":
    draw = random.Random(seed)
    file = log.open("a", buffering=1)

    def answer(body: dict[str, Any]) -> Reply:
        text = json.dumps(body["messages"])
        found = CASE.search(text)
        case = found.group() if found else ""
        asks = bool(body.get("tools"))
        number = sum(message["role"] == "assistant" for message in body["messages"])
        what = "model" if asks else "summary"
        file.write(json.dumps({"kind": "call", "what": what, "case": case, "number": number, "at": time.time(), "asked": text}) + "\n")
        delay = draw.uniform(0, slowest)
        if not asks:
            return Reply(text="Most lines are routine; one pod cannot reach its database.", delay=delay)
        if number < looks:
            arguments = json.dumps({"case": case, "number": number})
            function = {"name": "ops__look", "arguments": arguments}
            call = {"id": f"call-{number}", "type": "function", "function": function}
            return Reply(text=f"Look number {number} at {case}.", tool_calls=(call,), finish="tool_calls", delay=delay)
        return Reply(text=f"The cause of {case} was found after {number} looks.", delay=delay)

    return FakeLLMServer(answer)


async def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--address", type=Path, required=True)
    arguments.add_argument("--log", type=Path, required=True)
    arguments.add_argument("--looks", type=int, default=3)
    arguments.add_argument("--slowest", type=float, default=0.3)
    arguments.add_argument("--seed", type=int, default=0)
    given = arguments.parse_args()
    async with answering(given.log, given.looks, given.slowest, given.seed).listening() as server:
        given.address.write_text(server.url)
        await anyio.sleep_forever()


if __name__ == "__main__":
    anyio.run(main)
