"""Annotated source: who, when and which commit are shown with every line."""

import random

from tersely.condensing.detect import kind_of
from tersely.condensing.structural import condense_structurally

AUTHORS = ("Ada", "Grace Hopper", "Äöü Müller")


def _blame(count: int = 900) -> str:
    chance = random.Random(5)
    lines: list[str] = []
    while len(lines) < count:
        commit, author = f"{chance.getrandbits(40):010x}", chance.choice(AUTHORS)
        date = f"20{chance.randint(10, 23)}-0{chance.randint(1, 9)}-1{chance.randint(0, 9)} 10:00:00 +0200"
        for _ in range(chance.randint(1, 6)):
            at = len(lines) + 1
            code = "int close_lid(lid *l) {" if at == 500 else f"    heat(oven, {at});"
            if at == 700:
                date = "2026-06-16 09:00:00 +0200"
            lines.append(f"{commit} ({author:<20} {date} {at:>4}) {code}")
    return "\n".join(lines)


def _who(text: str, number: int) -> list[str]:
    line = text.split("\n")[number - 1]
    head, _, _ = line.partition(f" {number})")
    return " ".join(head.split()).split(" (")


def test_the_commit_author_and_date_are_shown_with_a_line() -> None:
    text = _blame()
    assert kind_of(text) == "blame"
    shown = condense_structurally(text, 300, "Who last changed close_lid?").text

    assert " ".join(shown.split()).find(" (".join(_who(text, 500))) >= 0
    assert " 500) int close_lid(lid *l) {" in shown


def test_the_newest_change_is_found() -> None:
    text = _blame()
    shown = condense_structurally(text, 300, "What is the newest change in this file?").text

    assert "2026-06-16 09:00:00" in shown
    assert _who(text, 700)[0] in shown


def test_the_head_gives_the_earliest_and_latest_date() -> None:
    text = _blame()
    dates = sorted(line.split(" +0200")[0][-19:-9] for line in text.split("\n"))

    assert f"{dates[0]} – 2026-06-16" in condense_structurally(text, 300, "").text.split("\n")[0]


def test_unlike_lines_are_not_called_alike() -> None:
    condensed = condense_structurally(_blame(), 300, "")

    assert "alike" not in condensed.text
    assert not condensed.account.partial
