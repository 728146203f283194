"""Events on several lines are read as the lines of a log; records of things are not."""

from tersely.condensing.focus import Focus
from tersely.condensing.readers import event_blocks
from tersely.condensing.structural import condense_structurally

WORDS = ("cache", "queue", "index", "session", "worker", "bucket")


def messages() -> list[str]:
    said = [f"{WORDS[number % 6]} {number * 31 % 977} refreshed in {number % 40} ms" for number in range(120)]
    said[77] = "disk sda1 is full, writes are refused"
    return said


def clock(number: int) -> str:
    return f"2026-11-15 {number // 60:02d}:{number % 60:02d}:07"


def taken(text: str) -> bool:
    return event_blocks.read(text, Focus.parse(""), 300) is not None


def test_blocks_of_fields_with_a_time_are_events() -> None:
    text = "\n\n".join(
        f"Event: {number}\nWhen: {clock(number)}\nLevel: {'Error' if number == 77 else 'Information'}\nText: {message}"
        for number, message in enumerate(messages())
    )
    condensed = condense_structurally(text, 200, "What went wrong?")
    assert condensed.kind == "log"
    assert "120 entries" in condensed.text
    assert "Level: Error\n Text: disk sda1 is full, writes are refused" in condensed.text
    # The harmless ones stand for each other.
    assert condensed.text.count("refreshed") < 12


def test_fields_between_rules_are_events_too() -> None:
    text = "\n--\n".join(f"time = {clock(number)}\nmessage = {message}" for number, message in enumerate(messages()))
    assert "disk sda1 is full" in condense_structurally(text, 150, "anything unusual?").text


def test_a_message_below_the_line_that_says_when_belongs_to_it() -> None:
    text = "\n".join(
        f"*** {clock(number)[11:]} (store) info ***\n    {message}" for number, message in enumerate(messages())
    )
    condensed = condense_structurally(text, 200, "disk full")
    assert "(store) info ***\n disk sda1 is full, writes are refused" in condensed.text
    assert "⏎" not in condensed.text


def test_a_commit_of_a_history_keeps_its_hash_and_its_lines_stay_apart() -> None:
    text = "\n\n".join(
        (
            f"commit {number * 7919:08x}{'0' * 32}\nAuthor: Ada <ada@example.org>\n"
            f"Date:   {clock(119 - number)} +0000\n\n    {message}"
        )
        for number, message in enumerate(messages())
    )
    condensed = condense_structurally(text, 200, "disk")
    lines = condensed.text.split("\n")
    assert f"commit {77 * 7919:08x}0000…" in lines
    assert "    disk sda1 is full, writes are refused" in lines
    assert condensed.text.count("Ada") == 1


def test_a_block_whose_message_is_shown_is_not_lost() -> None:
    text = "\n\n".join(
        f"When: {clock(number)}\nText: {message} {number:x}" for number, message in enumerate(messages())
    )
    condensed = condense_structurally(text, 120, "disk")
    assert condensed.lost
    lost = {line for first, last in condensed.account.lost for line in range(first, last + 1)}
    lines = text.split("\n")
    for number in range(2, len(lines) + 1, 3):
        message = lines[number - 1].removeprefix("Text: ")
        assert number not in lost or message not in condensed.text.split("\n")


def test_records_with_a_time_in_no_order_are_no_events() -> None:
    text = "\n\n".join(
        f"Name: shelf-{number}\nCreated: {clock(number * 37 % 120)}\nNote: {message}"
        for number, message in enumerate(messages())
    )
    assert not taken(text)


def test_lines_of_a_log_and_paragraphs_are_no_blocks() -> None:
    assert not taken("\n".join(f"{clock(number)} {message}" for number, message in enumerate(messages())))
    assert not taken(
        "\n\n".join(
            f"On {clock(number)} it rained.\nThen the {message}." for number, message in enumerate(messages()[:5])
        )
    )
    assert not taken("")
