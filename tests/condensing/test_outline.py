"""YAML, described things and key-value text are read as trees."""

import re

import pytest

from tersely.condensing.focus import Focus
from tersely.condensing.pack import pack
from tersely.condensing.readers import outlines, xml_documents, yaml_documents
from tersely.condensing.readers.outlines import _has_spaced_colon
from tersely.condensing.structural import condense_structurally
from tersely.condensing.trees.shape import TreeShape
from tersely.condensing.units import Reading
from tersely.shapes.outlines import parse


def shown(reading: Reading | None, question: str, budget: int = 150) -> str:
    assert reading is not None
    return pack(reading, budget, focus=Focus.parse(question)).text


def near(text: str, first: str, second: str) -> bool:
    start = text.find(first)
    return start >= 0 and 0 <= text.find(second, start) - start <= 160


def test_a_key_of_yaml_is_shown_under_the_keys_it_stands_under() -> None:
    text = "services:\n" + "".join(
        f"  web-{n}:\n    image: shop:{n}\n    ports:\n      - {8000 + n}\n      - 443\n" for n in range(60)
    )
    focus = Focus.parse("image of web-41")
    assert near(shown(yaml_documents.read(text, focus, 150), focus.text), "web-41", "shop:41")


def test_documents_of_yaml_are_records() -> None:
    text = "---\n".join(f"kind: Pod\nmetadata:\n  name: pod-{n}\nspec:\n  node: n{n % 3}\n" for n in range(50))
    text = text.replace("pod-30\nspec:\n  node: n0", "pod-30\nspec:\n  node: elsewhere")
    focus = Focus.parse("anything unusual?")
    assert near(shown(yaml_documents.read(text, focus, 150), focus.text), "pod-30", "elsewhere")


def test_block_scalars_and_tags_are_no_obstacle() -> None:
    text = "script: |\n  first line\n  echo needle-9\nmode: !!str fast\nlist:\n- a\n- b\nafter: 7\n"
    focus = Focus.parse("needle-9 after")
    line = shown(yaml_documents.read(text, focus, 100), focus.text, 100)
    assert "needle-9" in line and "after: 7" in line


@pytest.mark.parametrize(
    "record",
    [
        "Name        : {name}\nVersion     : {value}\nVendor      : ACME\n\n",
        "[{name}]\nversion = {value}\nvendor = ACME\n",
        "package {name}\n    version -> {value}\n    vendor -> ACME\n",
        "* {name}\n  * version: {value}\n  * vendor: ACME\n",
        "pkg.{name}.version={value}\npkg.{name}.vendor=ACME\n",
    ],
)
def test_a_field_is_found_with_its_record_whatever_the_format(record: str) -> None:
    text = "".join(record.format(name=f"tool-{n:02d}", value=f"{n}.{n * 7}.1") for n in range(60))
    focus = Focus.parse("What is the version of tool-37?")
    assert near(shown(outlines.read(text, focus, 150), focus.text), "tool-37", "37.259.1")


def test_elements_and_attributes_of_xml_are_found_with_their_owner() -> None:
    text = (
        "<list>"
        + "".join(f'<item id="part-{n}"><size>{n * 11}</size><note>kept &amp; dry</note></item>' for n in range(60))
        + "</list>"
    )
    focus = Focus.parse("Which item has the highest size?")
    assert near(shown(xml_documents.read(text, focus, 150), focus.text), "part-59", "649")
    assert "kept & dry" in shown(xml_documents.read(text, Focus.parse("note of part-7"), 150), "note of part-7")


@pytest.mark.parametrize(
    "text",
    ["- - - a", "a:\n b:\n  c:", ":", "- ", "a: |", "<a><b></a></c>", "<a", "\t- x\n\t\t- y: 1", "[x]\n[y]\n[z]\n"],
)
def test_odd_texts_are_taken_as_they_come(text: str) -> None:
    for read in (yaml_documents.read, outlines.read, xml_documents.read):
        reading = read(text, Focus.parse("a"), 30)
        assert reading is None or pack(reading, 30).tokens <= 30


