"""Results of any size: `lines` says as many as it is asked for, the same for the same arguments; one of them is the one
that matters.
"""

from tests.fakes.mcp_servers.plain import Message, PlainServer, text

READING = {"readOnlyHint": True}
COUNT = {
    "type": "object",
    "properties": {"count": {"type": "integer"}, "about": {"type": "string"}},
    "required": ["count"],
}
WORDS = "cache disk queue router invoice basket login search price image session cookie worker ledger parcel".split()


def lines(server: PlainServer, request: Message) -> Message:
    arguments = request["params"]["arguments"]
    count, about = int(arguments["count"]), arguments.get("about", "shop")

    def line(n: int) -> str:
        time = f"2026-11-15T{n // 3600 % 24:02d}:{n // 60 % 60:02d}:{n % 60:02d}Z"
        return f"{time} INFO {about} {WORDS[n * 7 % 15]} {WORDS[n * n % 15]} took {n * 37 % 911} ms"

    said = [line(n) for n in range(count)]
    said[count // 2] = f"2026-11-15T12:00:00Z ERROR {about} lost its database db-7: connection refused"
    return text("\n".join(said))


def fail_at_length(server: PlainServer, request: Message) -> Message:
    arguments = request["params"]["arguments"]
    if arguments.get("about") == "one line":
        return {**text("\n".join(["error detail line"] * int(arguments["count"]))), "isError": True}
    return {**lines(server, request), "isError": True}


def small(server: PlainServer, request: Message) -> Message:
    return text("all is well")


if __name__ == "__main__":
    definitions = [
        {"name": "lines", "description": "So many lines of a log.", "inputSchema": COUNT, "annotations": READING},
        {
            "name": "fail_at_length",
            "description": "Fails with many words.",
            "inputSchema": COUNT,
            "annotations": READING,
        },
        {"name": "small", "description": "One line.", "inputSchema": {"type": "object"}, "annotations": READING},
    ]
    PlainServer({handler.__name__: handler for handler in (lines, fail_at_length, small)}, definitions).serve()
