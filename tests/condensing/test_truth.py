"""Statements about condensed texts, recomputed from the source: each kind that was once wrong, and the search for all.

`python -m bench.truth` searches the same classes over every text of the yardstick and the generator.
"""

import json
import re
from dataclasses import replace
from random import Random

import pytest

from bench import truth, truth_marks, truth_trees
from tersely import condense
from tersely.condensing.account import Account, LineClasses
from tersely.condensing.detect import kind_of
from tersely.condensing.focus import Focus
from tersely.condensing.pack import shorten
from tersely.condensing.room import condense_with_end
from tersely.condensing.structural import condense_structurally
from tersely.condensing.templates import SAME_BUT_VALUES
from tersely.shapes.tables import table_parts


@pytest.mark.slow
def test_the_search_finds_no_wrong_statement_in_generated_texts() -> None:
    every = list(truth.generated_texts())
    texts = [*every[::7], *list(truth.in_sections(every))[::11]]
    assert [finding for text in texts for finding in truth.findings_in(text, 300)] == []


def test_the_search_finds_statements_that_are_wrong() -> None:
    """Each check of the search fails on a text that says what is not so."""
    lines = [f"2024-05-0{1 + at % 9} 10:00:00 INFO worker finished job {at}" for at in range(200)]
    true = condense_structurally("\n".join(lines), 300, "")
    assert list(truth.wrong_counts(true, lines)) == []
    assert list(truth.wrong_counts(true, lines[:50]))
    assert list(truth.wrong_account(true, lines)) == []
    assert list(truth.wrong_account(true, lines[1:]))
    found = truth_trees.of_json('[{"a": "x", "b": 1}, {"a": "y", "b": 2}]')
    assert found is not None
    assert list(truth_trees.unknown_values("- a: x, b: 1", found)) == []
    assert list(truth_trees.unknown_values("- a: x, b: 2", found)) == ["- a: x, b: 2"]
    assert list(truth_trees.wrong_value_counts("[2 records; a: x ×1, y ×1]", found)) == []
    assert list(truth_trees.wrong_value_counts("[2 records; a: x ×2]", found))
    later = ["2031-01-01 10:00:00 INFO worker finished job 7", *lines]
    assert list(truth.wrong_times(true, later))
    assert list(truth.times_without_days(true, lines)) == []
    assert list(truth.times_without_days(replace(true, text="job 7 done ×9 [10:00:00]"), lines))
    assert list(truth.wrong_levels(replace(true, text="200 lines; INFO 190 ERROR 11; host a"), lines))
    assert list(truth.wrong_order(replace(true, text=f"{lines[4]}\n{lines[9]}"), lines)) == []
    assert list(truth.wrong_order(replace(true, text=f"{lines[9]}\n{lines[4]}"), lines))
    report = truth_trees.of_xml('<r><testcase name="a"><skipped message="x"/></testcase><testcase name="b"/></r>')
    assert report is not None
    assert list(truth_trees.unmarked_outcomes("r:\n testcase: name: a\n  skipped: message: x", report)) == []
    assert list(truth_trees.unmarked_outcomes("r:\n testcase: name: a", report))


def test_reports_and_configuration_are_no_web_pages() -> None:
    report = "\n".join(
        f">> Issue: [B{100 + at % 9}:check] Use of something unsafe was detected here and it should be replaced by the "
        f"safer call instead.\n   Severity: {'High' if at == 37 else 'Low'}   Confidence: High\n"
        f"   Location: app/mod{at}.py:{10 + at}:4\n{10 + at}\tx = eval(data{at})\n---------------"
        for at in range(60)
    )
    condensed = condense(report, 1000, "Which findings are of high severity?")
    assert condensed.kind not in ("page", "html")
    assert "app/mod37.py:47:4" in condensed.text
    assert "menus" not in condensed.text