def test_a_list_that_begins_and_ends_in_the_middle_of_a_record_is_read_by_records() -> None:
    items = "".join(f"    - name: crate-{n}\n      weight: {n}.5\n      colour: grey\n" for n in range(80))
    text = items[30:-20]
    focus = Focus.parse("weight of crate-41")
    assert near(shown(outlines.read(text, focus, 150), focus.text), "crate-41", "41.5")


def test_a_record_is_named_by_the_field_that_only_a_cut_has_taken() -> None:
    records = [
        f"    - plot: field-{number}\n      keeper: {KEEPERS[number % 7]} {KEEPERS[number % 5]}\n"
        f"      soil: {'clay' if number == 23 else 'loam'}"
        for number in range(60)
    ]
    text = "\n".join(records)[8:]
    assert near(shown(yaml_documents.read(text, Focus.parse("not loam"), 120), "not loam"), "field-23", "clay")


KEEPERS = ("Ada", "Bela", "Chidi", "Dalia", "Emil", "Freya", "Gita")


def test_events_that_differ_in_figures_only_are_shown_once() -> None:
    events = [
        f"  Warning  BackOff  {number}m (x{number} over 3h)   kubelet  Back-off restarting web"
        for number in range(1, 60)
    ]
    events[20] = "  Warning  Failed   20m                 kubelet  Error: image not found"
    text = "Name:      web\nNamespace: shop\nStatus:    Pending\nEvents:\n" + "\n".join(events)
    answer = shown(outlines.read(text, Focus.parse("why is web pending"), 200), "why is web pending")
    assert "Error: image not found" in answer
    assert answer.count("Back-off restarting web") < 10


def test_sections_that_come_again_are_records_and_quoted_figures_are_figures() -> None:
    text = "\n\n".join(
        f'[[pod]]\nname = "web-{number}"\nmemory = "{900 if number == 31 else 100 + number}"' for number in range(60)
    )
    assert near(shown(outlines.read(text, Focus.parse("highest memory"), 120), "highest memory"), "web-31", "900")


def test_headings_name_the_records_below_them() -> None:
    text = "\n\n".join(
        f"### lamp-{number}\n\n**state**: {'broken' if number == 17 else 'lit'}\n**room**: {number % 9}"
        for number in range(50)
    )
    assert near(
        shown(outlines.read(text, Focus.parse("anything unusual?"), 120), "anything unusual?"), "lamp-17", "broken"
    )


NOTE = re.compile(r"^\[all .*\]$| ?\[[^\[\]]*\]$|^…$")
"""What is not from the source: counts of what is shown, statements about all records, marks of gaps."""


def lines_without_source(text: str, shown: str) -> list[str]:
    """Return the shown lines that are not lines of the source, whatever their white space."""
    source = {" ".join(re.sub(r"^(?:- )*", "", line.strip()).split()) for line in text.split("\n")}
    found = []
    for line in shown.split("\n"):
        bare = NOTE.sub("", line.strip()).strip()
        bare = " ".join(re.sub(r"^(?:- )*", "", bare).split())
        if bare and bare != "-" and bare not in source:
            found.append(line)
    return found


SYSCTL = "\n".join(
    f"net.ipv4.conf.eth{at}.{key} = {at % 3}" for at in range(40) for key in ("mtu", "arp", "forwarding")
)
SETTINGS = "\n".join(
    f"job-{at}:\n  image: repo/app:{at}\n  limits:\n    memory: {at % 5}Gi\n    cpu: {at}m\n  args:\n    - --port={at}\n    - --fast"
    for at in range(60)
)
TREE = "\n".join(f"├─┬ part-{at}@1.{at}.0\n│ ├── left-{at}@2.0.{at}\n│ └── right-{at}@3.{at}.1" for at in range(80))
PLAN = "\n".join(
    f" QUERY PLAN\n Sort  (cost={at}.10..{at}.20 rows=5)\n   Sort Key: name\n   ->  Seq Scan on t{at}  (cost=0.00..{at}.00)\n"
    f"         Filter: (id > {at})\n(5 rows)\n"
    for at in range(40)
)


