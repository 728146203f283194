"""A model as a process of its own: it answers by what the conversation shows, and writes down every call.

A case asks for `--looks` results, one after the other, and concludes. So the number
of a call follows from the conversation alone, whichever process asks. A case whose
name ends with `e` also has something changed each time. An agent that can ask others
lets two of them look.
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

CALL = re.compile(r'"id": "call-(\d+)"')
CASE = re.compile(r"case-[0-9a-z]+")


def answering(log: Path, looks: int, slowest: float, seed: int) -> "FakeLLMServer":
    draw = random.Random(seed)
    file = log.open("a", buffering=1)
    times: dict[tuple[str, str], int] = {}
    tries: dict[tuple[str, int], int] = {}

    def answer(body: dict[str, Any]) -> Reply:
        text = json.dumps(body["messages"])
        found = CASE.search(text)
        case = found.group() if found else ""
        asks = bool(body.get("tools"))
        # A conversation that was too long has lost its oldest rounds; the newest calls tell how far it is.
        called = [int(digits) for digits in CALL.findall(text)]
        number = max(
            sum(message["role"] == "assistant" for message in body["messages"]), *(one + 1 for one in called), 0
        )
        what = "model" if asks else "summary"
        file.write(
            json.dumps({"kind": "call", "what": what, "case": case, "number": number, "at": time.time(), "asked": text})
            + "\n"
        )
        delay = draw.uniform(0, slowest)
        times[case, what] = times.get((case, what), 0) + 1
        tries[case, number] = tries.get((case, number), 0) + asks
        if asks and (bad := misbehaviour(case, times[case, what], number, tries[case, number], delay)):
            return bad
        if not asks:
            return Reply(text="Most lines are routine; one pod cannot reach its database.", delay=delay)
        if any(tool["function"]["name"] == "ask_agent" for tool in body["tools"]) and number == 0:
            tasks = [json.dumps({"agent": "helper", "task": f"Look at {case}, part {part}."}) for part in (1, 2)]
            handed = [
                {"id": f"ask-{part}", "type": "function", "function": {"name": "ask_agent", "arguments": task}}
                for part, task in enumerate(tasks)
            ]
            return Reply(text="Others look.", tool_calls=tuple(handed), finish="tool_calls", delay=delay)
        if number < looks and "ask_agent" not in text:
            arguments = json.dumps({"case": case, "number": number})
            function = {"name": "ops__look", "arguments": arguments}
            made = [{"id": f"call-{number}", "type": "function", "function": function}]
            if case.endswith("e"):
                effect = {"name": "acts__change", "arguments": arguments}
                made.append({"id": f"effect-{number}", "type": "function", "function": effect})
            return Reply(
                text=f"Look number {number} at {case}.", tool_calls=tuple(made), finish="tool_calls", delay=delay
            )
        return Reply(text=f"The cause of {case} was found after {number} looks.", delay=delay)

    return FakeLLMServer(answer)


HALF = "half an answer"
TOO_LONG = "This model's maximum context length is 60000 tokens"


def misbehaviour(case: str, time: int, number: int, tries: int, delay: float) -> Reply | None:
    """What a case named after a row of the fault matrix gets instead of an answer.

    Args:
        time: Counts its calls from 1.
        number: Of the answer that is asked for, from 0.
        tries: How often this very answer was asked for.
    """
    row = case[-3:]
    if row == "f17" and time <= 3:
        return Reply(status=429, headers={"Retry-After": ("1", "0", "garbage")[time - 1]})
    if row == "f18" and time in (1, 2, 4):
        return Reply(status=(500, 503, 0, 529)[time - 1])
    if row == "f19" and time == 1:
        return Reply(text="late", delay=4)
    if row == "f20" and time in (1, 3):
        return _cut_stream(int(case[-6:-4]), in_a_line=case[-4] == "b")
    if row == "f21" and number == 0 and time <= 2:
        return Reply(text=" \n ")
    if row == "f22" and number == 0 and time == 1:
        return Reply(text="word " * 4_000, finish="length")
    if row == "f23" and time == 1:
        wrong = [("ops__look", "{broken"), ("nothing__there", "{}"), *[("ops__look", '{"case": "x"}')] * 48]
        calls = tuple(
            {"id": "same", "type": "function", "function": {"name": name, "arguments": given}} for name, given in wrong
        )
        return Reply(text="Everything at once.", tool_calls=calls, finish="tool_calls", delay=delay)
    if row == "f24" and number == 2 and tries <= 2:
        return Reply(status=400, error=TOO_LONG, code="context_length_exceeded")
    if row == "f25":
        return Reply(status=401, error="no such key")
    if row == "f26" and time <= 2:
        return Reply(raw=b"<html><body>Bad gateway</body></html>", headers={"Content-Type": "text/html"})
    return None


def _cut_stream(chunks: int, *, in_a_line: bool) -> Reply:
    """A stream that ends after that many chunks: in good order but for its end, or in the middle of a line and of what
    was announced.
    """
    envelope = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "scripted"}
    chunk = {
        **envelope,
        "choices": [{"index": 0, "delta": {"role": "assistant", "content": f"{HALF} "}, "finish_reason": None}],
    }
    said = f"data: {json.dumps(chunk)}\n\n".encode()
    if not in_a_line:
        return Reply(raw=said * chunks, headers={"Content-Type": "text/event-stream"})
    headers = {"Content-Type": "text/event-stream", "Content-Length": str(len(said) * (chunks + 2))}
    return Reply(raw=said * chunks + said[:60], headers=headers)


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
