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
    times: dict[tuple[str, str], int] = {}

    def answer(body: dict[str, Any]) -> Reply:
        text = json.dumps(body["messages"])
        found = CASE.search(text)
        case = found.group() if found else ""
        asks = bool(body.get("tools"))
        number = sum(message["role"] == "assistant" for message in body["messages"])
        what = "model" if asks else "summary"
        file.write(json.dumps({"kind": "call", "what": what, "case": case, "number": number, "at": time.time(), "asked": text}) + "\n")
        delay = draw.uniform(0, slowest)
        times[case, what] = times.get((case, what), 0) + 1
        if asks and (bad := misbehaviour(case, times[case, what], number, delay)):
            return bad
        if not asks:
            return Reply(text="Most lines are routine; one pod cannot reach its database.", delay=delay)
        if number < looks:
            arguments = json.dumps({"case": case, "number": number})
            function = {"name": "ops__look", "arguments": arguments}
            call = {"id": f"call-{number}", "type": "function", "function": function}
            return Reply(text=f"Look number {number} at {case}.", tool_calls=(call,), finish="tool_calls", delay=delay)
        return Reply(text=f"The cause of {case} was found after {number} looks.", delay=delay)

    return FakeLLMServer(answer)


def misbehaviour(case: str, time: int, number: int, delay: float) -> Reply | None:
    """What a case named after a row of the fault matrix gets instead of an answer; `time` counts its calls from 1."""
    row = case[-3:]
    if row == "f17" and time <= 3:
        return Reply(status=429, headers={"Retry-After": ("1", "0", "garbage")[time - 1]})
    if row == "f18" and time in (1, 2, 4):
        return Reply(status=(500, 503, 0, 529)[time - 1])
    if row == "f19" and time == 1:
        return Reply(text="late", delay=4)
    if row == "f20" and time in (1, 3):
        envelope = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "scripted"}
        chunk = {**envelope, "choices": [{"index": 0, "delta": {"role": "assistant", "content": "half an answer"}, "finish_reason": None}]}
        said = f"data: {json.dumps(chunk)}\n\n".encode()
        return Reply(raw=said + said[:60], headers={"Content-Type": "text/event-stream"})
    if row == "f21" and number == 0 and time <= 2:
        return Reply(text=" \n ")
    if row == "f22" and number == 0 and time == 1:
        return Reply(text="word " * 4_000, finish="length")
    if row == "f23" and time == 1:
        wrong = [("ops__look", "{broken"), ("nothing__there", "{}"), *[("ops__look", '{"case": "x"}')] * 48]
        calls = tuple({"id": "same", "type": "function", "function": {"name": name, "arguments": given}} for name, given in wrong)
        return Reply(text="Everything at once.", tool_calls=calls, finish="tool_calls", delay=delay)
    if row == "f24" and time == 1:
        return Reply(status=400, error="This model's maximum context length is 60000 tokens", code="context_length_exceeded")
    if row == "f25":
        return Reply(status=401, error="no such key")
    if row == "f26" and time <= 2:
        return Reply(raw=b"<html><body>Bad gateway</body></html>", headers={"Content-Type": "text/html"})
    return None


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