def test_a_count_stands_for_lines_that_differ_in_values_only() -> None:
    names = ("libudev1", "libsystemd0", "libicu72", "libpam0g", "libcap2")
    lines = [f"2024-01-{1 + at % 28:02} 10:00:00 status installed package:amd64 1.{at}" for at in range(300)]
    for name in names:
        lines.insert(Random(name).randrange(300), f"2024-01-05 10:00:01 upgrade {name}:amd64 252.36 252.38")
    condensed = condense("\n".join(lines), 400, "")
    for name in names:
        assert f"upgrade {name}:amd64 252.36 252.38" in condensed.text
    assert "upgrade" not in "".join(line for line in condensed.text.split("\n") if "×" in line)


def test_a_range_of_times_goes_from_the_earliest_to_the_latest() -> None:
    text = "\n".join(
        f"2024-0{1 + (at * 7) % 9}-11 10:00:{at % 60:02} INFO worker finished job {at}" for at in range(400)
    )
    head = condense(text, 200, "").text.split("\n")[0]
    assert "2024-01-11 10:00:00 – 2024-09-11 10:00" in head


def test_a_line_that_was_torn_apart_does_not_spoil_the_range_of_times() -> None:
    lines = [f"2026-11-15T10:{at // 60:02}:{at % 60:02}Z INFO api GET /cart/{at} 200" for at in range(900)]
    torn = f"{lines[500][:15]}{lines[501]}"
    head = condense("\n".join([*lines[:500], torn, *lines[500:]]), 200, "").text.split("\n")[0]
    assert "2026-11-15T10:00:00Z – 2026-11-15T10:14:59Z" in head


@pytest.mark.parametrize("form", ["step={} status=ok", "{}% done", "row {} of orders: ok"])
def test_lines_that_differ_in_one_number_come_back_as_one_line_with_its_count(form: str) -> None:
    condensed = condense("\n".join(map(form.format, range(3_000))), 200, "")
    assert f"{form.format(0)} ×3000" in condensed.text.split("\n")


@pytest.mark.parametrize("line", ["Retrying in 5 seconds...", "worker: connection refused", "same line here"])
def test_copies_of_a_line_are_one_line_with_its_count(line: str) -> None:
    condensed = condense(f"{line}\n" * 5_000, 300, "")
    assert condensed.text.split("\n")[-1] == f"{line} ×5000"
    assert condensed.account.folded == ((2, 5_000),)
    assert condensed.lost == []


@pytest.mark.parametrize(
    "line",
    [
        "migrating row {} of orders: ok",
        "copied object {} of bucket-a and checked it",
        "{}: all is well",
        "item{}: all is well",
        "{}.0% done",
    ],
)
def test_lines_that_differ_only_in_a_value_are_one_line_with_its_count(line: str) -> None:
    condensed = condense("".join(line.format(at) + "\n" for at in range(1_500)), 300, "")
    assert condensed.text.split("\n")[1] == f"{line.format(0)} ×1500"
    assert condensed.lost == []


def test_copies_of_a_few_lines_with_keys_are_no_records() -> None:
    lines = ["worker: connection refused" if at % 3 else "server: ready" for at in range(3_000)]
    lines[1_000:1_000] = ["client: connection refused", "client: ready"] * 500
    condensed = condense("\n".join(lines), 300, "")
    assert condensed.text.split("\n")[1:] == [
        "server: ready ×1000",
        "worker: connection refused ×2000",
        "client: connection refused ×500",
        "client: ready ×500",
    ]


def test_a_unit_that_shows_nothing_of_its_line_does_not_show_it_in_part() -> None:
    """The list of all resources begins with the first one."""
    blocks = [f'resource "build" "{Random(at).randbytes(6).hex()}" {{\n  size = {at}\n}}\n' for at in range(300)]
    condensed = condense("\n".join(blocks), 300, "What is the size 250 of?")
    first = blocks[0].split("\n")[0]
    assert first not in condensed.text
    assert not any(start <= 1 <= end for start, end in condensed.account.partial)


def test_what_is_lost_is_said_once_and_as_the_account_has_it() -> None:
    lines = [
        f"{at} {Random(at).randbytes(12).hex()} {Random(at).choice(('alpha', 'beta', 'gamma'))}" for at in range(900)
    ]
    condensed = condense("\n".join(lines), 400, "")
    lost = sum(last - first + 1 for first, last in condensed.account.lost)
    assert condensed.text.count("left out") == 1
    assert f"{lost:,} of 900 lines" in condensed.text
    assert condensed.lost[0].lines == condensed.account.lost


