"""A session as a terminal shows it."""

import io
from typing import Any

from rich.console import Console

from tersely.terminal import Screen


def shown(*events: dict[str, Any], width: int = 100) -> str:
    """What is left on the screen after these events."""
    console = Console(file=io.StringIO(), width=width, highlight=False)
    screen = Screen(console, more_at="http://here/sessions/1")
    for event in events:
        screen.take(event)
    screen.take({"type": "session.status", "status": "completed", "reason": ""})
    screen.close()
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def told(event_type: str, content: str, **metadata: Any) -> dict[str, Any]:
    return {
        "type": "timeline_event.created",
        "event_id": "1",
        "event_type": event_type,
        "status": "completed",
        "content": content,
        "metadata": metadata,
    }


def test_the_analysis_is_shown_once() -> None:
    text = shown(told("llm_response", "The disk is full.", final=True), told("final_analysis", "The disk is full."))
    assert text.count("The disk is full.") == 1


def test_the_thought_before_a_final_answer_is_shown() -> None:
    answer = "Thought: df says it all.\n\n**Final Answer:** The disk is full."
    text = shown(told("llm_response", answer, final=True), told("final_analysis", "The disk is full."))
    assert "df says it all." in text and text.count("The disk is full.") == 1


def test_a_long_analysis_is_begun_and_the_rest_is_one_click_away() -> None:
    text = shown(told("final_analysis", "\n".join(f"- finding {number}" for number in range(1, 201))))
    assert "finding 60" in text and "finding 61" not in text
    assert "140 more lines: http://here/sessions/1" in text


def test_the_saved_share_is_never_rounded_up_to_everything() -> None:
    call = told(
        "llm_tool_call",
        "…",
        server_name="cluster",
        tool_name="get_pods",
        arguments={},
        original_tokens=400_000,
        duration_ms=20,
    )
    summary = told(
        "mcp_tool_summary", "…", original_tokens=400_000, summary_tokens=150, status="summarized", handle="r_1"
    )
    last = shown(call, summary, width=200).splitlines()[-1]
    assert last == "completed · 1 tool call · 400,000 tokens of results, 150 in the conversation: 99% saved"


def test_a_call_that_failed_says_why_and_lines_end_where_their_words_end() -> None:
    text = shown(
        told(
            "llm_tool_call",
            "no such pod",
            server_name="cluster",
            tool_name="get_pods",
            arguments={"pod": "x"},
            is_error=True,
        )
    )
    assert "✗ cluster.get_pods" in text and "no such pod" in text
    assert not any(line.endswith(" ") for line in text.splitlines())


def test_what_a_terminal_would_obey_is_not_sent_to_it() -> None:
    assert "\x1b]0;" not in shown(told("llm_response", "hello \x1b]0;owned\x07 there"), told("error", "\x1b[2Jgone"))


def test_an_event_that_comes_while_the_screen_is_drawn_breaks_nothing() -> None:
    """The screen is drawn in a thread of its own."""
    screen = Screen(Console(file=io.StringIO()))

    class Drawn(dict[str, Any]):
        def __getitem__(self, key: str) -> Any:
            screen.take({**told("llm_response", "next"), "event_id": f"next {key}", "status": "streaming"})
            return super().__getitem__(key)

    screen.take({**told("llm_thinking", "one"), "status": "streaming"})
    screen._open["1"] = Drawn(screen._open["1"])
    screen.growing()
    assert len(screen._open) == 3
