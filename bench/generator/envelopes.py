"""Texts inside other texts, as tools return them: a log in `stdout`, a table in `content[0].text`, lines in a list.

The inner text has an open shape; only the envelope is new. Held-out envelopes are counted in the total, as elsewhere.
"""

import json
from random import Random

from bench.generator.logs import LOG_SHAPES, Event, log_shape
from bench.generator.records import Collection
from bench.generator.shapes import NO_BLANKS, SHAPES, shape
from bench.generator.vocabulary import hex_digits, pseudo_word

INNER = (
    "aligned table",
    "csv",
    "markdown table",
    "json list, indented",
    "yaml list",
    "describe blocks",
    "json lines",
    "xml elements",
)
INNER_LOGS = ("app log", "system log", "json log lines", "logfmt", "log without levels")


def _listing(rng: Random, collection: Collection) -> str:
    return SHAPES[rng.choice(INNER)].write(rng, collection)


def _log(rng: Random, events: list[Event]) -> str:
    return LOG_SHAPES[rng.choice(INNER_LOGS)].write(rng, events)


def _written(rng: Random, value: object) -> str:
    return json.dumps(value, indent=rng.choice((None, 2)), ensure_ascii=rng.random() < 0.5)


def _tool_result(rng: Random, text: str) -> str:
    noise = {"type": "text", "text": f"Took {rng.randint(2, 900)} ms."}
    return _written(
        rng, {"content": [{"type": "text", "text": text}, *([noise] if rng.random() < 0.5 else [])], "isError": False}
    )


def _command_result(rng: Random, text: str) -> str:
    return _written(
        rng,
        {
            "command": f"{pseudo_word(rng)} --all",
            "exit_code": rng.randint(0, 2),
            "stdout": text,
            "stderr": "",
            "took_ms": rng.randint(9, 9_000),
        },
    )


@shape("inside a tool result", styles=NO_BLANKS)
def in_tool_result(rng: Random, collection: Collection) -> str:
    return _tool_result(rng, _listing(rng, collection))


@shape("inside a command result", styles=NO_BLANKS)
def in_command_result(rng: Random, collection: Collection) -> str:
    return _command_result(rng, _listing(rng, collection))


@log_shape("log inside a tool result")
def log_in_tool_result(rng: Random, events: list[Event]) -> str:
    return _tool_result(rng, _log(rng, events))


@log_shape("log inside a command result")
def log_in_command_result(rng: Random, events: list[Event]) -> str:
    return _command_result(rng, _log(rng, events))


@log_shape("log inside a list of lines")
def log_in_list(rng: Random, events: list[Event]) -> str:
    return _written(
        rng,
        {"pod": f"{pseudo_word(rng)}-{hex_digits(rng, 5)}", "logs": _log(rng, events).split("\n"), "truncated": False},
    )


# --- Held out


@shape("inside a result in a result", styles=NO_BLANKS, held_out=True)
def twice(rng: Random, collection: Collection) -> str:
    return _tool_result(rng, _command_result(rng, _listing(rng, collection)))


@shape("inside one string", styles=NO_BLANKS, held_out=True)
def one_string(rng: Random, collection: Collection) -> str:
    return json.dumps(_listing(rng, collection))


@shape("inside a python value", styles=NO_BLANKS, held_out=True)
def python_value(rng: Random, collection: Collection) -> str:
    return repr({"ok": True, "output": _listing(rng, collection), "warnings": []})


@shape("inside a block of yaml", styles=NO_BLANKS, held_out=True)
def yaml_block(rng: Random, collection: Collection) -> str:
    body = "\n".join("    " + line for line in _listing(rng, collection).split("\n"))
    return f"kind: Report\nmetadata:\n  name: {pseudo_word(rng)}\ndata:\n  output: |\n{body}\nstatus: complete\n"


@log_shape("logs of several pods inside json", held_out=True)
def several_pods(rng: Random, events: list[Event]) -> str:
    """Each pod's own log; the events are dealt out in stretches."""
    write = LOG_SHAPES[rng.choice(INNER_LOGS)].write
    many = rng.randint(3, 6)
    step = -(-len(events) // many)
    return _written(
        rng,
        [
            {
                "pod": f"{pseudo_word(rng)}-{hex_digits(rng, 5)}",
                "container": "main",
                "log": write(rng, events[at : at + step]),
            }
            for at in range(0, len(events), step)
        ],
    )


@log_shape("log inside streams of pairs", held_out=True)
def streams(rng: Random, events: list[Event]) -> str:
    lines = LOG_SHAPES[rng.choice(("app log", "log without levels", "logfmt"))].write(rng, events).split("\n")
    values = [[str(1_790_000_000_000_000_000 + at * 1_000_000_007), line] for at, line in enumerate(lines)]
    return json.dumps(
        {
            "status": "success",
            "data": {"resultType": "streams", "result": [{"stream": {"app": pseudo_word(rng)}, "values": values}]},
        }
    )


@log_shape("log inside json, cut at the end", held_out=True)
def cut(rng: Random, events: list[Event]) -> str:
    return _command_result(rng, _log(rng, events) + "\n" + "debug: " + pseudo_word(rng) * 3)[: -rng.randint(60, 120)]