def test_a_budget_is_used_while_text_is_lost() -> None:
    text = "\n".join(f"section {at}: {'word ' * (at % 17)}end {at}" for at in range(2_000))
    condensed = condense(text, 1_000, "section 1234")
    assert condensed.account.lost
    assert condensed.tokens_after > 700


def test_a_text_that_fits_is_shown_whole() -> None:
    condensed = condense("one\n\ntwo\r\nthree\n", 100, "")
    assert condensed.account.shown == ((1, 4),)
    assert condensed.account.total == 4
    assert not (condensed.account.partial or condensed.account.folded or condensed.account.lost)


def test_a_part_of_a_long_text_never_joins_lines() -> None:
    text = "\n".join(f"line {at} of the paragraph, with words like {Random(at).randbytes(9).hex()}" for at in range(60))
    shown = shorten(text, 150, focus=Focus.parse("line 41"))
    assert "line 41" in shown
    for line in shown.split("\n"):
        pieces = [piece.strip() for piece in line.split("…") if piece.strip()]
        assert not pieces or any(all(piece in own for piece in pieces) for own in text.split("\n")), line


def test_lines_of_a_block_in_yaml_stay_lines() -> None:
    script = "\n".join(f"      echo step {at} {Random(at).randbytes(8).hex()}" for at in range(40))
    text = f"jobs:\n  build:\n    run: |\n{script}\n" + "".join(
        f"  job{at}:\n    name: n{at}\n    image: i{at}\n" for at in range(60)
    )
    condensed = condense_structurally(text, 300, "step 23")
    assert "echo step 23" in condensed.text
    assert "run: |\n" in condensed.text
    assert max(line.count("echo step") for line in condensed.text.split("\n")) == 1


def test_documents_of_yaml_open_as_they_are_written() -> None:
    text = "---\n".join(
        f"kind: Pump\nmetadata:\n  name: pump-{at}\n  zone: z{at % 3}\nspec:\n  flow: {at * 7 % 90}\n"
        for at in range(80)
    )
    condensed = condense_structurally(text, 300, "flow of pump-41")
    assert "---\nmetadata:\n name: pump-41\n" in condensed.text.replace("kind: Pump\n", "").replace("…\n", "")
    assert "-\n" not in condensed.text.replace("---\n", "")
    named = text.split("\n").index("  name: pump-41")
    lost = {at for first, last in condensed.account.lost for at in range(first, last + 1)}
    assert named not in lost  # The line `metadata:` above the name is shown.


def test_a_line_whose_text_is_shown_elsewhere_is_not_lost() -> None:
    classes = LineClasses(["Colours of the soul", "menu", "# [Colours of the soul](https://a.example)"])
    classes.find_elsewhere("# Colours of the soul")
    assert classes.account().shown == ((1, 1),)


def test_closing_tags_belong_to_the_element_that_is_shown() -> None:
    rows = "".join(
        f"  <plot>\n    <name>plot-{at}</name>\n    <yield>{at * 7 % 50}t</yield>\n  </plot>\n" for at in range(90)
    )
    condensed = condense_structurally(f"<field-plots>\n{rows}</field-plots>\n", 200, "yield of plot-61")
    assert "field-plots" in condensed.text
    assert condensed.account.lost[-1][1] < condensed.account.total


def test_a_described_thing_is_an_outline_although_tables_and_labels_are_longer() -> None:
    labels = "\n".join(f"                    example.io/{name}={at}" for at, name in enumerate("abcdefghijklmnopqrst"))
    rows = "\n".join(f"  shop       web-{at}-x        {at}m (1%)   64Mi (1%)  {at}d" for at in range(80))
    text = (
        f"Name:               worker-3\nRoles:              <none>\nLabels:             kubernetes.io/arch=arm64\n{labels}\n"
        "Taints:             node.kubernetes.io/disk-pressure:NoSchedule\nUnschedulable:      false\nConditions:\n"
        "  Type             Status  Reason                      Message\n"
        "  MemoryPressure   False   KubeletHasSufficientMemory  kubelet has sufficient memory\n"
        "  DiskPressure     True    KubeletHasDiskPressure      kubelet has disk pressure\n"
        f"Addresses:\n  Hostname:    worker-3\nNon-terminated Pods:  (80 in total)\n{rows}\n"
    )
    assert kind_of(text) == "outline"
    assert "KubeletHasDiskPressure" in condense_structurally(text, 400, "Why are no pods scheduled on this node?").text