@pytest.mark.parametrize("text", [SYSCTL, SETTINGS, TREE, PLAN], ids=["sysctl", "yaml", "tree", "plans"])
@pytest.mark.parametrize("question", ["", "which has memory 3Gi, part-7 or eth9 or Seq Scan on t9?"])
def test_every_shown_line_is_a_line_of_the_source(text: str, question: str) -> None:
    for budget in (150, 400, 1000):
        assert lines_without_source(text, condense_structurally(text, budget, question).text) == []


@pytest.mark.parametrize(
    ("line", "spaced"),
    [("name : x", True), ("  - name  : x", True), ("name: x", False), ("name :x", False), ("n" * 41 + " : x", False),
     ("  : x", True), (" : x", False), (" " * 5_000, False)],
)  # fmt: skip
def test_a_colon_with_blanks_on_both_sides_is_not_yaml(line: str, spaced: bool) -> None:
    assert _has_spaced_colon(line) is spaced


def test_records_are_named_by_a_value_one_level_below() -> None:
    text = "".join(
        f"Certificate:\n    Data:\n        Version: 3\n        Subject: CN = {name}.oven.example\n"
        f"        Issued: 2024-01-{at + 1:02}\n    Signature: {'weak-hash' if name == 'mail' else 'good-hash'}\n"
        + "".join(f"    Filler {line}: {at}{line}\n" for line in range(8))
        for at, name in enumerate(("www", "api", "mail", "git", "vpn", "ntp"))
    )
    reading = outlines.read(text, Focus.parse("Which certificate has a weak hash?"), 120)
    assert near(shown(reading, "Which certificate has a weak hash?", 120), "mail.oven.example", "weak-hash")


def test_long_owners_are_shown_by_their_beginnings_above_a_value_far_below() -> None:
    lines: list[str] = []
    for depth in range(12):
        lines.append(
            f"{'  ' * depth}-> Join number {depth} (cost={depth}.00..99.00 rows=4711 width=8 and further words)"
        )
        lines.append(f"{'  ' * depth}     Filter: column_{depth} is set")
    lines.append(f"{'  ' * 12}     Sort Method: external merge  Disk: 35184kB")
    text = "\n".join(lines)
    condensed = condense_structurally(text, 320, "Which sort went to disk?")
    assert re.search(r"-> Join number 11 .* …\n(.*\n)*.*external merge +Disk: 35184kB", condensed.text)


def test_a_line_above_the_first_key_names_its_own_record() -> None:
    text = "\n".join(
        f"55{n:04}000-55{n:04}fff rw-p 00000000 fe:00 {260_000 + n}\nSize:   {4 * n} kB\nRss:   {n} kB\nDirty:   0 kB"
        for n in range(1, 60)
    ).replace("Rss:   37 kB\nDirty:   0 kB", "Rss:   37 kB\nDirty:   9000 kB")
    condensed = condense_structurally(text, 200, "Which mapping is dirty?").text
    before = condensed[: condensed.rindex("9000 kB")].split("\n")
    assert [line for line in before if line.startswith("55")][-1].startswith("550037000")
    assert " of 59]" in condensed


@pytest.mark.parametrize("value", ['["no-new-privileges:true"]', '["a:1", "b:2"]', '{"cpu": "2", "memory": "3Gi"}'])
def test_values_on_the_line_of_their_key_are_shown_once(value: str) -> None:
    services = "\n".join(f"  web{n}:\n    image: web:{n}\n    tmpfs: /tmp\n    restart: always" for n in range(30))
    text = f"services:\n  cart:\n    image: cart:7\n    options: {value}\n    restart: always\n{services}\n"
    shown = condense_structurally(text, 200, "Which options has cart?").text
    assert [line.strip() for line in shown.split("\n")].count(f"options: {value}") == 1


