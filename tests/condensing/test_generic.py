"""The reader that is always ready."""

from random import Random

import pytest

from tersely.condensing.focus import Focus
from tersely.condensing.pack import pack
from tersely.condensing.readers import generic
from tersely.condensing.structural import condense_structurally


def shown(text: str, question: str, budget: int = 120) -> str:
    focus = Focus.parse(question)
    return pack(generic.read(text, focus, budget), budget, focus=focus).text


def test_a_value_is_found_beside_its_owner_in_a_format_without_a_name() -> None:
    text = "\n".join(f"@@ unit kestrel-{n}\n!! colour {n * 3}\n!! weight {n * 5}\n%%" for n in range(90))
    found = shown(text, "weight of kestrel-71")
    assert found.index("kestrel-71") < found.index("weight 355")


def test_lines_in_an_unknown_pattern_are_compared_with_each_other() -> None:
    text = "\n".join(f"unit {n} runs at {n % 4 + 20} degrees in hall north" for n in range(80))
    text = text.replace("unit 55 runs at 23 degrees", "unit 55 runs at 901 degrees")
    assert "unit 55 runs at 901" in shown(text, "Which has the highest degrees?")
    assert "unit 55 runs at 901" in shown(text, "what stands out?")


def test_errors_are_found_without_a_question() -> None:
    text = (
        "\n".join(f"step {n} went well" for n in range(200))
        + "\nstep 200 failed: disk full\n"
        + "\n".join(f"step {n} went well" for n in range(201, 300))
    )
    assert "step 200 failed: disk full" in shown(text, "")


def test_an_indented_line_brings_the_line_that_introduces_it() -> None:
    text = "\n".join(f"section {n}\n    detail of number {n * n}" for n in range(80))
    assert "section 44" in shown(text, "number 1936")


def test_the_mark_in_a_blob_counts_what_is_not_shown_of_it() -> None:
    assert "token QUJDREVGR0hJSktMQUJDREVG[… 936 characters]" in shown(
        "token " + "QUJDREVGR0hJSktM" * 60 + " end of the token\n" + "other line\n" * 50, "token"
    )


def test_one_long_line_is_read_in_pieces() -> None:
    text = (
        ", ".join(f"item {n} is fine" for n in range(3_000))
        + ", item x is broken, "
        + ", ".join(f"item {n} is fine" for n in range(3_000))
    )
    assert "item x is broken" in shown(text, "which item is broken?", 300)


FORMATS = {
    "options": "-A {name} --depth {depth} --state {state}",
    "structures": "&{{name:{name} depth:{depth} state:{state} note:two words}}",
    "lists": '(tank "{name}" (depth "{depth}") (state "{state}"))',
    "quoted labels": "entry '{name}' 'depth' => {depth} 'state' => {state}",
}


@pytest.mark.parametrize("form", FORMATS.values(), ids=FORMATS)
def test_values_with_a_label_are_compared_in_formats_without_a_name(form: str) -> None:
    lines = [
        form.format(name=f"tank-{number}", depth=950 if number == 47 else 100 + number, state="open")
        for number in range(90)
    ]
    assert "tank-47" in shown("\n".join(lines), "Which tank has the highest depth?")


def test_a_line_of_a_block_is_shown_with_the_line_that_opens_the_block() -> None:
    text = "\n!\n".join(
        f"port eth-{number}\nspeed {1000 if number == 33 else 10 + number}\nmode access" for number in range(60)
    )
    answer = shown(text, "Which port has the highest speed?")
    assert "eth-33" in answer and "speed 1000" in answer


def test_lines_that_differ_in_names_only_do_not_crowd_out_another_line() -> None:
    names = "atlas birch cobalt delta ember falcon garnet harbor indigo juniper kestrel lumen mango nickel onyx".split()
    lines = [
        f'open("/usr/share/{a}/{b}.mo", O_RDONLY) = -1 ENOENT (No such file or directory)'
        for a in names
        for b in names[:10]
    ]
    lines[90] = 'open("/etc/tundra/quartz.conf", O_WRONLY) = -1 EROFS (Read-only medium)'
    assert "quartz.conf" in shown("\n".join(lines), "which file could it not open?", 300)