def test_a_field_that_is_an_object_is_not_said_to_be_absent() -> None:
    records = [{"name": f"n{at}", "contents": None if at % 20 else {"kind": "deep"}} for at in range(80)]
    condensed = condense_structurally(json.dumps(records, indent=1), 300, "contents null")
    assert "contents: null ×76, nested ×4]" in condensed.text
    assert "absent" not in condensed.text.split("\n")[0]


def test_records_of_yaml_inside_a_string_stay_apart() -> None:
    inner = "BUILDS:\n" + "".join(f"- ID: {at}\n  RUNNER: arm{at % 7}\n  TESTS: {at * 31}\n" for at in range(120))
    condensed = condense_structurally(json.dumps({"content": [{"type": "text", "text": inner}]}), 300, "ID 77 tests")
    assert condensed.text.count("ID: ") == condensed.text.count("- ID: ") > 0


def _table_of_packages(rows: int) -> str:
    """Rows like those of `dpkg -l`."""
    words = ("shared", "library", "daemon", "tool", "runtime", "headers", "filter", "parser", "driver", "cache")
    lines = [
        "||/ Name                Version        Architecture Description",
        "+++-===================-==============-============-===========",
    ]
    for at in range(rows):
        draw = Random(at)
        said = " ".join(draw.choices(words, k=3 + at % 6))
        version = f"{at % 7}.{at % 11}-{at % 5}"
        lines.append(f"ii  {f'lib{draw.choice(words)}{at}':<19} {version:<14} amd64        {said}")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("focus", ["driver cache", "Which library has headers?", "parser 17", "tool filter daemon 311"])
@pytest.mark.parametrize("budget", [300, 500, 1000])
def test_rows_shown_of_a_table_are_counted_however_they_came_to_be_shown(focus: str, budget: int) -> None:
    csv = "id,name,note\n" + "".join(
        f"{at},item{at},{' '.join(Random(at).choices(('driver', 'cache', 'parser', 'tool', 'sand'), k=3))}\n"
        for at in range(3_000)
    )
    for text in (_table_of_packages(850), csv):
        condensed = condense_structurally(text, budget, focus)
        assert list(truth.wrong_counts(condensed, text.split("\n"))) == []


def test_the_search_finds_rows_that_are_not_counted() -> None:
    lines = ["NAME STATE AGE", *(f"web-{at} Running {at}d" for at in range(90))]
    true = replace(condense_structurally("\n".join(lines), 40, ""), kind="table")
    rows = "web-1 Running 1d\n…\nweb-7 Running 7d"
    assert list(truth.wrong_counts(replace(true, text=f"NAME STATE AGE [2 of 90]\n{rows}"), lines)) == []
    for wrong in (1, 3):
        assert list(truth.wrong_counts(replace(true, text=f"NAME STATE AGE [{wrong} of 90]\n{rows}"), lines))


def test_the_search_finds_matches_that_are_not_counted() -> None:
    lines = [f"src/a.py:{at}: call({at})" for at in range(1, 60)]
    true = replace(condense_structurally("\n".join(lines), 40, ""), kind="grep")
    shown = " 3: call(3)\n…\n 9: call(9)\nsrc/b.py [0 of 7]"
    assert list(truth.wrong_counts(replace(true, text=f"src/a.py [2 of 59]\n{shown}"), lines)) == []
    assert list(truth.wrong_counts(replace(true, text=f"src/a.py [1 of 59]\n{shown}"), lines))


def test_a_row_is_not_the_header_of_the_rows_below_it() -> None:
    """Not aligned with its header, a table is read without one."""
    words = ("shared", "library", "daemon", "tool", "runtime", "headers", "filter", "parser", "driver", "cache")
    lines = ["||/ Name                Version        Architecture Description"]
    for at in range(400):
        draw = Random(at)
        said = " ".join(draw.choices(words, k=3 + at % 6))
        lines.append(f"ii  lib{draw.choice(words)}{at:<12} {at % 7}.{at % 11}-{at % 5:<8} amd64        {said}")
    tables = [part.table for part in table_parts("\n".join(lines)) if part.table]
    assert not [table for table in tables if table.header_text.startswith("ii")]


