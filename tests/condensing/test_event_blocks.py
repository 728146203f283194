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


def test_a_missing_line_of_an_event_is_filled_in_where_it_stands() -> None:
    def package(number: int) -> str:
        return f"lib{WORDS[number % 6]}{number}:amd64 (1.{number}.4-2+deb12u{number % 3}, automatic)"

    blocks = [
        [
            f"Start-Date: {clock(7 * number)}",
            f"Commandline: apt-get install -y {WORDS[number % 6]}-{number} tools for the {WORDS[number % 5]} of the day",
            f"Install: {', '.join(package(part) for part in range(number, number + 2 + 40 * (number % 3 == 1)))}",
            f"End-Date: {clock(7 * number + 1)}",
        ]
        for number in range(12)
    ]
    text = "\n\n".join("\n".join(block) for block in blocks)
    lines = [" ".join(line.split()) for line in text.split("\n")]
    for budget in (1_000, 2_000, 3_000):
        shown = [
            " ".join(line.split())
            for line in condense_structurally(text, budget, "What was installed?").text.split("\n")
        ]
        places = [lines.index(line) for line in shown if line in lines]
        assert places == sorted(places)
        for before, mark, after in zip(shown, shown[1:], shown[2:], strict=False):
            if mark == "…" and before in lines and after in lines:
                assert lines.index(after) > lines.index(before) + 1


def test_events_are_counted_together_only_if_the_lines_shown_are_equal() -> None:
    text = "\n\n".join(
        f"When: {clock(number)}\nTask: {WORDS[number % 6]} job\nText: copied the first {number} of the nightly blocks to disk"
        for number in range(60)
    )
    lines = condense_structurally(text, 200, "").text.split("\n")
    assert " Text: copied the first 0 of the nightly blocks to disk ×60" in lines
    assert not [line for line in lines if "Task: cache job ×60" in line]


def test_of_a_long_line_the_part_that_the_question_is_about_is_shown() -> None:
    blocks = []
    for day in range(1, 25):
        names = ", ".join(f"{chr(96 + day)}loaf{number}:amd64 (1.{number}, automatic)" for number in range(44 + day))
        if day == 17:
            names = names.replace("qloaf40:amd64 (1.40", "valgrind:amd64 (3.19")
        blocks.append(
            f"Start-Date: 2026-05-{day:02}  14:36:25\nCommandline: apt-get install -y {chr(96 + day)}loaf\nInstall: {names}\n"
            f"End-Date: 2026-05-{day:02}  14:37:25\n"
        )
    shown = condense_structurally("\n".join(blocks), 500, "when was valgrind installed?").text
    assert "valgrind:amd64 (3.19" in shown
    assert "Start-Date: 2026-05-17" in shown