def test_ranges_are_compared_by_their_ends() -> None:
    lines = [f"step {n} of plan (actual time=0.{n:03d}..{n % 9 + 2}.250 rows={n})" for n in range(80)]
    lines[55] = "step 55 of plan (actual time=0.001..8123.442 rows=55)"
    assert "8123.442" in shown("\n".join(lines), "why is this plan slow")


def test_the_longest_step_is_the_one_with_the_largest_amount_of_time() -> None:
    """Numbers without a unit (a clock that runs in front of each line) are no durations."""
    lines = [f"#{step} {tick}.{tick % 7}00 Collecting part {tick * 37 % 91}" for step in range(6) for tick in range(30)]
    for step in range(6):
        lines.insert(31 * step + 30, f"#{step} DONE {187.3 if step == 2 else step + 1.5}s")
    assert "#2 DONE 187.3s" in condense_structurally("\n".join(lines), 120, "Which step took the longest?").text


@pytest.mark.parametrize(
    ("question", "value"), [("When was iowait highest?", "91.37"), ("Which interval had the highest await?", "873.41")]
)
def test_a_report_that_repeats_its_headers_has_columns_and_times(question: str, value: str) -> None:
    """`iostat 60`: a single row below each header, so there is no table to read."""
    draw = Random(3)
    reports: list[str] = []
    for minute in range(60):
        numbers = [f"{draw.uniform(0.2, 9):6.2f}" for _ in range(9)]
        reports += [
            f"11/16/2026 10:{minute:02d}:00 AM",
            "avg-cpu:  %user   %nice %system %iowait   %idle",
            f"         {numbers[0]}    0.00  {numbers[1]}  {'91.37' if minute == 41 else numbers[2]}  {numbers[3]}",
            "",
            "Device            r/s     w/s     rkB/s     wkB/s  await  %util",
            f"nvme0n1        {'  '.join(numbers[4:8])}  {'873.41' if minute == 17 else numbers[8]}   {numbers[0]}",
            "",
        ]
    shown = condense_structurally("\n".join(reports), 400, question).text
    minute = 41 if value == "91.37" else 17
    assert f"10:{minute}:00" in shown.split(value)[0][-200:]


def test_sentences_of_long_lines_are_not_counted_as_lines() -> None:
    facts = [f"The power source of station {n} is {'diesel' if n == 40 else 'solar'}." for n in range(120)]
    focus = Focus.parse("Which station has a different power source than the rest?")
    for size, noun in ((1, "lines"), (12, "sentences")):
        text = "\n".join(" ".join(facts[at : at + size]) for at in range(0, 120, size))
        counted = generic.read(text, focus, 300).totals
        assert counted is not None and (counted().count, counted().noun) == (120, noun)


PARTS = [
    (part, thing)
    for thing in ("configuration", "list of tools", "cache", "memory", "notes")
    for part in ("gateway", "store", "dashboard", "worker", "condenser", "command line")
]


def test_a_drawn_line_introduces_nothing() -> None:
    texts = ["QUERY PLAN", "-" * 60, " Sort  (cost=2113.50 rows=3)", "   Sort Key: total", " Planning Time: 1.2 ms"]
    assert generic.owners_of(texts, [1, 2, 3, 4, 5]) == [-1, -1, -1, 2, -1]


def test_a_list_stands_under_its_heading() -> None:
    texts = [
        "# Changes",
        "## 1.2",
        "### Added",
        "- a gateway",
        "  and its tests",
        "### Fixed",
        "- a leak",
        "## 1.1",
        "- b",
    ]
    assert generic.owners_of(texts, list(range(1, 10))) == [-1, -1, 1, 2, 3, 1, 5, -1, 7]


def test_lines_that_the_hedge_adds_below_an_outline_have_their_headings() -> None:
    sorts = ("Added", "Changed", "Fixed")
    sections = [
        f"### {sort}\n\n" + "\n".join(f"- The {part} {sort.lower()} its {thing} on request {at}, without delay."
                                      for at, (part, thing) in enumerate(PARTS)) for sort in sorts
    ]  # fmt: skip
    text = "# Changelog\n\n## [Unreleased]\n\n" + "\n\n".join(sections) + "\n"
    shown = condense_structurally(text, 300, "What changed for the gateway and its cache?").text
    heading = ""
    for line in shown.split("\n"):
        if line.strip().startswith("### "):
            heading = line.split()[1].lower()
        elif line.strip().startswith("- The"):
            assert f" {heading} its " in line