@pytest.mark.parametrize("title", ["==> {}.log <==", "$ cat {}.log", "=== {} ==="])
def test_a_blank_line_before_the_next_title_is_no_line_of_the_part(title: str) -> None:
    first = "\n".join(f"2024-05-01 10:{at // 60:02}:{at % 60:02} INFO worker finished job {at}" for at in range(500))
    second = "\n".join(f'10.0.0.{at % 200} - - "GET /x{at % 9} HTTP/1.1" 200 {at}' for at in range(500))
    text = f"{title.format('a')}\n{first}\n\n{title.format('b')}\n{second}\n"
    shown = condense_structurally(text, 400, "which job?").text
    assert "\n500 lines;" in shown


def test_identifiers_in_hexadecimal_are_values_and_names_are_not() -> None:
    for one, other in (
        ("session decfcc3f closed", "session 0a1b2c3d closed"),
        ("session fadcbe7c closed", "session abcdef3a closed"),
        ("id 3f2a9c1e-fab3-4dc2-8abc-decfab3fdead gone", "id 77aa9c1e-0123-4dc2-9abc-112233445566 gone"),
        ("commit abcdefa7c fetched", "commit 1234567 fetched"),
    ):
        assert SAME_BUT_VALUES.sub("#", one) == SAME_BUT_VALUES.sub("#", other)
    for one, other in (("libudev1", "libsystemd0"), ("facade1", "decade2"), ("upgrade cafe12", "upgrade face12")):
        assert SAME_BUT_VALUES.sub("#", one) != SAME_BUT_VALUES.sub("#", other)


def test_identifiers_are_not_listed_as_variants_of_a_line() -> None:
    lines = [
        f"2024-05-01 10:{at // 60:02}:{at % 60:02} INFO cache entry {Random(at).randbytes(4).hex()} was evicted after use"
        for at in range(400)
    ]
    condensed = condense_structurally("\n".join(lines), 300, "")
    assert "(also" not in condensed.text
    assert re.search(r" evicted after use ×39\d", condensed.text)
    assert condensed.text.count("evicted") <= 4


def test_points_in_the_plane_are_no_values_at_times() -> None:
    arcs = [[[Random(at).randrange(9_000), Random(-at).randrange(9_000)] for at in range(n, n + 20)] for n in range(40)]
    assert " @" not in condense_structurally(json.dumps({"type": "Topology", "arcs": arcs}), 300, "").text
    taken = [{"name": f"m{n}", "values": [[1_700_000_000 + 60 * at, at * n] for at in range(40)]} for n in range(40)]
    assert " @1700002340" in condense_structurally(json.dumps(taken), 300, "").text


def test_the_end_of_a_failed_command_is_not_repeated_for_a_separator() -> None:
    """Rules and blank lines say nothing about a failure; a message that would be missing is shown again."""
    passed = "".join(f"tests/test_part.py::test_{at} PASSED [ {at // 10}%]\n" for at in range(800))
    summary = "=" * 20 + " short test summary info " + "=" * 20
    end = f"\n{summary}\nFAILED tests/test_part.py::test_refund - KeyError: 'total'\n== 1 failed, 800 passed in 1.04s ==\n"
    text = f"==== test session starts ====\n{passed}{end}"
    condensed = condense_with_end(text, 600)
    assert condensed.text.count("1 failed, 800 passed") == 1 and "KeyError: 'total'" in condensed.text
    assert (
        "the very last word"
        in condense_with_end("".join(f"{at}\n" for at in range(4_000)) + "the very last word\n", 300).text
    )


@pytest.mark.parametrize("ending", ["---\n", "---\n# end\n", "...\n", ""])
def test_a_separator_after_the_last_document_of_yaml_opens_no_record(ending: str) -> None:
    documents = [f"kind: ConfigMap\nname: config-{number}\nlevel: info\n" for number in range(40)]
    condensed = condense_structurally("---\n".join(documents) + ending, 200, "which have another level").text
    assert "[40 records; level: info ×40]" in condensed
    assert "41" not in condensed


