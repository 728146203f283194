"""A model server of fixed latency in its own process: calls a tool twice, then concludes.

    python -m bench.investigations_model

The text of an alert changes its behaviour: "be quick" (no tool), "take your time" (the latency of a large model), "word
by word" (an answer that streams for seconds).
"""

import asyncio
import json
import sys
from typing import Any

LATENCY = float(sys.argv[1]) if len(sys.argv) > 1 else 0.05
PACE = float(sys.argv[2]) if len(sys.argv) > 2 else 1.0
THINKING = 5.0 * PACE
BETWEEN_WORDS = 0.1 * PACE
TOOL = "tools__look"
WORDS = "The database db-1 of the shop does not answer since noon; everything else looks as it always does. " * 4


def chunks(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The streamed answer: a sentence, and a tool call while there are fewer than two results."""
    results = sum(message["role"] == "tool" for message in body["messages"])
    alert = str(body["messages"][1]["content"])
    quick = "be quick" in alert
    words = [{"role": "assistant", "content": WORDS[start : start + 40]} for start in range(0, len(WORDS), 40)]
    if "word by word" in alert:
        words = words * 5
    if results >= 2 or quick:
        return [*words, {"finish": "stop"}]
    call = {
        "index": 0,
        "id": f"c{results}",
        "type": "function",
        "function": {"name": TOOL, "arguments": json.dumps({"number": results})},
    }
    return [*(words if "word by word" in alert else words[:4]), {"tool_calls": [call]}, {"finish": "tool_calls"}]


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Minimal HTTP, so that this process leaves the CPU to the one being measured."""
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            length = next(
                int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")
            )
            body = json.loads(await reader.readexactly(length))
            alert = str(body["messages"][1]["content"])
            await asyncio.sleep(THINKING if "take your time" in alert else LATENCY)
            envelope = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": body["model"]}
            lines = []
            for delta in chunks(body):
                finish = delta.pop("finish", None)
                lines.append(
                    "data: "
                    f"{json.dumps({**envelope, 'choices': [{'index': 0, 'delta': delta, 'finish_reason': finish}]})}\n\n"
                )
            usage = {"prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1050}
            lines.append(f"data: {json.dumps({**envelope, 'choices': [], 'usage': usage})}\n\ndata: [DONE]\n\n")
            size = sum(len(line.encode()) for line in lines)
            writer.write(
                f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {size}\r\n\r\n".encode()
            )
            for line in lines:
                writer.write(line.encode())
                if "word by word" in alert:
                    await writer.drain()
                    await asyncio.sleep(BETWEEN_WORDS)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def main() -> None:
    server = await asyncio.start_server(answer, "127.0.0.1", 0, limit=2**24, backlog=1024)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
