"""What is fuzzed: each target takes bytes and raises if a promise is broken; to refuse them with an error is fine."""

import json
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from tersely.condensing.account import source_lines
from tersely.condensing.detect import readers
from tersely.condensing.focus import Focus
from tersely.condensing.pack import pack
from tersely.condensing.structural import condense_structurally
from tersely.errors import TerselyError
from tersely.masking.clean import clean
from tersely.masking.mask import Masker
from tersely.masking.unfinished import ends_inside_secret
from tersely.mcp.connect.wire import HalfCharacters, LineSplitter, TooLong, answered, parse
from tersely.mcp.raw import read_result, read_tool
from tersely.text.decoding import decoded
from tersely.text.tokens import O200K
from tersely.web.bodies import read_json
from tersely.web.problems import ApiError

BUDGETS = (40, 300)
QUESTION = "which request failed with an error?"
REFUSALS = (TerselyError, ApiError)
Target = Callable[[bytes], None]


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def fuzz_mask(data: bytes) -> None:
    text = _text(data)
    masker = Masker(key=bytes(32))
    once = masker.mask(text)
    assert masker.mask(once) == once, "masking twice changes what masking once returned"
    assert once.count("\n") <= text.count("\n"), "lines appeared"
    ends_inside_secret(data)


def fuzz_clean(data: bytes) -> None:
    once = clean(_text(data)).text
    assert clean(once).text == once, "cleaning twice changes what cleaning once returned"
    assert "\x1b" not in once


def fuzz_condense(data: bytes) -> None:
    text = _text(data)
    for budget in BUDGETS:
        condensed = condense_structurally(text, budget, QUESTION)
        assert O200K.count(condensed.text) <= budget
        account = condensed.account
        assert account is not None
        runs = sorted([*account.shown, *account.partial, *account.folded, *account.lost])
        lines = len(source_lines(text))
        covered = [line for first, last in runs for line in range(first, last + 1)]
        assert covered == list(range(1, lines + 1)), "the account does not add up"


def fuzz_reader(kind: str, data: bytes) -> None:
    text, focus = _text(data), Focus.parse(QUESTION)
    reading = readers()[kind].read(text, focus, BUDGETS[1])
    if reading is not None:
        assert O200K.count(pack(reading, BUDGETS[1], focus=focus).text) <= BUDGETS[1]


def fuzz_decode(data: bytes) -> None:
    decoded(data).encode("utf-8")


def fuzz_result(data: bytes) -> None:
    value = read_json(data)
    if isinstance(value, dict):
        read_result(value)
    with suppress(ValueError):  # How it refuses a tool.
        read_tool("server", value)


def _lines(data: bytes, cut: int, limit: int) -> list[bytes | int | None]:
    splitter = LineSplitter(limit)
    fed = [line for at in range(0, len(data), cut) for line in splitter.feed(data[at : at + cut])]
    return [line.size if isinstance(line, TooLong) else line for line in fed if getattr(line, "size", 0) is not None]


def fuzz_wire(data: bytes) -> None:
    cut = 1 + len(data) % 37
    for limit in (200, 1 << 20):
        lines = _lines(data, len(data) or 1, limit)
        assert _lines(data, cut, limit) == lines, "lines depend on how a stream is cut"
        for line in lines:
            if isinstance(line, bytes) and parse(line) is None:
                answered(line)
    repaired, pieces = HalfCharacters(), [data[at : at + cut] for at in range(0, len(data), cut)]
    whole = HalfCharacters().feed(data, is_last=True)
    assert b"".join(map(repaired.feed, pieces)) + repaired.feed(b"", is_last=True) == whole, "repairs depend on the cut"
    with suppress(ValueError):
        json.dumps(json.loads(whole), ensure_ascii=False).encode("utf-8")


TARGETS: dict[str, Target] = {
    "mask": fuzz_mask,
    "clean": fuzz_clean,
    "condense": fuzz_condense,
    "decode": fuzz_decode,
    "result": fuzz_result,
    "wire": fuzz_wire,
    **{f"reader {kind}": partial(fuzz_reader, kind) for kind in readers()},
}


def seeds() -> list[bytes]:
    """Texts of many shapes to begin from."""
    from bench.generator.cases import all_shapes, draw

    texts = [draw(shape, ask, 0, 3_000).text.encode() for shape, ask in dict(all_shapes()).items()]
    result = {"content": [{"type": "text", "text": "a\nb"}], "structuredContent": {"a": 1}, "isError": False}
    tool = {"name": "t", "inputSchema": {"type": "object", "properties": {"a": {"type": "string"}}}}
    answer = {"jsonrpc": "2.0", "id": 7, "result": {"content": [{"type": "text", "text": "\ud83d\ude00 \ud83d"}]}}
    messages = [json.dumps(one).encode() for one in (answer, result, tool)]
    return [*texts, *messages, b"password=hunter2hunter2\n"]
