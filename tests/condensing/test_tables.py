"""Rows are chosen by question, by what is odd among their column, and by extremes."""

import re

import pytest

from tersely.condensing.account import folded_runs
from tersely.condensing.focus import Focus
from tersely.condensing.pack import pack
from tersely.condensing.readers.tables import read, read_csv
from tersely.condensing.structural import condense_structurally
from tersely.shapes.tables import form_of, table_parts
from tests.fakes.tracing import count_steps


def pods(count: int = 120) -> str:
    rows = [
        f"web-{number:<12} 1/1     Running            {number % 3}          {number}Mi"
        for number in range(10, 10 + count)
    ]
    rows[count // 2] = "cart-7f9c-x2k       0/1     CrashLoopBackOff   42         999Mi"
    return "NAME             READY   STATUS             RESTARTS   MEMORY\n" + "\n".join(rows) + "\n"


def shown(text: str, question: str, budget: int = 200) -> str:
    focus = Focus.parse(question)
    reading = read(text, focus, budget)
    assert reading is not None
    return pack(reading, budget, focus=focus).text


def test_the_row_that_is_not_like_the_others_is_shown_below_its_header() -> None:
    text = shown(pods(), "Are there unhealthy pods?")
    assert text.index("NAME READY STATUS") < text.index("cart-7f9c-x2k 0/1 CrashLoopBackOff 42 999Mi")


def test_a_state_that_should_not_be_brings_the_rows_with_another() -> None:
    assert "cart-7f9c-x2k" in shown(pods(), "Which pods are not running?")


def test_the_highest_is_found_by_the_column_that_is_asked_for() -> None:
    assert "999Mi" in shown(pods(), "Which pod uses the most memory?")
    assert "web-10 " in shown(pods(), "Which pod uses the least memory?")


def test_a_limit_brings_the_rows_beyond_it() -> None:
    text = shown(pods(), "pods with memory over 127Mi")
    assert "web-128 " in text and "web-129 " in text and "cart-7f9c-x2k" in text


def test_quoted_cells_may_hold_the_separator() -> None:
    text = (
        "name,city,size\n"
        + "\n".join(f'"shop {number}","Bonn, Germany",{number}' for number in range(60))
        + '\n"shop x","Riga, Latvia",7000\n'
    )
    focus = Focus.parse("Which shop has the highest size?")
    reading = read_csv(text, focus, 100)
    assert reading is not None
    assert '"shop x","Riga, Latvia",7000' in pack(reading, 100, focus=focus).text


def test_two_tables_in_one_text_keep_their_headers() -> None:
    second = "PROTO    PORT    OWNER\n" + "\n".join(f"tcp      {port}    root" for port in range(8000, 8040))
    text = shown(pods(40) + "\nOpen ports\n" + second, "who owns port 8017", 300)
    assert text.index("PROTO PORT OWNER") < text.index("tcp 8017 root")


def test_wide_rows_show_the_columns_that_matter() -> None:
    header = (
        "ID      NAME     "
        + " ".join(f"COLUMN{chr(65 + number // 26)}{chr(65 + number % 26)}" for number in range(40))
        + " OWNER"
    )
    rows = [
        f"{100 + row}     item-{row:02d}  "
        + " ".join(f"value{row * number % 1000:03d}" for number in range(40))
        + f" team-{row}"
        for row in range(60)
    ]
    text = shown(header + "\n" + "\n".join(rows), "who is the owner of item-33?", 120)
    row = next(line for line in text.split("\n") if "item-33" in line)
    assert "team-33" in row and "…" in row


def test_a_title_above_a_table_is_not_its_header() -> None:
    rows = "\n".join(f"     {number}    0.{number:03}    0.000 part.py:{number}(step_{number})" for number in range(60))
    profile = f"  Ordered by: internal time\n\n  ncalls  tottime  percall filename:lineno(function)\n{rows}"
    text = shown(profile, "step_7", 200)
    assert "Ordered by: internal time [" not in text
    assert "ncalls tottime percall filename:lineno(function) [" in text


def test_bars_before_a_legend_draw_no_table() -> None:
    row = "{:<3} {:<15} {:<9} {:<7} {}"
    packages = [row.format("ii", f"lib{at:03}:amd64", f"1.{at}-2", "amd64", f"library number {at}") for at in range(90)]
    legend = ["Desired=Unknown/Install/Remove", "| Status=Not/Inst/Conf-files", "|/ Err?=(none)/Reinst-required"]
    header = [
        row.format("||/", "Name", "Version", "Arch", "Description"),
        "+++-===============-=========-=======-=====",
    ]
    text = shown(
        "\n".join(legend + header + packages),
        "which version has lib017?",
        200,
    )
    assert "of 90]" in text
    assert "Conf-files [" not in text


def test_a_row_with_a_date_is_not_a_header() -> None:
    blame = "\n".join(
        f"a7c5be{number:04} (Ada Byron 2015-08-04 09:20:55 +0200 {number:3}) the comment on step {number} is long"
        for number in range(80)
    )
    assert " of 79]" not in shown(blame, "step 12", 200)


def test_the_other_columns_are_counted_before_ordinary_rows_are_shown() -> None:
    rows = [
        f"{chr(97 + at % 26)}{chr(97 + at // 26)}-host {'degraded' if at in (77, 201) else 'running'} "
        f"{('eu', 'us', 'ap')[at % 3]} {5 + at % 30}"
        for at in range(300)
    ]
    text = condense_structurally("NAME STATE REGION CPU\n" + "\n".join(rows), 400, "Which hosts are degraded?").text
    assert "[300 rows; STATE: degraded ×2, running ×298]" in text
    assert "[300 rows; REGION: ap ×100, eu ×100, us ×100]" in text
    assert "[300 rows; CPU: 5 – 34]" in text
    assert "zc-host degraded ap 22" in text
    assert "th-host degraded eu 26" in text


def test_a_row_that_the_hedge_adds_is_aligned_like_the_other_rows() -> None:
    rows = [
        f"pod-{at:04}     1/1    {'Pending' if at == 50 else 'Running'}   {at % 3}         {at * at % 89 + 1}d"
        for at in range(300)
    ]
    header = "NAME         READY  STATUS    RESTARTS  AGE\n"
    condensed = condense_structurally(header + "\n".join(rows), 400, "Which pods are pending?")
    assert condensed.kind == "table"
    assert "pod-0050 1/1 Pending 2" in condensed.text
    assert "  " not in condensed.text


def test_rows_of_tables_with_the_same_header_are_compared_with_each_other() -> None:
    """A program that reports every minute repeats its header; each report has a highest row, but one is the answer."""
    reports = [
        f"report of 10:{minute:02}\n\nDevice   reads   writes   util\n"
        + "".join(
            f"disk{disk}    {minute * disk % 7 + 1}.5     {disk}.25     {99.97 if (minute, disk) == (9, 2) else disk + 1.5}\n"
            for disk in range(6)
        )
        + "\n"
        for minute in range(14)
    ]
    reading = read("".join(reports), Focus.parse("Which device has the highest util?"), 300)
    assert reading is not None
    assert max(reading.units, key=lambda unit: unit.score).text == "disk2 5.5 2.25 99.97"
    assert sum(unit.score > 2 for unit in reading.units) <= 6


@pytest.mark.parametrize("disks", [3, 8, 30])
def test_a_header_on_every_page_is_no_row(disks: int) -> None:
    page = "Device   reads   writes\n" + "".join(f"disk{disk:<4} {disk * 7 + 1:<7} {disk}\n" for disk in range(disks))
    text = "\n".join(page.replace("disk1 ", f"disk{number}1") for number in range(60))
    reading = read(text, Focus.parse("What do the disks do?"), 500)
    assert reading is not None
    assert reading.totals is not None and reading.totals().count == 60 * disks
    (header,) = [unit for unit in reading.units if unit.text == "Device reads writes"]
    assert list(folded_runs(header.folded))[:2] == [(disks + 3, disks + 3), (2 * disks + 5, 2 * disks + 5)]


def test_a_first_row_in_the_form_of_the_others_is_no_header() -> None:
    rows = [f"10:00:{second:02} | worker-{'abc'[second % 3]} | job {'xyz'[second % 3]}{second}" for second in range(40)]
    reading = read("\n".join(rows), Focus.parse("worker"), 1000)
    assert reading is not None
    assert sum(unit.count for unit in reading.units) == 40
    maps = [f"- {{port: {8000 + number}, host: 'h{number}', zone: 'z{number % 7}'}}" for number in range(40)]
    reading = read_csv("\n".join(maps), Focus.parse("port"), 1000)
    assert reading is not None
    assert sum(unit.count for unit in reading.units) == 40


def test_rows_that_repeat_each_other_are_shown_once_with_their_number() -> None:
    rows = ["ok,eu", "late,eu", "ok,us"] * 300 + ["lost,eu"]
    condensed = condense_structurally("state,region\n" + "\n".join(rows), 500, "")

    assert sorted(condensed.text.split("\n")[-4:]) == ["late,eu ×300", "lost,eu", "ok,eu ×300", "ok,us ×300"]
    assert not condensed.account.lost
    in_sections = condense_structurally("state,region\n" + "\n".join(rows), 500, "", section=3_000)
    assert "ok,us ×300" in in_sections.text


def test_ordinary_rows_are_a_pattern_once_and_then_only_what_differs() -> None:
    rows = [("NAME", "STATUS", "DNS_POLICY", "SCHEDULER", "ADDRESS")]
    rows += [(f"web-{at}", "Running", "ClusterFirst", "default-scheduler", f"10.0.{at}.7") for at in range(200)]
    rows[91] = ("web-90", "Running", "None", "default-scheduler", "10.0.90.7")
    text = "\n".join("".join(f"{cell:<20}" for cell in row).rstrip() for row in rows)
    shown = condense_structurally(text, 500, "").text

    assert "web-90 Running None default-scheduler 10.0.90.7" in shown
    assert shown.count("ClusterFirst") == 2, "counted once, and once in a whole row"
    assert shown.count("\nweb-") > 12
    assert (
        "web-77 Running ClusterFirst default-scheduler" in condense_structurally(text, 500, "Where runs web-77?").text
    )


def test_a_row_is_found_by_its_name_even_if_that_is_a_common_word() -> None:
    about = ("runtime version", "library, old version", "tools to make version files", "development version")
    rows = [f"ii  {f'lib{at}':<16} {at}.4-1         {about[at % 4]}" for at in range(400)]
    rows[234] = f"ii  {'make':<16} 4.3-4         utility for directing compilation"
    text = "||/ Name             Version       Description\n" + "\n".join(rows)
    assert "make 4.3-4" in condense_structurally(text, 300, "which version of make is there?").text


def test_the_totals_above_a_table_come_before_counts_of_its_columns() -> None:
    rows = [
        f"{n % 7 + 1:9d}    0.{n:03d}    0.000    0.{n:03d}    0.000 library_{n % 40}.py:{n}(function_{n})"
        for n in range(200)
    ]
    text = "\n".join(
        [
            "         18420 function calls (17911 primitive calls) in 0.031 seconds",
            "",
            "   Ordered by: cumulative time",
            "",
            "   ncalls  tottime  percall  cumtime  percall filename:lineno(function)",
            *rows,
        ]
    )
    for question in ("", "what takes the time?"):
        assert "18420 function calls" in condense_structurally(text, 400, question).text


@pytest.mark.parametrize("titles", [[], ["Pods in all namespaces"], ["Pods in all namespaces", "as of this morning"]])
@pytest.mark.parametrize("header", [["NAME        READY  STATUS    RESTARTS"], []])
def test_plain_lines_above_a_table_are_neither_its_header_nor_rows(titles: list[str], header: list[str]) -> None:
    rows = [f"pod-{at:<6}  1/1    Running   {at * 37 % 91}" for at in range(200)]
    lines = condense_structurally("\n".join([*titles, *header, *rows]), 200, "").text.split("\n")
    assert set(titles) <= set(lines)
    owners = [line for line in lines if "of 20" in line and not line.startswith("[")]
    assert [owner.split(" [")[0] for owner in owners] == [" ".join(line.split()) for line in header]
    assert all(owner.endswith("of 200]") for owner in owners)


RULED = {
    "psql": [
        " id | name    | plan",
        "----+---------+------",
        *(f" {n:2} | user{n:03} | free" for n in range(90)),
        "(90 rows)",
    ],
    "box": [
        "┌─────┬──────┐",
        "│ id  │ name │",
        "├─────┼──────┤",
        *(f"│ {n:3} │ u{n:03} │" for n in range(90)),
        "└─────┴──────┘",
    ],
    "columns": ["id   name     plan", "---  -------  ----", *(f"{n:3}  user{n:03}  free" for n in range(90))],
}


@pytest.mark.parametrize("name", RULED)
def test_a_drawn_line_is_not_marked_as_missing_text(name: str) -> None:
    lines = RULED[name]
    condensed = condense_structurally("\n".join(lines), 300)
    shown = condensed.text.split("\n")
    header = next(at for at, line in enumerate(shown) if " of 90]" in line)
    first = next(at for at, line in enumerate(lines) if " 0 " in line)
    assert shown[header + 1].split() == lines[first].split()
    drawn = [at for at, line in enumerate(lines, 1) if not any(map(str.isalnum, line))]
    lost = [at for first, last in condensed.account.lost for at in range(first, last + 1)]
    assert not set(drawn) & set(lost)


def test_rows_of_a_listing_stand_below_the_name_of_their_folder() -> None:
    folders = [
        f"/srv/data{folder}:\ntotal 40\n"
        + "\n".join(f"-rw-r--r-- 1 root root {folder * 40 + n} May 31 2024 part{n}.bin" for n in range(12))
        for folder in range(20)
    ]
    text = "\n\n".join(folders).replace("part7.bin", "part7.broken", 13).replace("part7.broken", "part7.bin", 12)
    shown = condense_structurally(text, 300, "Which part is broken?").text.split("\n")
    row = next(at for at, line in enumerate(shown) if line.endswith("part7.broken"))
    assert next(line for line in reversed(shown[:row]) if line.startswith("/srv")) == "/srv/data12:"


@pytest.mark.parametrize("sign", [" ", " | "])
def test_a_line_whose_words_recur_in_its_columns_is_no_header(sign: str) -> None:
    names = [("copy", "link", "strip", "check"), ("alpha", "beta", "gamma", "delta", "eps"), ("arm", "mips", "riscv")]
    text = "\n".join(sign.join((a, b, c, "ok")) for a in names[0] for b in names[1] for c in names[2])
    assert " of " not in condense_structurally(text, 150).text.partition("[left out")[0]


def test_many_drawn_lines_are_passed_in_one_step_each() -> None:
    rows = "".join(f"| host{at} | {at * 37 % 900} |\n" for at in range(60))
    focus = Focus.parse("")

    def steps(rules: int) -> int:
        text = f"| name | size |\n|------|------|\n{rows}" + "+------+------+\n" * rules + rows
        assert read(text, focus, 300) is not None
        return count_steps(lambda: read(text, focus, 300))

    few, many = steps(1_000), steps(4_000)
    assert many < 5.3 * few, f"{few:,} steps, {many:,} for four times as many lines"


def test_a_row_with_an_empty_cell_keeps_its_columns() -> None:
    header = "addr  opcode         p1    p2    p3    p4             p5  comment"
    rule = "----  -------------  ----  ----  ----  -------------  --  -------"
    names = ("Init", "OpenRead", "Rewind", "Column", "SorterInsert", "ResultRow", "Next", "Goto")
    rows = [
        f"{at:<4}  {names[at % 8]:<13}  {at % 7:<4}  {at * 3 % 91:<4}  {at % 3:<4}  {'k(2,B)' if at % 8 == 4 else '':<13}  {at % 2}"
        for at in range(120)
    ]
    condensed = condense_structurally("\n".join([header, rule, *rows]), 400, "Where are rows inserted into the sorter?")
    lines = condensed.text.split("\n")
    assert any(line.startswith(header) for line in lines)  # Its names contain digits, as the rows do.
    assert rows[4] in lines
    assert not [line for line in lines if line[:1].isdigit() and line not in rows]


def test_a_row_that_is_not_aligned_is_not_counted_as_empty() -> None:
    rows = [f"node-{at:<9}{at * 7 % 97}MB    {at + 11:<12}{'hot' if at % 3 else 'cold'}" for at in range(60)]
    text = "\n".join(["NAME          SIZE    DEAD-TUPLES TIER", *rows])
    condensed = condense_structurally(text, 400, "How many dead tuples are there by tier?").text
    assert "TIER: hot ×40, cold ×20]" in condensed
    assert '""' not in condensed


def test_a_row_that_ends_early_has_no_empty_values() -> None:
    rows = [f"job-{at},{at * 37 % 91},{'done' if at % 4 else 'waiting'}" for at in range(60)] + ["job-60,3", "job-61,8"]
    condensed = condense_structurally("\n".join(["name,seconds,state", *rows]), 300, "How many are waiting?").text
    assert "state: waiting ×15, done ×45, absent ×2]" in condensed


def test_a_name_of_two_words_is_one_column_and_cells_with_blanks_stay_in_theirs() -> None:
    row = "{:<9}  {:<8} {:<7} {:<9} {:<16} {:<5} {:<9} {:<8} {:<16} {:<17} {}"
    names = "NAMESPACE NAME READY STATUS RESTARTS AGE IP NODE".split()
    pods = [row.format(*names, "NOMINATED NODE", "READINESS GATES", "LABELS")]
    for number in range(12):
        restarts = f"{number} (119s ago)" if number % 3 else "0"
        place = f"{number}d", f"10.0.0.{number}", "n1"
        pods.append(
            row.format("shop", f"web-{number}", "1/1", "Running", restarts, *place, "<none>", "<none>", "app=web")
        )
    (part,) = table_parts("\n".join(pods))
    assert part.table is not None
    assert part.table.header == [*names, "NOMINATED NODE", "READINESS GATES", "LABELS"]
    assert [cells[5] for cells in part.table.rows] == [f"{number}d" for number in range(12)]


def test_a_cell_in_brackets_and_an_empty_one_do_not_move_the_others() -> None:
    row = "{:<5} {:<6} {:<11} {:<10} {:<13} {:<8} {}"
    lines = [row.format("Proto", "RefCnt", "Flags", "Type", "State", "I-Node", "Path")]
    for number in range(20):
        state, path = ("LISTENING" if number % 4 == 0 else ""), (f"/run/s{number}" if number % 3 else "")
        lines.append(
            row.format("unix", number % 5 + 2, "[ ACC ]" if state else "[ ]", "DGRAM", state, 8000 + number, path)
        )
    (part,) = table_parts("\n".join(lines))
    assert part.table is not None
    assert len(part.table.rows) == 20
    assert [cells[3:6] for cells in part.table.rows] == [
        ["DGRAM", "" if number % 4 else "LISTENING", str(8000 + number)] for number in range(20)
    ]


def test_rows_that_differ_in_their_number_only_are_counted() -> None:
    rows = [f"{at},{'failed' if at == 512 else 'ok'},eu-west-1" for at in range(900)]
    text = "\n".join(["id,state,region", *rows])

    condensed = condense_structurally(text, 300, "")
    asked = condense_structurally(text, 300, "state of 300").text
    in_sections = condense_structurally(text, 300, "", section=5_000).text

    assert "1,ok,eu-west-1 ×897" in condensed.text
    assert "512,failed,eu-west-1" in condensed.text
    assert condensed.tokens_after < 100 and not condensed.account.lost
    assert "\n300,ok,eu-west-1\n" in asked and "0,ok,eu-west-1 ×898" in asked
    singly = sum(1 for line in in_sections.split("\n") if line.endswith(",ok,eu-west-1"))
    assert f"1,ok,eu-west-1 ×{899 - singly}" in in_sections


def test_rows_with_a_measure_are_not_counted_as_equal() -> None:
    text = "\n".join(["id,bytes,state", *(f"{at},{at * 37 % 991},ok" for at in range(900))])

    assert "×" not in "\n".join(condense_structurally(text, 300, "").text.split("id,bytes,state")[1:])


def test_rows_of_several_lines_are_shown_line_by_line() -> None:
    rows = [f'{at},"he said ""no"", then\nleft, at {at}",{at % 7}' for at in range(300)]
    text = "\n".join(["id,comment,score", *rows])

    condensed = condense_structurally(text, 300, "")

    shown = condensed.text.split("\n")
    assert set(shown) - set(text.split("\n")) == {line for line in shown if line.endswith("]")}
    assert '\n1,"he said ""no"", then\nleft, at 1",1\n2,' in condensed.text
    first_lost = condensed.account.lost[0][0]
    assert condensed.account.shown[0] == (1, first_lost - 1) and first_lost % 2 == 0


def test_a_row_is_no_header_because_its_words_recur() -> None:
    modes = ["000000", "100644", "100644"]
    rows = [f":{modes[at % 3]} 100644 {at:07x}a1 {at * 7:07x}b2 {'AMD'[at % 3]}\tsrc/part_{at}.py" for at in range(200)]

    assert "[" not in condense_structurally("\n".join(rows), 300, "").text.split("\n")[0]


def test_empty_cells_of_rows_without_a_header_keep_their_place() -> None:
    calls = [(59.68, 1744, "", "getdents64"), (24.4, 905, "13", "openat"), (7.38, 894, "", "close")]
    rows = [
        f"{share:6.2f} {number:9d} {errors:>9} {name}{at}" for at in range(9) for share, number, errors, name in calls
    ]
    text = "\n".join(["% time     calls    errors syscall", "------ --------- --------- ----------------", *rows])

    shown = condense_structurally(text, 200, "").text

    assert " 59.68      1744           getdents640\n" in shown
    assert " 24.40       905        13 openat0\n" in shown


def test_two_titles_above_a_table_are_no_header() -> None:
    pods = [
        f"pod-{at:<8} 1/1     {'Pending' if at % 50 == 0 else 'Running'}   {at % 4}          {at % 90}d"
        for at in range(300)
    ]
    titles = ["Report for cluster alpha", "Generated on 2026-01-03 by ops"]
    text = "\n".join([*titles, "NAME         READY   STATUS    RESTARTS   AGE", *pods])

    shown = condense_structurally(text, 300, "").text

    assert "NAME READY STATUS RESTARTS AGE [" in shown
    assert "[300 rows; STATUS: Running ×294, Pending ×6]" in shown
    assert all(title in shown.split("\n") for title in titles)


def test_commas_in_brackets_inside_one_column_separate_no_cells() -> None:
    rows = [
        f"LISTEN 0      {128 + number % 2:<6} 127.0.0.1:{8000 + number}      0.0.0.0:*    "
        f'users:(("worker",pid={4000 + number},fd={number % 7}))'
        for number in range(60)
    ]
    text = "State  Recv-Q Send-Q Local Address:Port Peer Address:Port Process\n" + "\n".join(rows) + "\n"
    for listing in (text, "\n".join(rows)):
        assert form_of(listing.split("\n")) == "table"
    condensed = condense_structurally(text, 500, "which process listens on port 8017").text
    assert "[60 rows; State: LISTEN ×60]" in condensed


@pytest.mark.parametrize(
    "rows",
    [
        ["auth      mail        true", "redis     mail        true"],
        ["auth      ClusterIP   <none>   80/TCP,443/TCP", "redis     ClusterIP   <none>   80/TCP,443/TCP"] * 2,
    ],
)
def test_the_first_of_a_few_rows_is_no_header_because_its_words_recur(rows: list[str]) -> None:
    assert form_of([*rows, rows[0]]) == "table"
    assert not any(part.table.header for part in table_parts("\n".join(rows), fewest=1) if part.table)


@pytest.mark.parametrize("sign", [",", ";;", "\t"])
def test_comments_above_and_below_separated_rows_are_neither_header_nor_rows(sign: str) -> None:
    rows = [
        sign.join((f"web-{number}", "eu", "down" if number == 7 else "up", str(number * 13))) for number in range(80)
    ]
    header = sign.join(("host", "region", "state", "latency"))
    comments = ["# exported by billing, 2.1", "# period: 2025", "#"]
    text = "\n".join([*comments, header, *rows, "# end of export"]) + "\n"
    condensed = condense_structurally(text, 400, "which host is down")
    assert "[80 rows; state: up ×79, down ×1]" in condensed.text
    assert f"\n{header} [" in condensed.text
    assert "# period: 2025" in condensed.text and "# end of export" in condensed.text


def test_a_comment_that_names_the_columns_is_the_header() -> None:
    rows = [f"chr{number % 22}\t{number * 100}\trs{number}\tPASS" for number in range(80)]
    text = "\n".join(["##fileformat=VCFv4.2", "#CHROM\tPOS\tID\tFILTER", *rows]) + "\n"
    assert "[80 rows; FILTER: PASS ×80]" in condense_structurally(text, 400, "which are filtered").text


def test_comments_between_rows_are_no_rows_and_keep_their_place() -> None:
    rows = [f"SKU-{number:05},{number * 37 % 91},9.99,north" for number in range(200)]
    text = "\n".join(["sku,qty,price,warehouse", *rows[:90], "# reloaded after the outage", *rows[90:], "# end"])

    shown = condense_structurally(text, 400, "when was it reloaded after an outage").text

    assert "[200 rows; " in shown
    assert "of 200]" in shown
    assert "absent" not in shown
    assert "# reloaded after the outage" in shown
    following = [line for line in shown.split("\n") if line.startswith("SKU-")]
    assert following == sorted(following)
    assert shown.index("SKU-00000") < shown.index("# reloaded") < shown.index("# end")


def test_a_sign_after_a_backslash_belongs_to_its_cell() -> None:
    states = ["ok"] * 44 + ["late \\| paging"] + ["ok"] * 25
    rows = [f"| svc-{number} | team-a | {state} |" for number, state in enumerate(states)]
    text = "\n".join(["| Service | Owner | Status |", "|---|---|---|", *rows])

    assert "Status: ok ×69, late \\| paging ×1" in condense_structurally(text, 300, "").text


def test_empty_last_cells_of_a_drawn_table_are_empty_and_not_absent() -> None:
    rows = [
        f" {number} | {'paid' if number % 9 else 'open'} | {'gift' if number % 5 == 0 else ''}" for number in range(80)
    ]
    text = "\n".join([" id | status | note ", "----+--------+------", *rows])

    assert 'note: "" ×64, gift ×16' in condense_structurally(text, 300, "note").text


def test_rows_of_several_lines_are_not_counted_by_line() -> None:
    text = "+-------------+----------+\n| GPU  Name   | ECC      |\n| Temp  Power | GPU-Util |\n|=============+==========|\n"
    text += "".join(
        f"|   {number}  A100   |        0 |\n| {31 + number}C    60W  | {number:>3}%     |\n+-------------+----------+\n"
        for number in range(60)
    )

    shown = condense_structurally(text, 300, "which is the hottest").text

    assert " rows" not in shown
    assert " of " not in shown.split("[left out")[0]
    assert "| Temp Power | GPU-Util |" in shown


def test_the_first_row_of_a_ruled_table_is_a_header_only_with_a_rule_below_it() -> None:
    text = "|  Groups  |\n" + "".join(
        f"+----------+--------+\n||  Description | group {number} ||\n||  GroupId     | sg-{number}x  ||\n||  VpcId       | vpc-{number} ||\n"
        f"|+---------+-------+|\n|||  FromPort  | 44{number}  |||\n|||  ToPort    | 44{number} |||\n||+---------+------+||\n"
        for number in range(40)
    )

    assert " of " not in condense_structurally(text, 300, "").text.split("[left out")[0]


def test_a_table_ends_where_the_header_of_another_one_follows() -> None:
    summary = "Transport Total     IP        IPv6\n" + "".join(
        f"{name}\t  {number}         {number}         0        \n" for number, name in enumerate(("RAW", "UDP", "TCP"))
    )
    rows = [
        f"tcp   {'TIME-WAIT' if number else 'LISTEN   '} 0      {number % 3}          127.0.0.1:{30000 + number}      0.0.0.0:*    "
        for number in range(60)
    ]
    header = "Netid State     Recv-Q Send-Q Local Address:Port  Peer Address:Port Process"

    shown = condense_structurally("\n".join([summary, header, *rows]), 300, "").text

    assert "[60 rows; State: TIME-WAIT ×59, LISTEN ×1]" in shown
    assert "Transport: " not in shown


def test_columns_are_found_by_the_blanks_between_them() -> None:
    header = "Filesystem                 Size  Used Avail Use% Mounted on"
    rows = [
        f"/dev/mapper/vg0-lv{number:<8} {100 + number}G   {number % 9}G  {900 - number}G  {number:>2}% /srv/vol{number}"
        for number in range(60)
    ]
    wrapped = [
        "nfs.internal.example:/export/a/very/long/path",
        "                           2.0T  1.9T  100G 100% /mnt/nfs",
    ]

    shown = condense_structurally("\n".join([header, *rows[:20], *wrapped, *rows[20:]]), 300, "which one is full").text

    assert "Filesystem Size Used Avail Use% Mounted on [" in shown
    assert "[61 rows; Size: 100G – 159G, 2.0T ×1]" in shown
    assert "nfs.internal.example:/export/a/very/long/path\n2.0T 1.9T 100G 100% /mnt/nfs" in shown


def test_a_wide_command_is_cut_and_not_left_out() -> None:
    header = "USER         PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND"
    options = " ".join(f"-Dapp.option{number}=/var/lib/value{number}" for number in range(12))
    rows = [
        f"app      {100 + number:>7}  0.{number % 10}  1.0  {10000 + number}  {4000 + number} ?        Sl   08:00   0:00 java-{number} {options}"
        for number in range(60)
    ]

    shown = condense_structurally("\n".join([header, *rows]), 500, "").text

    assert "STAT START TIME COMMAND [" in shown or "COMMAND [" in shown
    assert all(" java-" in line for line in shown.split("\n") if line.startswith("app "))


def test_rows_that_differ_in_the_number_of_their_name_only_are_counted() -> None:
    rows = [f"SKU-{number:05},{5 if number != 171 else 0},9.99,north" for number in range(250)]
    text = "\n".join(["sku,qty,price,warehouse", *rows])

    shown = condense_structurally(text, 300, "").text

    assert shown.count("SKU-") <= 4
    assert "SKU-00171,0,9.99,north" in shown
    assert re.search(r"SKU-\d+,5,9.99,north ×\d+", shown)
    assert "SKU-00042," in condense_structurally(text, 300, "what about SKU-00042").text


def test_a_key_that_all_rows_share_is_no_value_of_theirs() -> None:
    header = "import time: self [us] | cumulative | imported package"
    rows = [
        f"import time: {number * 37 % 999:>9} | {number * 61 % 9999:>10} |   module{number}" for number in range(200)
    ]
    rows[120] = "import time:     60997 |      70997 |   slow_one"

    shown = condense_structurally("\n".join([header, *rows]), 300, "which module took the longest").text

    assert f"{header} [" in shown
    assert "– 60997" in shown or "60997 ×1" in shown
    assert "import time: 60997 | 70997 | slow_one" in shown