def test_items_of_yaml_are_shown_as_they_are_written() -> None:
    items = [
        f"- image: registry.example.org/team/app-{at}:1.{at}.0\n  name: app-{at}\n  env:\n  - name: MODE\n"
        f'    value: {"debug" if at == 17 else "prod"}\n  - name: WORKERS\n    value: "{at % 9}"\n  memory: {100 + at}Mi'
        for at in range(40)
    ]
    text = "\n".join(["containers:", *items])
    source = {" ".join(line.split()) for line in text.split("\n")}
    for question in ("Which has MODE debug?", "Which has the most memory?", ""):
        shown = condense_structurally(text, 300, question).text.split("\n")
        assert not [line for line in shown if line.strip() == "-"]  # The source has a value on each of these lines.
        for line in shown:
            assert " ".join(line.split()) in source or "…" in line or "[" in line


def test_the_entry_that_was_asked_for_wins_even_if_it_has_entries_of_its_own() -> None:
    def package(name: str, *inside: str) -> list[str]:
        return [f"├─┬ {name}", *(f"│ ├── {one}" for one in inside[:-1]), f"│ └── {inside[-1]}"]

    optional = [f"UNMET OPTIONAL DEPENDENCY watcher-{number}@2.6.0" for number in range(20)]
    lines = ["shop@1.0.0"]
    for number in range(60):
        lines += package(f"lib{number}@1.{number}.0", f"util{number}@2.0.0", f"supports-color{number}@7.2.0")
    lines += package("watcher@2.6.0", *optional)
    lines += ["├─┬ terser@5.51.2", "│ ├─┬ source-map-support@0.5.21", "│ │ └── buffer-from@1.1.2", "│ └── acorn@8.19.0"]
    shown = condense_structurally("\n".join(lines), 300, "who depends on source-map-support?").text
    assert "source-map-support@0.5.21" in shown
    assert "acorn@8.19.0" in shown


def _described(rows: int = 40) -> str:
    """A described thing with labels, a table of conditions and one of events."""
    labels = "\n".join(f"{' ' * 12}team.example/label-{n}=value-{n}" for n in range(20))
    events = "\n".join(
        f"  Normal   Pulled{n:<4} {n}m   kubelet  Pulled the image of part {n} for the rack" for n in range(rows)
    )
    return (
        f"Name:       rack-7\nLabels:     team.example/first=yes\n{labels}\nStatus:     Running\nPriority:   0\n"
        "Conditions:\n  Type     Status  Reason\n  ----     ------  ------\n"
        "  Ready    False   Stalled\n  Cooled   True    Fans\n"
        f"Events:\n  Type     Reason     Age  From     Message\n  ----     ------     ---  ----     -------\n{events}\n"
        "  Warning  Stalled    2m   kubelet  Rack stalled: the fan of part 33 failed\n"
    )


def test_a_row_of_a_table_below_a_key_is_shown_below_its_header() -> None:
    for budget in (60, 80, 100, 150, 300):
        text = condense_structurally(_described(), budget, "Why did the fan of part 33 fail?").text
        lines = [" ".join(line.split()) for line in text.split("\n")]
        failed = lines.index("Warning Stalled 2m kubelet Rack stalled: the fan of part 33 failed")
        assert lines.index("Type Reason Age From Message") < failed


def test_the_header_of_a_table_is_not_shown_without_a_row() -> None:
    for budget in (80, 120, 200, 300):
        lines = condense_structurally(_described(), budget, "What is the priority of rack-7?").text.split("\n")
        for at, line in enumerate(lines):
            if line.split() == ["Type", "Status", "Reason"]:
                assert any(word in "\n".join(lines[at + 1 : at + 4]) for word in ("Ready", "Cooled"))


def test_one_label_that_has_words_of_the_question_does_not_bring_the_others() -> None:
    text = _described().replace("label-7=value-7", "zone=north-east")
    reading = outlines.read(text, Focus.parse("Is the rack in the zone north east?"), 300)
    assert reading is not None
    families = {unit.family for unit in reading.units if "/label-" in unit.text}
    assert len(families) == 1
    assert families != {None}


