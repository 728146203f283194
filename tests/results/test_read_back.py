"""The read-back tools as a model meets them: pages, the way to the next, and mistakes it can learn from."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from tersely.errors import InputError, ResultNotFound
from tersely.masking.mask import mask
from tersely.masking.masked import assume_masked
from tersely.results.kept import KeptResults, Origin
from tersely.results.read_back import Answer, ReadBack
from tersely.results.read_back_tool import READ_RESULT, ReadArguments
from tersely.store.database import Database
from tersely.text.tokens import count_tokens
from tests.fakes.asking import model_at
from tests.fakes.executing import read_back
from tests.fakes.llm_server import FakeLLMServer, Reply

CALL = Origin(server="cluster", tool="logs", arguments={}, called_at=datetime(2026, 11, 15, tzinfo=UTC))
ME = "session:1"
LOG = "".join(f"{n:05d} INFO request {n} took {n % 97} ms\n" for n in range(1, 3001))


@pytest.fixture
async def kept(tmp_path: Path) -> AsyncIterator[KeptResults]:
    async with Database.open(f"sqlite:///{tmp_path / 'tersely.db'}") as database:
        yield KeptResults(database)


@pytest.fixture
def back(kept: KeptResults) -> ReadBack:
    return read_back(kept, page_tokens=1000)


async def keep(back: ReadBack, text: str) -> str:
    return await back.kept.keep(assume_masked(text), scope=ME, origin=CALL)


async def pages(back: ReadBack, tool: str, arguments: dict[str, Any]) -> list[Answer]:
    answers = [await back.call(tool, arguments, ME)]
    while (following := answers[-1].next) is not None:
        assert len(answers) < 500, "no end in sight"
        answers.append(await back.call(tool, following, ME))
    return answers


@pytest.mark.parametrize(
    "text",
    [
        LOG,
        LOG.replace("\n", "\r\n"),
        "x" * 50_000,
        "é€😀 " * 9000,
        "short",
        "",
        "\n" * 50_000,
        "a\n" + "b" * 30_000 + "\nc\n",
        LOG[:-1],
    ],
)
async def test_the_pages_of_a_text_are_the_text(back: ReadBack, text: str) -> None:
    answers = await pages(back, "read_result", {"handle": await keep(back, text)})
    assert "".join(answer.body for answer in answers) == text
    assert all(count_tokens(answer.body) <= 1000 for answer in answers)
    assert len(answers) > 1 or len(text) < 10
    assert answers[-1].text.endswith("[End]") and all(
        "[More: read_result(handle=" in answer.text for answer in answers[:-1]
    )
    for answer in answers:
        other = answer.text_for("tersely_read_result")
        assert other == answer.text.replace("[More: read_result(", "[More: tersely_read_result(")


async def test_lines_are_read_as_asked_and_the_page_says_where_it_is(back: ReadBack) -> None:
    handle = await keep(back, LOG)
    answer = await back.call("read_result", {"handle": handle, "start_line": 10, "end_line": 12}, ME)
    assert answer.body == "".join(LOG.splitlines(keepends=True)[9:12])
    assert answer.text.startswith(f"[{handle} (cluster.logs): lines 10-12 of 3,000, bytes ") and answer.text.endswith(
        "ms\n[End]"
    )
    assert (answer.facts["first_line"], answer.facts["last_line"], answer.next) == (10, 12, None)


async def test_a_page_ends_with_a_whole_line_where_it_can(back: ReadBack) -> None:
    answers = await pages(back, "read_result", {"handle": await keep(back, LOG)})
    assert all(answer.body.endswith("\n") for answer in answers)
    assert all(set(answer.next) == {"handle", "start_line"} for answer in answers if answer.next)


async def test_a_range_larger_than_a_page_goes_on_to_its_end_and_no_further(back: ReadBack) -> None:
    answers = await pages(back, "read_result", {"handle": await keep(back, LOG), "start_line": 100, "end_line": 900})
    assert (
        "".join(answer.body for answer in answers) == "".join(LOG.splitlines(keepends=True)[99:900])
        and len(answers) > 3
    )
    answers = await pages(
        back, "read_result", {"handle": await keep(back, "ab\n" * 9000), "start_byte": 4, "end_byte": 20_000}
    )
    assert "".join(answer.body for answer in answers) == ("ab\n" * 9000)[4:20_000]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"start_line": 3001}, "has 3,000 lines; line 3,001 is past its end"),
        ({"start_line": 5, "end_line": 4}, r"end_line \(4\) is before start_line \(5\)"),
        ({"start_line": 0}, "start_line: input should be greater than or equal to 1"),
        ({"start_byte": 10_000_000}, "has .* bytes"),
        ({"end_byte": 5}, "end_byte requires start_byte"),
        ({"line": 5}, r"there is no argument 'line'; did you mean end_line\? There are: handle, start_line"),
        ({"start_line": "ten"}, "start_line: input should be a valid integer"),
    ],
)
async def test_a_wrong_range_is_explained(back: ReadBack, arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        await back.call("read_result", {"handle": await keep(back, LOG), **arguments}, ME)


async def test_a_search_shows_matches_with_numbers_neighbours_and_their_count(back: ReadBack) -> None:
    answer = await back.call(
        "search_result", {"handle": await keep(back, LOG), "pattern": r"request (500|501|2000)\b", "context": 1}, ME
    )
    lines = LOG.splitlines()
    assert answer.body.splitlines() == [
        f"499- {lines[498]}", f"500: {lines[499]}", f"501: {lines[500]}", f"502- {lines[501]}",
        "--", f"1999- {lines[1998]}", f"2000: {lines[1999]}", f"2001- {lines[2000]}",
    ]  # fmt: skip
    assert answer.facts["matching_lines"] == 3 and "3 of 3,000 lines match" in answer.text and answer.next is None


@pytest.mark.parametrize("context", [0, 3])
async def test_the_pages_of_a_search_show_every_match_once(back: ReadBack, context: int) -> None:
    answers = await pages(
        back, "search_result", {"handle": await keep(back, LOG), "pattern": "7 ms$", "context": context}
    )
    shown = [
        int(line.split(":")[0])
        for answer in answers
        for line in answer.body.splitlines()
        if line.partition(" ")[0].endswith(":")
    ]
    assert shown == [n for n, line in enumerate(LOG.splitlines(), 1) if line.endswith("7 ms")] and len(answers) > 1
    assert all(count_tokens(answer.body) <= 1000 and answer.facts["matching_lines"] == len(shown) for answer in answers)


async def test_a_match_in_an_endless_line_is_shown_with_what_stands_around_it(back: ReadBack) -> None:
    answer = await back.call(
        "search_result", {"handle": await keep(back, "x" * 90_000 + " needle " + "é" * 90_000), "pattern": "needle"}, ME
    )
    assert " needle é" in answer.body and len(answer.body) < 600 and "(270,008 bytes)" in answer.body


async def test_short_lines_in_great_number_have_a_next_page(back: ReadBack) -> None:
    answers = await pages(back, "search_result", {"handle": await keep(back, "a\n" * 2000), "pattern": "a"})
    assert sum(answer.body.count("\n") for answer in answers) == 2000


async def test_nothing_found_is_said(back: ReadBack) -> None:
    answer = await back.call("search_result", {"handle": await keep(back, LOG), "pattern": "no such thing"}, ME)
    assert "0 of 3,000 lines match" in answer.text and answer.body == ""


@pytest.mark.process
async def test_a_query_is_answered_in_pages(back: ReadBack) -> None:
    handle = await keep(back, json.dumps([{"n": n, "word": f"word {n}", "none": None} for n in range(800)]))
    answers = await pages(
        back, "query_result", {"handle": handle, "sql": "SELECT n, word, none FROM result ORDER BY n DESC"}
    )
    assert len(answers) > 2 and all(answer.body.startswith("n,word,none\n") for answer in answers)
    rows = [line for answer in answers for line in answer.body.splitlines()[1:]]
    assert rows == [f"{n},word {n}," for n in range(799, -1, -1)]
    assert all(count_tokens(answer.body) <= 1010 for answer in answers)
    assert "a JSON list, 800 rows): rows 1-" in answers[0].text and answers[0].facts["columns"][0] == {
        "name": "n",
        "type": "BIGINT",
    }


async def test_a_summary_is_made_from_the_whole_without_a_model(back: ReadBack) -> None:
    text = LOG + "03001 ERROR pool orders-primary exhausted (20 of 20)\n" + LOG
    answer = await back.call(
        "summarize_result", {"handle": await keep(back, text), "focus": "why does it fail", "max_tokens": 200}, ME
    )
    assert "pool orders-primary exhausted" in answer.body and count_tokens(answer.body) <= 200
    assert answer.facts["status"] == "structural" and "→" in answer.text


async def test_a_model_that_stalls_over_a_summary_gives_way_to_the_structure_in_time(kept: KeptResults) -> None:
    async with (
        FakeLLMServer(lambda request: Reply("late", delay=3600)).listening() as server,
        model_at(server.url) as llm,
    ):
        back = read_back(kept, llm=llm, condense_seconds=0.2)
        handle = await kept.keep(mask(LOG + "03001 ERROR pool orders-primary exhausted\n"), scope=ME, origin=CALL)
        with anyio.fail_after(300):
            answer = await back.call(
                "summarize_result", {"handle": handle, "focus": "why does it fail", "max_tokens": 100}, ME
            )
    assert answer.facts["status"] == "fallback" and "pool orders-primary exhausted" in answer.body


async def test_a_model_is_never_shown_a_secret_that_the_focus_names(kept: KeptResults) -> None:
    async with (
        FakeLLMServer(lambda request: "The pool is exhausted.").listening() as server,
        model_at(server.url) as llm,
    ):
        back = read_back(kept, llm=llm)
        handle = await kept.keep(mask(LOG[:9000]), scope=ME, origin=CALL)
        answer = await back.call(
            "summarize_result", {"handle": handle, "focus": "who uses password=hunter2hunter2", "max_tokens": 100}, ME
        )
    assert answer.facts["status"] == "summarized" and answer.body == "The pool is exhausted."
    assert server.requests and "hunter2" not in json.dumps(server.requests)


MODES: list[dict[str, Any]] = [{}, {"pattern": "x"}, {"sql": "SELECT 1"}, {"looking_for": "x"}]


@pytest.mark.parametrize("mode", MODES, ids=str)
async def test_another_scope_finds_nothing_and_an_image_is_no_text(back: ReadBack, mode: dict[str, Any]) -> None:
    with pytest.raises(ResultNotFound):
        await back.call("read_result", {"handle": await keep(back, LOG), **mode}, "session:2")
    handle = await back.kept.keep_bytes(b"\x89PNG\xff", scope=ME, origin=CALL, mime_type="image/png", kind="image")
    with pytest.raises(InputError, match="is not text: image of type image/png, 5 bytes"):
        await back.call("read_result", {"handle": handle, **mode}, ME)


@pytest.mark.process
async def test_the_arguments_decide_and_exclude_each_other(back: ReadBack) -> None:
    """A call written for one of the four tools of an earlier version still works."""
    handle = await keep(back, LOG)
    for arguments, earlier in (
        ({"pattern": "request 7 "}, "search_result"),
        ({"sql": "SELECT count(*) FROM lines"}, "query_result"),
        ({"looking_for": "slow", "end_line": None}, "summarize_result"),
    ):
        answer = await back.call("read_result", {"handle": handle, **arguments}, ME)
        assert (await back.call(earlier, {"handle": handle, **arguments}, ME)).text == answer.text
    focused = await back.call("read_result", {"handle": handle, "looking_for": "slow"}, ME)
    assert (await back.call("summarize_result", {"handle": handle, "focus": "slow"}, ME)).text == focused.text
    with pytest.raises(InputError, match="use one of pattern and sql, not both"):
        await back.call("read_result", {"handle": handle, "pattern": "x", "sql": "SELECT 1"}, ME)


async def test_an_unknown_tool_is_answered_with_those_there_are(back: ReadBack) -> None:
    with pytest.raises(InputError, match="There is: read_result"):
        await back.call("grep_result", {}, ME)


def test_every_argument_stands_in_the_reference() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "kept-results.md").read_text(encoding="utf-8")
    section = page.split("## read_result\n", 1)[1].split("\n## ", 1)[0]
    assert all(f"| `{name}` |" in section for name in ReadArguments.model_fields)


def test_the_schema_is_one_and_names_only_arguments_that_there_are() -> None:
    Draft202012Validator.check_schema(READ_RESULT.schema)
    assert set(READ_RESULT.schema["properties"]) <= set(ReadArguments.model_fields)
    assert READ_RESULT.schema["required"] == ["handle"]