def test_an_item_opens_with_its_values_although_objects_precede_them() -> None:
    findings = [
        {
            "Severity": {"Label": "CRITICAL" if at == 17 else "LOW"},
            "Resources": [{"Type": "AwsS3Bucket", "Id": f"arn:aws:s3:::bucket-{at}"}],
            "Title": f"Bucket {at} should block public access",
        }
        for at in range(40)
    ]
    condensed = condense_structurally(json.dumps({"Findings": findings}, indent=1), 500, "which are critical").text
    assert "- Title: Bucket 17 should block public access\n  Severity: Label: CRITICAL" in condensed
    assert not any(line.strip() == "-" for line in condensed.split("\n"))


@pytest.mark.parametrize(
    "form", ["<text>{}</text>", "<text>\n{}\n</text>", "<text><![CDATA[{}]]></text>", "{}<b>x</b>"]
)
def test_a_shown_line_of_a_text_in_xml_is_not_lost(form: str) -> None:
    entries = [
        f'<entry id="{at}">'
        + form.format("\n".join(f"line {line} of entry {at} says {at * line}" for line in range(12)))
        + "</entry>"
        for at in range(30)
    ]
    text = "<feed>\n" + "\n".join(entries) + "\n</feed>\n"
    condensed = condense_structurally(text, 300, "what does line 7 of entry 11 say")
    lost = [at for first, last in condensed.account.lost for at in range(first, last + 1)]
    assert not [line for at in lost if (line := text.split("\n")[at - 1]) in condensed.text and "says" in line]


def test_keys_whose_colons_are_below_each_other_are_fields_of_one_record() -> None:
    files = [
        f"  File: /etc/file-{at}\n  Size: {at * 7 + 3}\nDevice: 254,0\n Owner: user-{at % 3}\nAccess: 0644"
        for at in range(40)
    ]
    condensed = condense_structurally("\n".join(files), 200, "who owns /etc/file-31").text
    assert "of 40]" in condensed or "[40 records" in condensed
    assert "41" not in condensed
    shown = [" ".join(line.split()) for line in condensed.split("\n")]
    at = shown.index("File: /etc/file-31")
    assert shown.index("Owner: user-1", at) <= at + 4


@pytest.mark.parametrize("name", [name for name, _ in truth_marks.repeating_texts()])
def test_repetition_headings_and_pairs_are_accounted_as_they_are_shown(name: str) -> None:
    text = truth.Text(name, dict(truth_marks.repeating_texts())[name], "")
    assert [finding for budget in truth.BUDGETS for finding in truth.findings_in(text, budget)] == []


def test_the_search_finds_missing_marks_and_equal_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"{'same line' if at % 9 else 'other line'} here" for at in range(90)]
    lost = Account(shown=((1, 4),), lost=((5, 90),), total=90)
    plain = replace(condense_structurally("\n".join(lines), 300), text="\n".join(lines[:4]), kind="text", account=lost)
    assert list(truth_marks.unfolded_lines(plain, lines))
    assert list(truth_marks.unfolded_lines(replace(plain, text="same line here ×80"), lines)) == []
    unmarked = replace(plain, lost=lost.summary(), tokens_after=12)
    monkeypatch.setattr(truth_marks, "condense_structurally", lambda *_, **__: unmarked)
    assert len(list(truth_marks.texts_without_marks("\n".join(lines), "", 0))) == len(truth_marks.SMALL_BUDGETS)
    monkeypatch.setattr(
        truth_marks, "condense_structurally", lambda *_, **__: replace(unmarked, text="a\n[… 86 lines]")
    )
    assert list(truth_marks.texts_without_marks("\n".join(lines), "", 0)) == []
    short = ["app/m.js", "x", *lines]
    shown = Account(shown=((2, 92),), lost=((1, 1),), total=92)
    assert ("said to be lost and is shown", short[0]) in truth.wrong_account(
        replace(plain, text="\n".join(short), account=shown), short
    )