def test_a_pair_of_key_and_value_on_two_lines_of_yaml_is_shown_and_accounted_for() -> None:
    text = "Machines:\n" + "".join(
        f"- Id: m-{n:04}\n  Cores: {n % 3 + 2}\n  Tags:\n  - Key: Name\n    Value: web-{n}\n"
        f"  - Key: Owner\n    Value: team-{n % 4}\n"
        for n in range(80)
    )
    for budget in (300, 600, 1200):
        condensed = condense_structurally(text, budget, "Who owns web-41?")
        lines = text.split("\n")
        known = {
            at
            for runs in (condensed.account.shown, condensed.account.partial)
            for a, b in runs
            for at in range(a, b + 1)
        }
        shown = {" ".join(line.split()) for line in condensed.text.split("\n")}
        assert "Value: web-41" in shown
        for at, line in enumerate(lines, 1):
            if "Value: web-" in line and line.strip() in shown:
                assert at in known, line


def test_a_gap_before_the_first_and_after_the_last_shown_line_is_marked() -> None:
    names = [f"{first}{second}Pages" for first in "ABCDEFGH" for second in ("lazy", "anon", "file", "slab", "huge")]
    text = "\n".join(f"{name}:   {number * 7919 % 50000} kB" for number, name in enumerate(names))

    for budget in range(80, 400, 10):
        for question in ("", "anon", "slab", "Bfile"):
            whole = condense_structurally(text, budget, question).text
            shown = re.split(r"\n\[(?:left out|… other lines)", whole)[0].split("\n")
            assert shown[0].startswith(("…", "[", names[0])), (budget, question)
            assert shown[-1].startswith(("…", "[", names[-1])), (budget, question)


def test_an_empty_cell_of_a_record_is_empty() -> None:
    text = "\n".join(
        f"-[ RECORD {number} ]-----------\nid     | {number}\nstatus | {'paid' if number != 51 else 'open'}\n"
        f"note   | {'gift' if number % 9 == 0 else ''}"
        for number in range(1, 101)
    )

    assert 'note: "" ×89, gift ×11' in condense_structurally(text, 400, "note").text


def test_a_line_without_a_key_is_no_field_of_the_records() -> None:
    records = [
        f"*************************** {number}. row ***************************\n    id: {number}\nstatus: paid"
        for number in range(1, 121)
    ]
    text = "\n".join([*records, "120 rows in set (0.01 sec)", ""])

    shown = condense_structurally(text, 300, "how many rows").text

    assert "; :" not in shown
    assert "120 rows in set (0.01 sec)" in shown


def test_a_drawn_branch_keeps_its_sign_however_wide_its_columns_are() -> None:
    mounts = [f"├─/srv/data/{number:<40}proc{'':<40}proc     rw,relatime" for number in range(60)]
    text = "\n".join(
        [f"TARGET{'':<46}SOURCE{'':<38}FSTYPE   OPTIONS", f"/{'':<50}/dev/vda{'':<36}ext4     rw", *mounts]
    )

    shown = condense_structurally(text, 400, "").text

    lines = [line for line in shown.split("\n") if "/srv/data" in line]
    assert lines
    assert all("├─/srv/data" in line for line in lines)


def test_the_title_of_a_record_identifies_it() -> None:
    folders = [
        f"/etc/folder{folder}:\ntotal {folder}\n"
        + "".join(
            f"lrwxrwxrwx 1 root root  {number} Jan  8  2023 f{folder}-{number} -> /usr/bin/{folder}/{number}\n"
            for number in range(10, 40)
        )
        for folder in range(10)
    ]

    tree = parse("\n".join(folders), yaml=False)

    identity = TreeShape(tree).identity

    assert [tree.key[leaf] for leaves in identity.values() for leaf in leaves] == [
        f"/etc/folder{folder}" for folder in range(10)
    ]


def test_records_between_rules_are_records() -> None:
    text = "---\n".join(
        f"Name: package{number}\nVersion: 1.{number}\nLicense: {'MIT' if number != 7 else 'GPL'}\nRequires:\n"
        for number in range(40)
    )

    question = "which license is not MIT"
    found = shown(outlines.read(text, Focus.parse(question), 300), question, 300)

    assert "[40 records; License: MIT ×39, GPL ×1]" in found
    assert "Name: package7" in found
